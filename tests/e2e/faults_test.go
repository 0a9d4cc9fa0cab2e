package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	// The program's deadline in these tests, so that a hang shows soon. ExternalDNS itself gives up after 15 s.
	shortDeadline = 2 * time.Second
	// Longer than the program may wait within its deadline, and long enough to see it wait.
	retryAfter = 10 * time.Second
)

// The calls that something may go wrong with.
const (
	anyPath           = "/**"
	recordsPath       = "/zones/*/dns_records"
	batchPath         = "/zones/*/dns_records/batch"
	configurationPath = "/accounts/*/cfd_tunnel/*/configurations"
)

// Whatever Cloudflare does, ExternalDNS must hear about it in a way that does not end it, and what was asked for must
// be there once Cloudflare is well again.
func TestExternalDNSLivesThroughFaultsAndConvergesAfterwards(t *testing.T) {
	t.Parallel()
	internalError := map[string]any{"status": 500, "body": `{"success":false,"errors":[{"code":1000,"message":"emulated"}]}`}

	for _, trouble := range []struct {
		name  string
		fault fault
	}{
		{"every read is answered 500", fault{method: "GET", path: anyPath, what: internalError}},
		{"every batch of records is answered 500", fault{method: "POST", path: batchPath, what: internalError}},
		{"every write of the configuration is answered 500", fault{method: "PUT", path: configurationPath, what: internalError}},
		{"every answer is a page of HTML", fault{path: anyPath, what: "garbage"}},
		{"every connection is reset", fault{path: anyPath, what: "reset"}},
		{"every read of the records hangs", fault{method: "GET", path: recordsPath, what: "hang"}},
		{"every batch of records hangs", fault{method: "POST", path: batchPath, what: "hang"}},
		{"every write of the configuration hangs", fault{method: "PUT", path: configurationPath, what: "hang"}},
	} {
		t.Run(trouble.name+" until it is over", func(t *testing.T) {
			t.Parallel()
			shop := openShop(t)
			shop.cloudflare.inject(t, trouble.fault)
			shop.reorganise()
			shop.failsSoftly(t, 2)
			shop.foreign.untouched(t)
			shop.cloudflare.lift(t)
			shop.isReorganised(t)
		})
	}

	for _, trouble := range []struct {
		name  string
		fault fault
	}{
		{"one batch of records is done but not answered", fault{method: "POST", path: batchPath, what: "done_but_unanswered"}},
		{"one write of the configuration is done but not answered", fault{method: "PUT", path: configurationPath, what: "done_but_unanswered"}},
		{"one write of the configuration is done and its answer cut off", fault{method: "PUT", path: configurationPath, what: "truncated"}},
		{"one read of the configuration is reset", fault{method: "GET", path: configurationPath, what: "reset"}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t)
			trouble.fault.once = true
			before := len(shop.cloudflare.Calls(t))
			shop.cloudflare.inject(t, trouble.fault)
			shop.reorganise()
			shop.isReorganised(t)
			if !slices.ContainsFunc(shop.cloudflare.Calls(t)[before:], trouble.fault.meets) {
				t.Error("the fault met no call")
			}
		})
	}

	t.Run("a limit with a long Retry-After is waited for without a call", func(t *testing.T) {
		t.Parallel()
		shop := openShop(t)
		limit := map[string]any{
			"status":  429,
			"headers": map[string]string{"retry-after": fmt.Sprint(retryAfter.Seconds())},
			"body":    `{"success":false,"errors":[{"code":971,"message":"emulated"}]}`,
		}
		armed := time.Now()
		shop.cloudflare.inject(t, fault{path: anyPath, what: limit, once: true})
		shop.reorganise()
		shop.failsSoftly(t, 2)
		calls := shop.cloudflare.Calls(t)
		shop.failsSoftly(t, 4)
		if now := shop.cloudflare.Calls(t); len(now) != len(calls) {
			t.Errorf("called before the limit was over: %v", now[len(calls):])
		}
		if waited := time.Since(armed); waited >= retryAfter {
			t.Errorf("four loops took %s, so they say nothing of a limit of %s", waited, retryAfter)
		}
		shop.foreign.untouched(t)
		shop.isReorganised(t)
	})
}

// shop is a running set-up with three published hostnames.
type shop struct {
	*deployment
	tunnel  tunnel
	foreign *foreign
}

func openShop(t *testing.T) *shop {
	t.Helper()
	pod, tunnel, foreign := besideOthers(t, invocation{}, "REQUEST_TIMEOUT="+shortDeadline.String())
	pod.source.set(
		published("kept.example.com", "http://kept.shop.svc:80"),
		published("changed.example.com", "http://changed.shop.svc:80"),
		published("withdrawn.example.com", "http://withdrawn.shop.svc:80"),
	)
	pod.settles(t)
	// The record of a withdrawn hostname stays until it has not changed for a minute.
	pod.cloudflare.passTime(t, 2*time.Minute)
	return &shop{pod, tunnel, foreign}
}

// reorganise asks for one hostname more, one less, and one changed.
func (s *shop) reorganise() {
	s.source.set(
		published("kept.example.com", "http://kept.shop.svc:80"),
		published("changed.example.com", "http://changed-next.shop.svc:80"),
		published("created.example.com", "http://created.shop.svc:80"),
	)
}

// isReorganised awaits what reorganise asked for.
func (s *shop) isReorganised(t *testing.T) {
	t.Helper()
	s.settles(t)
	s.cloudflare.Publishes(t, s.tunnel, "kept.example.com", "http://kept.shop.svc:80", `{}`)
	s.cloudflare.Publishes(t, s.tunnel, "changed.example.com", "http://changed-next.shop.svc:80", `{}`)
	s.cloudflare.Publishes(t, s.tunnel, "created.example.com", "http://created.shop.svc:80", `{}`)
	s.cloudflare.Withdrew(t, s.tunnel, "withdrawn.example.com")
	s.foreign.untouched(t)
}
