package e2e

import (
	"maps"
	"testing"

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

func TestUnderTheRegistryCRDAMoveLeavesTheOldRuleUntilTheHostnameIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	move := beforeMove(t, server.invocation(t))
	server.keeps(t, map[string]bool{moving: true, staying: true})
	watched := move.cloudflare.watch(t, moving)
	move.begin()
	harness.Eventually(t, "the record leads to the new tunnel", func() error { return move.isLedOver(t) })
	move.settles(t)
	// Loops of a second each: the grace is over.
	move.awaitLoops(t, int(moveGrace/interval)+1)
	move.settles(t)
	staysBehind := func() {
		t.Helper()
		if east, west, stamped := move.rules(t); east != 1 || west != 1 || stamped != 2 {
			t.Errorf("%d rules in the old tunnel, %d in the new one, %d in the stamp", east, west, stamped)
		}
	}
	staysBehind()
	fresh := published("fresh.example.com", webService)
	move.begin(fresh)
	move.settles(t)
	staysBehind()

	changed := published(moving, webService, property{"tunnel", "handmade"}, property{"origin-connect-timeout", "10s"})
	move.source.set(changed, published(staying, webService))
	move.settles(t)
	if err := move.isCleared(t); err != nil {
		t.Error(err)
	}
	move.begin()
	move.settles(t)
	move.served(t, watched())
	move.ends(t)
	server.keeps(t, map[string]bool{})
}

func TestUnderTheRegistryCRDAMoveThatWaitsIsAskedForUntilItIsDone(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	move := beforeMove(t, server.invocation(t))
	watched := move.cloudflare.watch(t, moving)
	move.waits(t)
	server.keeps(t, map[string]bool{moving: false, "fresh.example.com": false, staying: true})
	move.cloudflare.passTime(t, lag)
	harness.Eventually(t, "the record leads to the new tunnel", func() error { return move.isLedOver(t) })
	move.settles(t)
	server.keeps(t, map[string]bool{moving: true, "fresh.example.com": true, staying: true})
	move.served(t, watched())
	move.source.set()
	move.settles(t)
	move.foreignEast.alone(t)
	move.foreignWest.alone(t)
}

// ExternalDNS does not take for published what was answered 503, so it asks for no deletion of it either: also of what was
// done in the same request.
func TestUnderTheRegistryCRDWhatIsWithdrawnWhileAMoveWaitsStays(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	move := beforeMove(t, server.invocation(t))
	move.waits(t)
	move.source.set(published(staying, webService))
	move.settles(t)
	server.keeps(t, map[string]bool{moving: false, "fresh.example.com": false, staying: true})
	for _, hostname := range []string{moving, "fresh.example.com"} {
		move.cloudflare.RecordLeadsTo(t, move.east, hostname)
	}
}
