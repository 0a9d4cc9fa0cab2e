package cluster

import (
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The binaries that the harness does not start itself, as absolute paths.
var (
	externalDNSBinary string
	manifestsBinary   string
)

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
	if externalDNSBinary, err = harness.BuildExternalDNS(); err != nil {
		return err
	}
	manifestsBinary, err = harness.BuildManifests()
	return err
}
