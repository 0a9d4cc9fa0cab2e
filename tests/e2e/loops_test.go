package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// TestLoopsOfTheModel plays random loops to the real controller, its planner and its registries, and compares them with
// those that tests/support's model of ExternalDNS is held to. `just loops-renew` writes these.
func TestLoopsOfTheModel(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "tests", "externaldns", harness.Newest)
	arguments := []string{"GOTOOLCHAIN=auto", "go", "test", "-count=1", "-vet=off", "-parallel=8", ".", "-kubeconfig=" + server.Kubeconfig(t)}
	if os.Getenv("LOOPS_RENEW") != "" {
		arguments = append(arguments, "-renew")
	}
	if err := harness.Run(folder, "env", arguments...); err != nil {
		t.Error(err)
	}
}
