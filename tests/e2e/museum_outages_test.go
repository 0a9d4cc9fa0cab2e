package e2e

import (
	"slices"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// outage is a running set-up while Cloudflare answers something else than it should.
type outage struct {
	*shop
	armed   int // calls before it
	watched func() []string
}

const (
	shownThroughout = "kept.example.com"
	limitPatience   = 90 * time.Second
)

func beginOutage(t *testing.T, faults ...fault) *outage {
	t.Helper()
	shop := openShop(t)
	begun := &outage{shop: shop, watched: shop.cloudflare.watch(t, shownThroughout), armed: len(shop.cloudflare.Calls(t))}
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
	limit := map[string]any{
		"status": 429,
		"body": `{"success":false,"errors":[{"code":10429,"message":` +
			`"Rate limited. Please wait and consider throttling your request speed"}]}`,
	}
	outage := beginOutage(t, fault{path: anyPath, what: limit})
	outage.failsSoftly(t, 8)
	calls := outage.cloudflare.Calls(t)[outage.armed:]
	// Two zones and a configuration are read side by side.
	if len(calls) == 0 || len(calls) > 3 {
		t.Errorf("%d calls in 8 loops of a limit: %v", len(calls), calls)
	}
	if !outage.program.Tells("WARN", "limit") {
		t.Error("nothing tells of the limit")
	}
	outage.ends(t)
	return "The loop that meets the limit is the last that calls Cloudflare until it is over, as told or for a minute. Each loop is answered 503, " +
		"ExternalDNS lives on, visitors notice nothing, and afterwards everything that was asked for is done"
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
	outage.ends(t)
	return "Each loop is answered 503, ExternalDNS lives on, visitors notice nothing, and afterwards everything that was " +
		"asked for is done"
}
