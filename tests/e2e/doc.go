// Package e2e runs the real ExternalDNS against the program and an emulator of Cloudflare.
//
// Every test has its own three processes on loopback: the emulator, the program, and ExternalDNS with its connector
// source, which the test feeds. Nothing else is faked: ExternalDNS plans, asks and counts as it does in a cluster.
// Its registry crd, a second ExternalDNS in the cluster, and two routes of one hostname have Kubernetes' own API server.
// What begins TestMuseum is the museum of accidents, `just museum`.
//
// What begins TestCloudflared goes on to visitors, `just cloudflared`: package edge stands in for Cloudflare's edge, a real
// cloudflared connects there and is given what stands at the emulator, and origins of the test answer on loopback.
//
// Environment: what package harness reads; with EXTERNAL_DNS_VERSIONS only what is tried with each of several versions
// runs; and CLOUDFLARED is the binary of cloudflared, without which TestCloudflared is skipped.
package e2e
