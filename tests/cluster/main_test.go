package cluster

import (
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The binaries that the harness does not start itself, as absolute paths.
var (
	externalDNSBinary string
	manifestsBinary   string
	kubectlBinary     string
	helmBinary        string
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
	if manifestsBinary, err = harness.BuildManifests(); err != nil {
		return err
	}
	if versions, err := harness.VersionsAsked(); len(versions) > 0 || err != nil {
		return err // `just matrix` runs what needs no more.
	}
	for _, each := range []struct {
		path  *string
		build func() (string, error)
	}{
		{&externalDNSBinary, harness.BuildExternalDNS},
		{&kubectlBinary, harness.BuildKubectl},
		{&helmBinary, harness.BuildHelm},
	} {
		if *each.path, err = each.build(); err != nil {
			return err
		}
	}
	return nil
}
