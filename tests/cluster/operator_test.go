package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// operator types what the documents say: a shell with kubectl and helm, in a folder with deploy/.
type operator struct {
	folder      string
	environment []string
}

func (c *cluster) operator(t *testing.T) operator {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS(deployFolder)); err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{filepath.Dir(kubectlBinary), filepath.Dir(helmBinary), os.Getenv("PATH")}, ":")
	// Both keep what they have learnt at home.
	return operator{folder, harness.BareEnvironment("PATH="+path, "HOME="+t.TempDir(), "KUBECONFIG="+c.Kubeconfig(t))}
}

// types runs a block as it stands, with these variables, and shows what it printed.
func (o operator) types(t *testing.T, block string, variables ...string) string {
	t.Helper()
	command := exec.Command("bash", "-euo", "pipefail", "-c", block)
	command.Dir = o.folder
	command.Env = append(o.environment, variables...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

// replaced puts what an operator has in the place of a placeholder, which has to be there.
func replaced(t *testing.T, text, placeholder, value string) string {
	t.Helper()
	if !strings.Contains(text, placeholder) {
		t.Fatalf("there is no %q to replace in\n%s", placeholder, text)
	}
	return strings.ReplaceAll(text, placeholder, value)
}
