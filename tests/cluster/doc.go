// Package cluster applies what the documents and deploy/ say to Kubernetes' own API server, runs the real ExternalDNS and the
// program as the pods there would, and judges what stands at the emulator of Cloudflare.
//
// Every test has its own API server (RBAC, service accounts, PodSecurity) with etcd. There is no kubelet and no controller:
// the containers of a pod are processes that have its arguments and environment, what its Secrets hold and the token of its
// service account, and addresses and acceptance are written into `status` by the test. The emulator plays cloudflared.
//
// What begins TestMatrix is what each version of ExternalDNS can do, `just matrix`. All its trials share one API server.
//
// Environment: what package harness reads; MATRIX_RENEW, for docs/versions.md to be written anew; and
// CLOUDFLARED, which names the real cloudflared, to be started with its container's arguments.
package cluster
