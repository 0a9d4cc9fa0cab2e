package e2e

import (
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
	if err := harness.BuildKubernetes(); err != nil {
		return err
	}
	if versions, err := harness.VersionsAsked(); len(versions) > 0 || err != nil {
		return err // `just matrix` runs what needs no more.
	}
	externalDNSBinary, err = harness.BuildExternalDNS()
	return err
}
