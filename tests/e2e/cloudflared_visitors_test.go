package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/e2e/edge"
	"external-dns-cloudflare-tunnel-webhook/harness"
)

const (
	// How often each host is visited.
	visitInterval = 5 * time.Millisecond
	// How long changes take to the edge at most. MOVE_GRACE is longer.
	edgeDelay = 600 * time.Millisecond
	// How far apart the writes of a record and of its rule are at most, on a machine that does other work.
	betweenWrites = time.Second
)

// crowd is visitors of one address, one after another and each without waiting for the one before.
type crowd struct {
	address string
	stop    chan struct{}
	visits  sync.WaitGroup

	mutex    sync.Mutex
	begun    time.Time
	count    int
	failures []string
	lost     []time.Duration // when the visitors came that were not served
	slowest  time.Duration
	served   map[string]int // by the service
}

// sendCrowd has a path of a host visited until end is called. A visitor that no origin of the test answers has failed.
func (u *tunnels) sendCrowd(host, path string, with ...func(*http.Request)) *crowd {
	sent := &crowd{address: host + path, stop: make(chan struct{}), begun: time.Now(), served: map[string]int{}}
	sent.visits.Go(func() {
		ticker := time.NewTicker(visitInterval)
		defer ticker.Stop()
		for {
			select {
			case <-sent.stop:
				return
			case <-ticker.C:
				sent.visits.Go(func() { sent.visit(u, host, path, with) })
			}
		}
	})
	return sent
}

func (c *crowd) visit(open *tunnels, host, path string, with []func(*http.Request)) {
	begun := time.Now()
	got, err := open.visit(host, path, with...)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count++
	c.slowest = max(c.slowest, time.Since(begun))
	if err == nil && got.met.Origin != "" {
		c.served[got.met.Origin]++
		return
	}
	c.lost = append(c.lost, begun.Sub(c.begun))
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("after %s: %v", begun.Sub(c.begun), err))
	} else {
		c.failures = append(c.failures, fmt.Sprintf("after %s: %d %s", begun.Sub(c.begun), got.status, got))
	}
}

func (c *crowd) servedBy(service string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.served[service]
}

// end awaits the last visitor.
func (c *crowd) end() {
	close(c.stop)
	c.visits.Wait()
}

func (c *crowd) String() string {
	return fmt.Sprintf("%s: %d visitors in %.1f s, %d of them not served, the slowest took %s, %d origins",
		c.address, c.count, time.Since(c.begun).Seconds(), len(c.failures), c.slowest.Round(time.Millisecond), len(c.served))
}

// wasServed checks that no visitor failed, and that each of the services, and no other, has served some.
func (c *crowd) wasServed(t *testing.T, services ...string) {
	t.Helper()
	for _, failure := range c.failures[:min(len(c.failures), 5)] {
		t.Errorf("a visitor of %s was not served: %s", c.address, failure)
	}
	c.wasServedBy(t, services...)
}

// wasServedBy checks that each of the services, and no other, has served some.
func (c *crowd) wasServedBy(t *testing.T, services ...string) {
	t.Helper()
	t.Log(c)
	for _, service := range services {
		if c.served[service] == 0 {
			t.Errorf("%s never served a visitor of %s", service, c.address)
		}
	}
	for service, count := range c.served {
		if !slices.Contains(services, service) {
			t.Errorf("%d visitors of %s were served by %s", count, c.address, service)
		}
	}
}

// span is a time since a crowd was sent.
type span struct{ from, to time.Duration }

// during says when a change was made, until visitors are led by it.
func (c *crowd) during(change func()) span {
	from := time.Since(c.begun)
	change()
	return span{from, time.Since(c.begun)}
}

// wasLostOnly checks that each visitor that was not served came in one of these spans, and that in each of them the
// last such visitor came this long after the first one at most.
func (c *crowd) wasLostOnly(t *testing.T, longest time.Duration, spans ...span) {
	t.Helper()
	slices.Sort(c.lost)
	lost := 0
	for _, span := range spans {
		first, _ := slices.BinarySearch(c.lost, span.from)
		end, _ := slices.BinarySearch(c.lost, span.to)
		if first == end {
			continue
		}
		lost += end - first
		moment := c.lost[end-1] - c.lost[first]
		t.Logf("%d visitors of %s were not served in a moment of %s", end-first, c.address, moment)
		if moment > longest {
			t.Errorf("the moment of %s took longer than %s", c.address, longest)
		}
	}
	if lost != len(c.lost) {
		t.Errorf("%d visitors of %s were not served, of which %d came beside the moments %v", len(c.lost), c.address,
			len(c.lost)-lost, spans)
	}
}

// visited is a program whose changes take their time to the edge, while there are visitors. Each tunnel has two replicas, which
// do not get them at the same time.
type visited struct {
	*deployment
	open       *tunnels
	home, away tunnel
	everything string // serves what no rule of ours takes
}

