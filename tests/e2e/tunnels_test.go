package e2e

import (
	"slices"
	"testing"
	"time"
)

// lingering is how late every write is answered, so that no state between two writes is too short to be seen.
const lingering = 100 * time.Millisecond

// A hostname that moves has two tunnels' rules and a record to change, which no one call can do.
func TestAHostnameMovesToAnotherTunnelWithoutAGap(t *testing.T) {
	t.Parallel()
	const host, stays, service = "web.example.com", "stays.example.com", "http://web.shop.svc:80"
	unavailable := map[string]any{"status": 503}

	for _, trouble := range []struct {
		name  string
		fault *fault
	}{
		{"undisturbed", nil},
		{"while no batch is done", &fault{method: "POST", path: batchPath, what: unavailable, from: 1}},
		{"while no batch but one is done", &fault{method: "POST", path: batchPath, what: unavailable, from: 2}},
		{"while no batch but two is done", &fault{method: "POST", path: batchPath, what: unavailable, from: 3}},
		{"while no configuration is written", &fault{method: "PUT", path: configurationPath, what: unavailable, from: 1}},
		{"while no configuration but one is written", &fault{method: "PUT", path: configurationPath, what: unavailable, from: 2}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			cloudflare := startEmulator(t)
			east, west := cloudflare.tunnelOfOthers(t, "east"), cloudflare.tunnelNamed(t, "handmade")
			foreignEast, foreignWest := cloudflare.foreign(t, east), cloudflare.foreign(t, west)
			// One is named by its id and one by its name.
			pod := deploy(t, cloudflare, east.id+",handmade", "REQUEST_TIMEOUT="+shortDeadline.String())
			pod.source.set(published(host, service), published(stays, service))
			pod.settles(t)
			cloudflare.publishes(t, east, host, service, `{}`)

			watched := cloudflare.watch(t, host)
			linger := func() {
				late := map[string]any{"delay_ms": lingering.Milliseconds()}
				cloudflare.inject(t, fault{method: "POST", path: batchPath, what: late})
				cloudflare.inject(t, fault{method: "PUT", path: configurationPath, what: late})
			}
			if trouble.fault != nil {
				cloudflare.inject(t, *trouble.fault)
			}
			linger()
			pod.source.set(published(host, service, property{"tunnel", "handmade"}), published(stays, service))
			if trouble.fault != nil {
				pod.failsSoftly(t, 2)
				cloudflare.lift(t)
				linger()
			}
			pod.settles(t)

			cloudflare.publishes(t, west, host, service, `{}`)
			if rules := cloudflare.rulesFor(t, east, host); len(rules) != 0 {
				t.Errorf("rules left behind: %v", rules)
			}
			wanted := []string{service + " through " + east.id, service + " through " + west.id}
			if seen := watched(); !slices.Equal(seen, wanted) {
				t.Errorf("visitors got %q", seen)
			}
			cloudflare.publishes(t, east, stays, service, `{}`)
			foreignEast.untouched(t)
			foreignWest.untouched(t)

			pod.source.set()
			pod.settles(t)
			foreignEast.alone(t)
			foreignWest.alone(t)
		})
	}
}
