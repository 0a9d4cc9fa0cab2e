package cluster

import (
	"fmt"
	"os"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The binaries that the harness does not start itself, as absolute paths.
var (
	externalDNSBinary string
	manifestsBinary   string
)

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "building what the tests run:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
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
