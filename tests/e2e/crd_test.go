package e2e

import (
	"maps"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The registry crd of ExternalDNS goes by its own DNSRecords: what was answered 204 it does not ask for again, whatever
// is at Cloudflare.

// keeps checks what the registry believes of these hostnames, and that it has no others.
func (s *apiServer) keeps(t *testing.T, wanted map[string]bool) {
	t.Helper()
	if found := s.dnsRecords(t); !maps.Equal(found, wanted) {
		t.Errorf("the DNSRecords are %v, wanted %v", found, wanted)
	}
}

func TestUnderTheRegistryCRDAMoveGoesToItsEnd(t *testing.T) {
	t.Parallel()
	withEachAge(t, func(t *testing.T, age time.Duration) {
		server := startAPIServer(t)
		move := beforeMove(t, server.invocation(t), age, "")
		server.keeps(t, map[string]bool{moving: true, staying: true})
		watched := move.cloudflare.watch(t, moving)
		move.begin()
		harness.Eventually(t, "the record leads to the new tunnel", func() error { return move.isLedOver(t) })
		harness.Eventually(t, "the old tunnel has no rule any more", func() error { return move.isCleared(t) })
		move.settles(t)
		server.keeps(t, map[string]bool{moving: true, staying: true})
		move.served(t, watched())
		move.ends(t)
		server.keeps(t, map[string]bool{})
	})
}

func TestUnderTheRegistryCRDAMoveThatWaitsIsAskedForUntilItIsDone(t *testing.T) {
	t.Parallel()
	withEachAge(t, func(t *testing.T, age time.Duration) {
		server := startAPIServer(t)
		move := beforeMove(t, server.invocation(t), age, "")
		watched := move.cloudflare.watch(t, moving)
		move.waits(t)
		server.keeps(t, map[string]bool{moving: false, "fresh.example.com": false, staying: true})
		move.cloudflare.passTime(t, lag)
		harness.Eventually(t, "the record leads to the new tunnel", func() error { return move.isLedOver(t) })
		harness.Eventually(t, "the old tunnel has no rule any more", func() error { return move.isCleared(t) })
		move.settles(t)
		server.keeps(t, map[string]bool{moving: true, "fresh.example.com": true, staying: true})
		move.served(t, watched())
		move.source.set()
		move.settles(t)
		move.foreignEast.alone(t)
		move.foreignWest.alone(t)
	})
}

// ExternalDNS does not take for published what was answered 503, so it asks for no deletion of it either: also of what was
// done in the same request.
func TestUnderTheRegistryCRDWhatIsWithdrawnWhileAMoveWaitsStays(t *testing.T) {
	t.Parallel()
	withEachAge(t, func(t *testing.T, age time.Duration) {
		server := startAPIServer(t)
		move := beforeMove(t, server.invocation(t), age, "")
		move.waits(t)
		move.source.set(published(staying, webService))
		move.settles(t)
		server.keeps(t, map[string]bool{moving: false, "fresh.example.com": false, staying: true})
		for _, hostname := range []string{moving, "fresh.example.com"} {
			move.cloudflare.RecordLeadsTo(t, move.east, hostname)
		}
	})
}

func TestUnderTheRegistryCRDAPathThatIsRewordedInAMoveIsServedThroughout(t *testing.T) {
	t.Parallel()
	withEachAge(t, func(t *testing.T, age time.Duration) { rewords(t, startAPIServer(t).invocation(t), age) })
}
