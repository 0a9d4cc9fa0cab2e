package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// outage is a running set-up while Cloudflare answers something else than it should.
type outage struct {
	*shop
	armed   int       // calls before it
	armedAt time.Time // when it began
	watched func() []string
}

const (
	shownThroughout = "kept.example.com"
	limitPatience   = 90 * time.Second
	// So late a call may be seen.
	limitSlack = 3 * time.Second
)

func beginOutage(t *testing.T, faults ...fault) *outage {
	t.Helper()
	shop := openShop(t)
	begun := &outage{
		shop: shop, watched: shop.cloudflare.watch(t, shownThroughout), armed: len(shop.cloudflare.Calls(t)), armedAt: time.Now(),
	}
	for _, one := range faults {
		shop.cloudflare.inject(t, one)
	}
	shop.reorganise()
	return begun
}

// ends awaits what was asked for during the outage, with the ExternalDNS that was there before.
func (o *outage) ends(t *testing.T) {
	t.Helper()
	o.foreign.untouched(t)
	o.cloudflare.lift(t)
	// Where nothing is said of the time, a limit is waited for a minute long.
	harness.EventuallyWithin(t, limitPatience, "what was asked for is there", func() error {
		o.Alive(t)
		return o.cloudflare.IsPublished(t, o.tunnel, "created.example.com", "http://created.shop.svc:80", `{}`)
	})
	o.isReorganised(t)
	wanted := []string{"http://kept.shop.svc:80 through " + o.tunnel.ID}
	if seen := o.watched(); !slices.Equal(seen, wanted) {
		t.Errorf("visitors of %s got %q", shownThroughout, seen)
	}
}

// Cloudflare answers 429 to whatever it is asked. ExternalDNS ends of that, its pod is started anew and reads everything
// anew, which keeps the limit from ever ending.
// https://github.com/kubernetes-sigs/external-dns/issues/5971
func aRateLimitThatEndsExternalDNS(t *testing.T) string {
	t.Run("for how long", func(t *testing.T) {
		for _, one := range []struct {
			name    string
			headers map[string]string
			lasts   time.Duration
			loops   float64 // of which each is over before the limit is
		}{
			{"as told", map[string]string{"retry-after": fmt.Sprint(retryAfter.Seconds())}, retryAfter, askingLoops},
			{"for a minute where nothing is told", map[string]string{}, time.Minute, 8},
		} {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				outage := beginOutage(t, fault{path: anyPath, what: map[string]any{
					"status":  429,
					"headers": one.headers,
					"body": `{"success":false,"errors":[{"code":10429,"message":` +
						`"Rate limited. Please wait and consider throttling your request speed"}]}`,
				}})
				_, met := outage.awaitsCalls(t, 1)
				outage.failsSoftly(t, one.loops)
				answered503(t, outage.program, one.loops)
				calls := outage.cloudflare.Calls(t)[outage.armed:]
				// Two zones and a configuration are read side by side.
				if len(calls) == 0 || len(calls) > 3 {
					t.Errorf("%d calls in %v loops of a limit: %v", len(calls), one.loops, calls)
				}
				if !outage.program.Tells("WARN", "limit") {
					t.Error("nothing tells of the limit")
				}
				outage.cloudflare.lift(t)
				notYet, again := outage.awaitsCalls(t, len(calls)+1)
				if least := notYet.Sub(met); least < one.lasts-limitSlack {
					t.Errorf("Cloudflare was called %s after a limit of %s", least, one.lasts)
				}
				if most := again.Sub(outage.armedAt); most > one.lasts+limitPatience/3 {
					t.Errorf("Cloudflare was not called until %s after a limit of %s", most, one.lasts)
				}
				outage.ends(t)
			})
		}
	})
	return "The loop that meets the limit is the last that calls Cloudflare until it is over, as told or for a minute. Each loop is answered 503, " +
		"ExternalDNS lives on, visitors notice nothing, and afterwards everything that was asked for is done"
}

// awaitsCalls awaits so many calls since the outage began, and says when they were not there for the last time and when
// they were.
func (o *outage) awaitsCalls(t *testing.T, calls int) (notYet, seen time.Time) {
	t.Helper()
	notYet = o.armedAt
	harness.EventuallyWithin(t, limitPatience, fmt.Sprintf("Cloudflare is called for the %d. time", calls), func() error {
		o.Alive(t)
		looked := time.Now()
		if now := len(o.cloudflare.Calls(t)) - o.armed; now < calls {
			notYet = looked
			return fmt.Errorf("%d calls", now)
		}
		seen = time.Now()
		return nil
	})
	return notYet, seen
}

// Cloudflare answers 500 to the reads of zones and records, and 502 from in front of its API. ExternalDNS ends each time.
// https://github.com/kubernetes-sigs/external-dns/issues/4876
func serverErrorsThatEndExternalDNS(t *testing.T) string {
	badGateway := map[string]any{"status": 502, "body": "<html><head><title>502 Bad Gateway</title></head></html>"}
	internal := map[string]any{"status": 500, "body": `{"success":false,"errors":[{"code":10000,"message":"Internal server error"}]}`}
	outage := beginOutage(t, fault{path: configurationPath, what: badGateway}, fault{path: anyPath, what: internal})
	outage.failsSoftly(t, askingLoops)
	outage.cloudflare.lift(t)
	outage.cloudflare.inject(t, fault{path: anyPath, what: badGateway})
	outage.failsSoftly(t, 2*askingLoops)
	for status := range outage.program.Failures(t) {
		if status != http.StatusInternalServerError && status != http.StatusServiceUnavailable {
			t.Errorf("a loop is answered %d", status)
		}
	}
	outage.ends(t)
	return "Each loop is answered 500 or 503, ExternalDNS lives on, visitors notice nothing, and afterwards everything that was " +
		"asked for is done"
}
