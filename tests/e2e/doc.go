// Package e2e runs the real ExternalDNS against the program and an emulator of Cloudflare.
//
// Every test has its own three processes on loopback: the emulator, the program, and ExternalDNS with its connector
// source, which the test feeds. Nothing else is faked: ExternalDNS plans, asks and counts as it does in a cluster.
// Its registry crd has an API server of Kubernetes' own parts, for custom resources alone (cmd/api-server).
//
// Environment: WEBHOOK_BINARY and EMULATOR_BINARY name binaries to run; without them both are built by cargo (debug).
// EXTERNAL_DNS_BINARY and API_SERVER_BINARY likewise; without them they are built from go.mod into bin/.
// EXTERNAL_DNS_VERSIONS lists older versions, which are installed into the target folder; without it they are not tried.
package e2e
