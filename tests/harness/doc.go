// Package harness runs what the tests in Go run, as processes on loopback, and looks at what they did: the program, the
// emulator of Cloudflare, the real ExternalDNS, and Kubernetes' own API server.
//
// Environment: WEBHOOK_BINARY and EMULATOR_BINARY name binaries to run; without them both are built by cargo (debug).
// EXTERNAL_DNS_BINARY, KUBE_APISERVER_BINARY, ETCD_BINARY, KUBECTL_BINARY and HELM_BINARY likewise; without them each is built once for the sources of
// its module, into the target folder. EXTERNAL_DNS_VERSIONS has the versions of ExternalDNS that `just matrix` tries, separated
// by blanks: "all", "oldest" and "newest" are words for some.
package harness
