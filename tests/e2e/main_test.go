package e2e

import (
	"os"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The version of go.mod, as an absolute path.
var externalDNSBinary string

func TestMain(m *testing.M) {
	harness.Main(m, build)
}

func build() (err error) {
	if err := harness.BuildPrograms(); err != nil {
		return err
	}
	if os.Getenv(versionsVariable) != "" {
		return nil // `just e2e-versions` runs what needs no more.
	}
	if err := harness.BuildKubernetes(); err != nil {
		return err
	}
	externalDNSBinary, err = harness.BuildExternalDNS()
	return err
}
