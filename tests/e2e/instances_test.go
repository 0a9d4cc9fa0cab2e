package e2e

import "testing"

// Two clusters that were set up from the same guide: both with every default, each with a tunnel of its own.
func TestTwoInstancesWithDefaultSettingsInOneZoneLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		cloudflare := startEmulator(t)
		east, west := cloudflare.TunnelNeverConfigured(t, "east"), cloudflare.TunnelNeverConfigured(t, "west")
		eastPod := deployWith(t, invocation, cloudflare, east.ID)
		westPod := deployWith(t, invocation, cloudflare, west.ID)

		settleBoth := func(t *testing.T) {
			t.Helper()
			// First both, because each one's quiet is measured by the writes of both.
			eastPod.reachesFixedPoint(t)
			westPod.reachesFixedPoint(t)
			eastPod.staysQuiet(t, cloudflare)
			westPod.staysQuiet(t, cloudflare)
		}
		eastPod.source.set(
			published("one.east.example.com", "http://one.svc:80"),
			published("two.east.example.com", "http://two.svc:80"),
		)
		westPod.source.set(
			published("one.west.example.com", "http://one.svc:80"),
			published("two.west.example.com", "http://two.svc:80"),
		)

		t.Run("each publishes its own and keeps the other's", func(t *testing.T) {
			settleBoth(t)
			for _, name := range []string{"one", "two"} {
				cloudflare.Publishes(t, east, name+".east.example.com", "http://"+name+".svc:80", `{}`)
				cloudflare.Publishes(t, west, name+".west.example.com", "http://"+name+".svc:80", `{}`)
			}
		})

		t.Run("each shows external-dns only its own", func(t *testing.T) {
			for _, pod := range []*deployment{eastPod, westPod} {
				if shown := pod.MustMetric(t, `external_dns_registry_records{record_type="cname"}`); shown != 2 {
					t.Errorf("external-dns sees %v records", shown)
				}
			}
		})

		t.Run("a withdrawal in one takes nothing from the other", func(t *testing.T) {
			eastPod.source.set()
			settleBoth(t)
			for _, name := range []string{"one", "two"} {
				cloudflare.Withdrew(t, east, name+".east.example.com")
				cloudflare.Publishes(t, west, name+".west.example.com", "http://"+name+".svc:80", `{}`)
			}
		})
	})
}
