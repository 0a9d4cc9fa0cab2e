package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

const (
	// MOVE_GRACE in these tests: more than a loop, and more than any way to the emulated edge.
	moveGrace = 2 * time.Second
	// How long records and configurations take to the emulated edge. They differ, so that nothing is hidden by arriving
	// together with something else.
	recordsDelay, configurationsDelay = 700 * time.Millisecond, 300 * time.Millisecond
	// The configuration of a connector that lags arrives when the test puts the clock ahead by this.
	lag = time.Hour
)

// move is a hostname that changes its tunnel, beside one that stays and what others have in both tunnels.
type move struct {
	*deployment
	east, west               tunnel
	foreignEast, foreignWest *foreign
}

const moving, staying, webService = "web.example.com", "stays.example.com", "http://web.shop.svc:80"

// withEachAge runs a test with records within the patience of a move, after it, and as old as most are.
func withEachAge(t *testing.T, test func(t *testing.T, age time.Duration)) {
	t.Helper()
	for name, age := range map[string]time.Duration{
		"a minute": time.Minute, "eleven minutes": 11 * time.Minute, "a year": 365 * 24 * time.Hour,
	} {
		t.Run("with records that are "+name+" old", func(t *testing.T) {
			t.Parallel()
			test(t, age)
		})
	}
}

// beforeMove has both hostnames published in the first tunnel since that time, the first perhaps with a path.
func beforeMove(t *testing.T, invocation invocation, age time.Duration, path string, settings ...string) *move {
	t.Helper()
	cloudflare := startEmulator(t)
	east, west := cloudflare.tunnelOfOthers(t, "east"), cloudflare.TunnelNamed(t, "handmade")
	foreignEast, foreignWest := cloudflare.foreign(t, east), cloudflare.foreign(t, west)
	settings = append(settings, "MOVE_GRACE="+moveGrace.String())
	// One is named by its id and one by its name.
	pod := deployWith(t, invocation, cloudflare, east.ID+",handmade", settings...)
	made := &move{deployment: pod, east: east, west: west, foreignEast: foreignEast, foreignWest: foreignWest}
	before := append(whole(path), published(moving, webService, atPath(path)...), published(staying, webService))
	made.source.set(before...)
	made.settles(t)
	cloudflare.passTime(t, age)
	return made
}

func atPath(path string, more ...property) []property {
	if path != "" {
		more = append(more, property{"tunnel-path", path})
	}
	return more
}

// The whole hostname beside a path of it: a path alone leaves all else to the foreign wildcard's rule in the old tunnel,
// and does not move away from it.
func whole(path string, more ...property) []*endpoint.Endpoint {
	if path == "" {
		return nil
	}
	return []*endpoint.Endpoint{published(moving, webService, more...)}
}

// begin asks for the move, and for more.
func (m *move) begin(more ...*endpoint.Endpoint) {
	m.beginAt("", more...)
}

// beginAt asks for the move to a path.
func (m *move) beginAt(path string, more ...*endpoint.Endpoint) {
	moved := published(moving, webService, atPath(path, property{"tunnel", "handmade"})...)
	more = append(more, whole(path, property{"tunnel", "handmade"})...)
	m.source.set(append(more, moved, published(staying, webService))...)
}

// rules is the number of rules that the hostname has in each tunnel, and that its record's stamp names.
func (m *move) rules(t *testing.T) (east, west, stamped int) {
	t.Helper()
	for _, record := range m.cloudflare.RecordsFor(t, moving) {
		if _, digests, found := strings.Cut(record.Comment, " rules="); found {
			stamped += len(digests) / 3
		}
	}
	return len(m.cloudflare.RulesFor(t, m.east, moving)), len(m.cloudflare.RulesFor(t, m.west, moving)), stamped
}

// isLedOver says why the record does not lead to the second tunnel.
func (m *move) isLedOver(t *testing.T) error {
	t.Helper()
	m.Alive(t)
	return m.cloudflare.LeadsTo(t, "default", m.west, moving)
}

// isCleared says why there is more than the rules that the second tunnel has.
func (m *move) isCleared(t *testing.T) error {
	t.Helper()
	m.Alive(t)
	if east, west, stamped := m.rules(t); east != 0 || west == 0 || stamped != west {
		return fmt.Errorf("%d rules in the old tunnel, %d in the new one, %d in the stamp", east, west, stamped)
	}
	return nil
}

// served checks that visitors were served by the one tunnel and then by the other, and by nothing else.
func (m *move) served(t *testing.T, seen []string) {
	t.Helper()
	if wanted := []string{webService + " through " + m.east.ID, webService + " through " + m.west.ID}; !slices.Equal(seen, wanted) {
		t.Errorf("visitors got %q", seen)
	}
}

// ends sees that nothing else has changed, and that all of ours can be withdrawn.
func (m *move) ends(t *testing.T) {
	t.Helper()
	m.cloudflare.Publishes(t, m.west, moving, webService, `{}`)
	m.cloudflare.Publishes(t, m.east, staying, webService, `{}`)
	m.foreignEast.untouched(t)
	m.foreignWest.untouched(t)
	m.source.set()
	m.settles(t)
	m.foreignEast.alone(t)
	m.foreignWest.alone(t)
}