func beVisited(t *testing.T) *visited {
	t.Helper()
	cloudflare := startEmulator(t)
	home, away := cloudflare.TunnelNeverConfigured(t, "home"), cloudflare.TunnelNeverConfigured(t, "away")
	everything := startOrigin(t)
	cloudflare.beside(t, home, startOrigin(t), everything)
	open := connectTunnels(t, cloudflare, home, home, away, away)
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID+","+away.ID,
		"MASS_DELETION_LIMIT=0", "MOVE_GRACE="+moveGrace.String())
	return &visited{deployment: pod, open: open, home: home, away: away, everything: everything}
}

// becomes asks for endpoints, and awaits that visitors are led by them.
func (v *visited) becomes(t *testing.T, endpoints ...*endpoint.Endpoint) {
	t.Helper()
	v.source.set(endpoints...)
	v.reachesFixedPoint(t)
	v.open.arrives(t)
}

// hasMoved awaits the end of a move: nothing of the host is left in its old tunnel.
func (v *visited) hasMoved(t *testing.T, host string, from, to tunnel) {
	t.Helper()
	harness.Eventually(t, host+" has moved", func() error {
		if rules := v.cloudflare.RulesFor(t, from, host); len(rules) > 0 {
			return fmt.Errorf("the old tunnel has %v", rules)
		}
		return v.cloudflare.LeadsTo(t, "default", to, host)
	})
	v.open.arrives(t)
}

// slowly lets changes take their time from now on.
func (v *visited) slowly() {
	v.open.SetDelays(edge.Delays{Configurations: edgeDelay, Records: edgeDelay, Applications: edgeDelay})
}

// A request that is served before a change and after it is served throughout.
func TestCloudflaredServesEveryVisitorWhileAHostnameChanges(t *testing.T) {
	t.Parallel()
	site := beVisited(t)
	one, two, api, neighbour := startOrigin(t), startOrigin(t), startOrigin(t), startOrigin(t)
	const host = "web.example.com"
	group := []property{{"tunnel-service.api", api}, {"tunnel-path-prefix.api", "/api"}}
	site.becomes(t, published(host, one))
	site.slowly()
	root, below := site.open.sendCrowd(host, "/"), site.open.sendCrowd(host, "/api/users")
	foreign := site.open.sendCrowd("unheard-of.example.com", "/")
	for _, change := range [][]*endpoint.Endpoint{
		{published(host, two)},
		{published(host, two, group...)},
		{published(host, one, group...), published("neighbour.example.com", neighbour)},
		{published(host, one, append(group, property{"origin-http-host-header", "inside.test"})...),
			published("*.wild.example.com", neighbour)},
		{published(host, one)},
		{published(host, one), published("x.web.example.com", neighbour), published("a-first.example.com", neighbour)},
		{published(host, two)},
	} {
		site.becomes(t, change...)
	}
	for _, sent := range []*crowd{root, below, foreign} {
		sent.end()
	}
	root.wasServed(t, one, two)
	below.wasServed(t, one, two, api)
	foreign.wasServed(t, site.everything)
}

// The same for a hostname that moves to another tunnel and back, with and without paths of its own.
func TestCloudflaredServesEveryVisitorWhileAHostnameMoves(t *testing.T) {
	t.Parallel()
	site := beVisited(t)
	web, api, next, stays := startOrigin(t), startOrigin(t), startOrigin(t), startOrigin(t)
	const host, whole = "web.example.com", "whole.example.com"
	to := func(name, service string) []*endpoint.Endpoint {
		tunnel := property{"tunnel", name}
		return []*endpoint.Endpoint{
			published(host, service, tunnel, property{"tunnel-service.api", api}, property{"tunnel-path-prefix.api", "/api"}),
			published(whole, service, tunnel),
			published("stays.example.com", stays, property{"tunnel", "home"}),
		}
	}
	site.becomes(t, to("home", web)...)
	site.slowly()
	crowds := map[*crowd][]string{
		site.open.sendCrowd(host, "/"):                   {web, next},
		site.open.sendCrowd(host, "/api/users"):          {api},
		site.open.sendCrowd(whole, "/"):                  {web, next},
		site.open.sendCrowd("stays.example.com", "/any"): {stays},
	}
	site.becomes(t, to("away", web)...)
	site.hasMoved(t, host, site.home, site.away)
	site.becomes(t, to("home", next)...)
	site.hasMoved(t, host, site.away, site.home)
	for sent := range crowds {
		sent.end()
	}
	for sent, services := range crowds {
		sent.wasServed(t, services...)
	}
}

