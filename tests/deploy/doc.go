// Package deploy holds the tests of the files in deploy/: what the real chart, kustomize, Flux and compose make of them, read as
// strictly as Kubernetes reads it, with ExternalDNS's own flags and the built program; and of the files in .github/.
package deploy

// WEBHOOK_BINARY names the program; `just deploy-files` sets it.