// Neither a record nor a configuration is at the edge when it is written, so the old rule stays as long as visitors may still
// be led to it.
func TestAMoveLeadsTheRecordOverAndTakesTheOldRuleOffWhenItsGraceIsOver(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		withEachAge(t, func(t *testing.T, age time.Duration) {
			move := beforeMove(t, invocation, age, "")
			for _, tunnel := range []tunnel{move.east, move.west} {
				move.cloudflare.delay(t, tunnel, recordsDelay, configurationsDelay, 2*configurationsDelay)
			}
			watched := move.cloudflare.watch(t, moving)
			notLed := time.Now()
			move.begin()
			harness.Eventually(t, "the record leads to the new tunnel", func() error {
				looked := time.Now()
				err := move.isLedOver(t)
				if err != nil {
					notLed = looked
				}
				return err
			})
			if east, west, stamped := move.rules(t); east != 1 || west != 1 || stamped != 2 {
				t.Errorf("%d rules in the old tunnel, %d in the new one, %d in the stamp", east, west, stamped)
			}
			harness.Eventually(t, "the old rule is gone", func() error { return move.isCleared(t) })
			if lasted := time.Since(notLed); lasted < moveGrace {
				t.Errorf("the old rule was gone %s after the record was led over, or sooner", lasted)
			}
			move.settles(t)
			move.served(t, watched())
			move.ends(t)
		})
	})
}

// A path that changes is a creation and a deletion: the old rule went before the record was led to the new one.
func TestAPathThatIsRewordedInAMoveIsServedThroughout(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		withEachAge(t, func(t *testing.T, age time.Duration) { rewords(t, invocation, age) })
	})
}

func rewords(t *testing.T, invocation invocation, age time.Duration) {
	t.Helper()
	move := beforeMove(t, invocation, age, "^/api/")
	move.cloudflare.delay(t, move.west, recordsDelay, configurationsDelay, lag)
	watched := move.cloudflare.watch(t, moving+"/api/v2")
	move.beginAt("^/api(/|$)")
	move.failsSoftly(t, 2)
	if !move.program.Tells("refused=moving", moving) {
		t.Error("the move is not told as one that has begun")
	}
	move.cloudflare.passTime(t, lag)
	harness.Eventually(t, "the record leads to the new tunnel", func() error { return move.isLedOver(t) })
	harness.Eventually(t, "the old rule is gone", func() error { return move.isCleared(t) })
	move.settles(t)
	move.served(t, watched())
}

// A move changes the rules of two tunnels and a record, which no single call can do.
func TestAHostnameMovesToAnotherTunnelWhateverFailsOnTheWay(t *testing.T) {
	t.Parallel()
	unavailable := map[string]any{"status": 503}
	for _, trouble := range []struct {
		name  string
		fault fault
	}{
		{"while no batch is done", fault{method: "POST", path: batchPath, what: unavailable, from: 1}},
		{"while no batch but one is done", fault{method: "POST", path: batchPath, what: unavailable, from: 2}},
		{"while no batch but two is done", fault{method: "POST", path: batchPath, what: unavailable, from: 3}},
		{"while no configuration is written", fault{method: "PUT", path: configurationPath, what: unavailable, from: 1}},
		{"while no configuration but one is written", fault{method: "PUT", path: configurationPath, what: unavailable, from: 2}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			withEachAge(t, func(t *testing.T, age time.Duration) {
				move := beforeMove(t, invocation{}, age, "", "REQUEST_TIMEOUT="+shortDeadline.String())
				watched := move.cloudflare.watch(t, moving)
				move.cloudflare.inject(t, trouble.fault)
				move.begin()
				move.failsSoftly(t, 2)
				move.cloudflare.lift(t)
				harness.Eventually(t, "the old rule is gone", func() error { return move.isCleared(t) })
				move.settles(t)
				move.served(t, watched())
				move.ends(t)
			})
		})
	}
}

// Until each connector of the new tunnel serves a hostname, some of its visitors would get whatever that one has.
func TestAMoveWaitsForTheLastConnectorOfTheNewTunnel(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		withEachAge(t, func(t *testing.T, age time.Duration) {
			move := beforeMove(t, invocation, age, "")
			watched := move.cloudflare.watch(t, moving)
			move.waits(t)
			move.cloudflare.passTime(t, lag)
			harness.Eventually(t, "the record leads to the new tunnel", func() error { return move.isLedOver(t) })
			harness.Eventually(t, "the old rule is gone", func() error { return move.isCleared(t) })
			move.settles(t)
			move.served(t, watched())
			move.ends(t)
		})
	})
}

// waits asks for the move while the second connector of the new tunnel takes no configuration, and sees that ExternalDNS
// asks for it in every loop, while all else is done.
func (m *move) waits(t *testing.T) {
	t.Helper()
	m.cloudflare.delay(t, m.west, 0, 0, lag)
	const fresh, changed = "fresh.example.com", "http://fresh.shop.svc:80"
	m.begin(published(fresh, changed))
	m.failsSoftly(t, 2)
	m.cloudflare.Publishes(t, m.east, fresh, changed, `{}`)
	writes := m.cloudflare.Writes(t)
	m.failsSoftly(t, m.MustMetric(t, harness.SoftErrors)+2)
	if now := m.cloudflare.Writes(t); len(now) != len(writes) {
		t.Errorf("written while a connector lags: %v", now[len(writes):])
	}
	m.cloudflare.RecordLeadsTo(t, m.east, moving)
	if east, west, stamped := m.rules(t); east != 1 || west != 1 || stamped != 2 {
		t.Errorf("%d rules in the old tunnel, %d in the new one, %d in the stamp", east, west, stamped)
	}
	if !m.program.Tells("refused=moving", moving, "serves an older version") {
		t.Error("nothing is told of the connector that lags")
	}
	// From now on configurations are there at once; what was written before still is not.
	m.cloudflare.delay(t, m.west, 0, 0, 0)
}
