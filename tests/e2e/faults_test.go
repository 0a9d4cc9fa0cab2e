package e2e

import (
	"fmt"
	"testing"
	"time"
)

const (
	// The program's deadline in these tests, so that a hang shows soon. ExternalDNS itself gives up after 15 s.
	shortDeadline = 2 * time.Second
	// Longer than the program may wait within its deadline, and long enough to see it wait.
	retryAfter = 10 * time.Second
)

// Whatever Cloudflare does, ExternalDNS must hear about it in a way that does not end it, and what was asked for must
// be there once Cloudflare is well again.
func TestExternalDNSLivesThroughFaultsAndConvergesAfterwards(t *testing.T) {
	t.Parallel()
	const (
		anything      = ""
		records       = "/dns_records"
		batch         = "/dns_records/batch"
		configuration = "/configurations"
	)
	for _, trouble := range []struct {
		name  string
		fault fault
	}{
		{"every read is answered 500", fault{method: "GET", path: anything, status: 500}},
		{"every batch of records is answered 500", fault{method: "POST", path: batch, status: 500}},
		{"every write of the configuration is answered 500", fault{method: "PUT", path: configuration, status: 500}},
		{"every answer is a page of HTML", fault{path: anything, garbage: true}},
		{"every connection is dropped", fault{path: anything, reset: true}},
		{"every read of the records hangs", fault{method: "GET", path: records, hang: true}},
		{"every batch of records hangs", fault{method: "POST", path: batch, hang: true}},
		{"every write of the configuration hangs", fault{method: "PUT", path: configuration, hang: true}},
		{"every write of the configuration is cut off in its answer", fault{method: "PUT", path: configuration, truncate: true}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t)
			lift := shop.cloudflare.inject(t, trouble.fault)
			shop.reorganise()
			shop.failsSoftly(t, 2)
			shop.foreign.untouched(t)
			lift(t)
			shop.isReorganised(t)
		})
	}

	for _, trouble := range []struct {
		name  string
		fault fault
	}{
		{"a batch of records is done but not answered", fault{method: "POST", path: batch, unanswered: true, times: 1}},
		{"a write of the configuration is done but not answered", fault{method: "PUT", path: configuration, unanswered: true, times: 1}},
		{"one read of the configuration is dropped", fault{method: "GET", path: configuration, reset: true, times: 1}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t)
			shop.cloudflare.inject(t, trouble.fault)
			shop.reorganise()
			shop.isReorganised(t)
			shop.cloudflare.wasHit(t)
		})
	}

	t.Run("a limit with a long Retry-After is waited for without a call", func(t *testing.T) {
		t.Parallel()
		shop := openShop(t)
		shop.cloudflare.inject(t, fault{path: anything, status: 429, retryAfter: retryAfter, times: 1})
		shop.reorganise()
		eventually(t, "a call is limited", func() error {
			return shop.cloudflare.hits(t)
		})
		limited := time.Now()
		shop.failsSoftly(t, 2)
		calls := shop.cloudflare.calls(t)
		shop.failsSoftly(t, 4)
		if waited := time.Since(limited); waited >= retryAfter {
			t.Fatalf("four loops took %s, so they say nothing of a limit of %s", waited, retryAfter)
		}
		if now := shop.cloudflare.calls(t); len(now) != len(calls) {
			t.Errorf("called before the limit was over: %v", now[len(calls):])
		}
		shop.foreign.untouched(t)
		shop.isReorganised(t)
	})
}

// shop is a running set-up with three published hostnames.
type shop struct {
	cloudflare *emulator
	tunnel     tunnel
	foreign    *foreign
	dns        *externalDNS
}

func openShop(t *testing.T) *shop {
	t.Helper()
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfAnother(t, "shop")
	foreign := cloudflare.foreign(t, tunnel)
	program := startProgram(t, cloudflare, tunnel.id, "REQUEST_TIMEOUT="+shortDeadline.String())
	dns := startExternalDNS(t, program, txt)
	dns.source.set(
		published("kept.example.com", "http://kept.shop.svc:80"),
		published("changed.example.com", "http://changed.shop.svc:80"),
		published("withdrawn.example.com", "http://withdrawn.shop.svc:80"),
	)
	dns.settle(t, cloudflare)
	return &shop{cloudflare, tunnel, foreign, dns}
}

// reorganise asks for one hostname more, one less, and one changed.
func (s *shop) reorganise() {
	s.dns.source.set(
		published("kept.example.com", "http://kept.shop.svc:80"),
		published("changed.example.com", "http://changed-next.shop.svc:80"),
		published("created.example.com", "http://created.shop.svc:80"),
	)
}

// isReorganised awaits what reorganise asked for.
func (s *shop) isReorganised(t *testing.T) {
	t.Helper()
	s.dns.settle(t, s.cloudflare)
	s.cloudflare.publishes(t, s.tunnel, "kept.example.com", "http://kept.shop.svc:80", `{}`)
	s.cloudflare.publishes(t, s.tunnel, "changed.example.com", "http://changed-next.shop.svc:80", `{}`)
	s.cloudflare.publishes(t, s.tunnel, "created.example.com", "http://created.shop.svc:80", `{}`)
	s.cloudflare.withdrew(t, s.tunnel, "withdrawn.example.com")
	s.foreign.untouched(t)
}

// failsSoftly awaits so many loops in a row that failed without ending ExternalDNS.
func (s *shop) failsSoftly(t *testing.T, loops float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v loops in a row fail softly", loops), func() error {
		s.dns.alive(t)
		if now := s.dns.mustMetric(t, softErrors); now < loops {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
}