// The same for a name that a wildcard of others serves before it is published, and again when it is withdrawn. The wildcard's
// record may lead to another tunnel: then record and rule are written one after the other, and the name has a moment at each
// of the two changes, as long as the two writes are apart and as changes take to the edge. Between them all are served.
func TestCloudflaredServesEveryVisitorWhileANameComesOutOfAWildcardAndGoesBack(t *testing.T) {
	t.Parallel()
	site := beVisited(t)
	near, far, next := startOrigin(t), startOrigin(t), startOrigin(t)
	const beside, elsewhere = "beside.example.com", "elsewhere.example.com"
	site.becomes(t)
	site.slowly()
	inItsTunnel := site.open.sendCrowd(beside, "/")
	inAnother := site.open.sendCrowd(elsewhere, "/")
	foreign := site.open.sendCrowd("any.example.com", "/any")
	comes := inAnother.during(func() {
		site.becomes(t, published(beside, near), published(elsewhere, far, property{"tunnel", "away"}))
	})
	site.becomes(t, published(beside, next), published(elsewhere, far, property{"tunnel", "away"}))
	goes := inAnother.during(func() { site.becomes(t) })
	for _, host := range []string{beside, elsewhere} {
		if records := site.cloudflare.RecordsFor(t, host); len(records) > 0 {
			t.Errorf("%s still has %v", host, records)
		}
	}
	for _, sent := range []*crowd{inItsTunnel, inAnother, foreign} {
		sent.end()
	}
	inItsTunnel.wasServed(t, site.everything, near, next)
	foreign.wasServed(t, site.everything)
	inAnother.wasServedBy(t, site.everything, far)
	inAnother.wasLostOnly(t, edgeDelay+betweenWrites, comes, goes)
}

// A path with a check or a login is reworded in the request in which its hostname moves. However old the record is, no
// visitor without a token or a login is served there; with a token every visitor is served throughout, and with a login
// at rest.
func TestCloudflaredHoldsAPathThatIsRewordedWhileItsHostnameMoves(t *testing.T) {
	t.Parallel()
	const host, below = "web.example.com", "/admin/users"
	check := []property{{"access-required.admin", "true"}, {"access-team-name.admin", team}, {"access-aud-tag.admin", "admins"}}
	login := []property{{"access-policy.admin", "staff"}}
	for _, kind := range []struct {
		name      string
		asked     []property
		path      property
		hasTokens bool
	}{
		{"a check", check, property{"tunnel-path.admin", "^/admin(/.*)?$"}, true},
		{"a login", login, property{"tunnel-path-prefix.admin", below}, false},
	} {
		for _, record := range []struct {
			name string
			age  time.Duration
		}{{"of some seconds", 0}, {"of eleven minutes", 11 * time.Minute}, {"of a year", 365 * 24 * time.Hour}} {
			t.Run("by "+kind.name+" with a record "+record.name, func(t *testing.T) {
				t.Parallel()
				site := beVisited(t)
				site.cloudflare.SetUpAccess(t)
				web, admin := startOrigin(t), startOrigin(t)
				in := func(tunnel string, path property) *endpoint.Endpoint {
					asked := append(slices.Clone(kind.asked), path, property{"tunnel", tunnel}, property{"tunnel-service.admin", admin})
					return published(host, web, asked...)
				}
				site.becomes(t, in("home", property{"tunnel-path-prefix.admin", "/admin"}))
				site.cloudflare.passTime(t, record.age)
				site.slowly()
				welcome := loggedIn
				if kind.hasTokens {
					welcome = site.open.withToken(t, team, "admins", time.Now().Add(time.Hour))
				}
				whole, without := site.open.sendCrowd(host, "/"), site.open.sendCrowd(host, below)
				with := site.open.sendCrowd(host, below, welcome)
				site.becomes(t, in("away", kind.path))
				site.hasMoved(t, host, site.home, site.away)
				for _, sent := range []*crowd{whole, without, with} {
					sent.end()
				}
				whole.wasServed(t, web)
				without.wasServedBy(t)
				if kind.hasTokens {
					with.wasServed(t, admin)
				} else {
					with.wasServedBy(t, admin)
					site.open.gets(t, host, below, admin, welcome)
				}
			})
		}
	}
}

// What the tests above rely on: visitors that are not served are seen, however short that is.
func TestCloudflaredServesNoVisitorWhileARuleIsGone(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	web := startOrigin(t)
	configure := func(service string) {
		t.Helper()
		cloudflare.Ask(t, "POST", "/configurations", map[string]any{"tunnel": home.ID, "config": map[string]any{
			"ingress": []map[string]any{{"service": service}},
		}}, nil)
	}
	configure(web)
	cloudflare.Ask(t, "POST", "/records", map[string]any{"zone": harness.ZoneName, "posts": []map[string]any{
		{"type": "CNAME", "name": "web", "content": home.Hostname(), "proxied": true, "ttl": 1},
	}}, nil)
	open := connectTunnels(t, cloudflare, home)
	sent := open.sendCrowd("web.example.com", "/")
	configure("http_status:404")
	open.arrives(t)
	harness.Eventually(t, "a visitor is not served", func() error {
		sent.mutex.Lock()
		defer sent.mutex.Unlock()
		if len(sent.failures) == 0 {
			return errors.New("all are served")
		}
		return nil
	})
	configure(web)
	open.arrives(t)
	served := sent.servedBy(web)
	harness.Eventually(t, "visitors are served again", func() error {
		if sent.servedBy(web) == served {
			return errors.New("they are not")
		}
		return nil
	})
	sent.end()
	t.Log(sent)
}
