// Package cluster applies what the documents and deploy/ say to Kubernetes' own API server, runs the real ExternalDNS and the
// program as the pods there would, and judges what stands at the emulator of Cloudflare.
//
// Every test has its own API server (RBAC, service accounts, PodSecurity) with etcd. There is no kubelet and no controller:
// the two containers of a pod are processes that have its arguments and environment and the token of its service account,
// and addresses and acceptance are written into `status` by the test.
//
// Environment: what package harness reads.
package cluster
