package e2e

import (
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// deployment is the program and ExternalDNS side by side, as one pod has them. Its settings change as they do in a
// cluster: by replacing both, while Cloudflare and the sources stay.
type deployment struct {
	*externalDNS
	program    *harness.Program
	cloudflare *emulator
	source     *connector
	tunnels    string // CF_TUNNEL_ID
	invocation
}

// invocation is how ExternalDNS is run: what is left empty is the version of go.mod, its own registry and no more flags.
type invocation struct {
	binary   string
	registry registry
	flags    []string
}

// deploy runs both for the first time.
func deploy(t *testing.T, cloudflare *emulator, tunnels string, settings ...string) *deployment {
	t.Helper()
	return deployWith(t, invocation{}, cloudflare, tunnels, settings...)
}

func deployWith(t *testing.T, invocation invocation, cloudflare *emulator, tunnels string, settings ...string) *deployment {
	t.Helper()
	if invocation.binary == "" {
		invocation.binary = externalDNSBinary
	}
	if invocation.registry == "" {
		invocation.registry = txt
	}
	made := &deployment{cloudflare: cloudflare, source: startConnector(t), tunnels: tunnels, invocation: invocation}
	made.rollOut(t, settings...)
	return made
}

// besideOthers deploys into a tunnel and a zone in which others have records and rules.
func besideOthers(t *testing.T, invocation invocation, settings ...string) (*deployment, tunnel, *foreign) {
	t.Helper()
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfOthers(t, "hand-made")
	foreign := cloudflare.foreign(t, tunnel)
	return deployWith(t, invocation, cloudflare, tunnel.ID, settings...), tunnel, foreign
}

// withEitherRegistry runs a test with each of the two that keep nothing elsewhere.
func withEitherRegistry(t *testing.T, test func(t *testing.T, invocation invocation)) {
	t.Helper()
	for _, registry := range []registry{txt, noop} {
		t.Run("with the registry "+string(registry), func(t *testing.T) {
			t.Parallel()
			test(t, invocation{registry: registry})
		})
	}
}

// rollOut replaces both, the program with these settings and no others. They end with the test that is given.
func (d *deployment) rollOut(t *testing.T, settings ...string) {
	t.Helper()
	if d.externalDNS != nil {
		d.externalDNS.Stop(t)
		d.program.Stop(t)
	}
	d.program = harness.StartProgram(t, d.cloudflare.Emulator, d.tunnels, settings...)
	d.externalDNS = startExternalDNS(t, d.invocation, d.source, d.program)
}

// settles awaits the fixed point and sees it last.
func (d *deployment) settles(t *testing.T) {
	t.Helper()
	d.settle(t, d.cloudflare)
}
