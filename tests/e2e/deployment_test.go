package e2e

import "testing"

// deployment is the program and ExternalDNS side by side, as one pod has them. Its settings change as they do in a
// cluster: by replacing both, while Cloudflare and the sources stay.
type deployment struct {
	*externalDNS
	program    *program
	cloudflare *emulator
	source     *connector
	tunnels    string   // CF_TUNNEL_ID
	binary     string   // of ExternalDNS
	registry   registry // of ExternalDNS, as are the flags
	flags      []string
}

// deploy runs both for the first time.
func deploy(t *testing.T, cloudflare *emulator, tunnels string, settings ...string) *deployment {
	t.Helper()
	return deployWith(t, externalDNSBinary, nil, cloudflare, tunnels, settings...)
}

func deployWith(t *testing.T, binary string, flags []string, cloudflare *emulator, tunnels string, settings ...string) *deployment {
	t.Helper()
	made := &deployment{
		cloudflare: cloudflare,
		source:     startConnector(t),
		tunnels:    tunnels,
		binary:     binary,
		registry:   txt,
		flags:      flags,
	}
	made.rollOut(t, settings...)
	return made
}

// rollOut replaces both, the program with these settings and no others. They end with the test that is given.
func (d *deployment) rollOut(t *testing.T, settings ...string) {
	t.Helper()
	if d.externalDNS != nil {
		d.externalDNS.stop(t)
		d.program.stop(t)
	}
	d.program = startProgram(t, d.cloudflare, d.tunnels, settings...)
	d.externalDNS = runExternalDNS(t, d.binary, d.source, d.program, d.registry, d.flags...)
}

// settles awaits the fixed point and sees it last.
func (d *deployment) settles(t *testing.T) {
	t.Helper()
	d.settle(t, d.cloudflare)
}
