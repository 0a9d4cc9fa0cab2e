// Package deploy holds the tests of the files in deploy/, and of those for GitHub: what the real chart, kustomize and compose make of them, read as
// strictly as Kubernetes reads it, with ExternalDNS's own flags and the built program.
package deploy

// WEBHOOK_BINARY names the program; `just deploy-files` sets it.
