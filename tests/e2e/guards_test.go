package e2e

import (
	"fmt"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// ExternalDNS's own --dry-run does not reach a provider, so it asks for its changes in every loop.
func TestADryRunWritesNothingAndTellsEverything(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{})
	cloudflare := pod.cloudflare
	changed, withdrawn, created := "changed.example.com", "withdrawn.example.com", "created.example.com"
	pod.source.set(published(changed, "http://old.shop.svc:80"), published(withdrawn, "http://gone.shop.svc:80"))
	pod.settles(t)

	pod.rollOut(t, "DRY_RUN=true")
	pod.source.set(published(changed, "http://new.shop.svc:80"), published(created, "http://created.shop.svc:80"))
	before := cloudflare.Writes(t)
	pod.isRefused(t, cloudflare)
	if now := cloudflare.Writes(t); len(now) != len(before) {
		t.Errorf("written: %v", now[len(before):])
	}
	cloudflare.Publishes(t, tunnel, changed, "http://old.shop.svc:80", `{}`)
	cloudflare.Publishes(t, tunnel, withdrawn, "http://gone.shop.svc:80", `{}`)
	cloudflare.Withdrew(t, tunnel, created)
	for _, hostname := range []string{changed, withdrawn, created} {
		if !pod.program.Tells("without DRY_RUN: ", hostname) {
			t.Errorf("nothing is told of %s", hostname)
		}
	}

	pod.rollOut(t)
	pod.settles(t)
	cloudflare.Publishes(t, tunnel, changed, "http://new.shop.svc:80", `{}`)
	cloudflare.Publishes(t, tunnel, created, "http://created.shop.svc:80", `{}`)
	cloudflare.Withdrew(t, tunnel, withdrawn)
	foreign.untouched(t)
}

// A source that is suddenly empty is more often a mistake than meant.
func TestAMassDeletionIsWithheldUntilItIsAllowed(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{})
	cloudflare := pod.cloudflare
	var all []*endpoint.Endpoint
	for number := range 12 {
		all = append(all, published(fmt.Sprintf("host-%d.example.com", number), "http://web.shop.svc:80"))
	}
	pod.source.set(all...)
	pod.settles(t)

	// Everything else is done.
	pod.source.set(published("new.example.com", "http://new.shop.svc:80"))
	harness.Eventually(t, "the new hostname is published", func() error {
		pod.Alive(t)
		return cloudflare.IsPublished(t, tunnel, "new.example.com", "http://new.shop.svc:80", `{}`)
	})
	// Each loop is answered 503: nothing more is written, and ExternalDNS lives on.
	writes := len(cloudflare.Writes(t))
	pod.failsSoftly(t, 3)
	if now := cloudflare.Writes(t); len(now) != writes {
		t.Errorf("written for what is withheld: %v", now[writes:])
	}
	for _, one := range all {
		cloudflare.Publishes(t, tunnel, one.DNSName, "http://web.shop.svc:80", `{}`)
	}
	if lines := pod.program.Lines("refused=mass_deletion", "hostnames=12", "global.settings.MASS_DELETION_LIMIT=12"); lines != 1 {
		t.Errorf("how to allow it is told %d times", lines)
	}
	foreign.untouched(t)

	// The twelve and the new one.
	pod.source.set()
	pod.rollOut(t, "MASS_DELETION_LIMIT=13")
	pod.settles(t)
	foreign.alone(t)
}

// With the guard a namespace publishes its own services only, and keeps the hostnames it has.
func TestTheNamespaceGuardKeepsNamespacesApart(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{}, "NAMESPACE_GUARD=true")
	cloudflare := pod.cloudflare
	in := func(namespace, hostname, service string) *endpoint.Endpoint {
		one := published(hostname, service)
		one.Labels[endpoint.ResourceLabelKey] = "ingress/" + namespace + "/web"
		return one
	}
	web, status, intruder := "web.example.com", "status.example.com", "intruder.example.com"
	own := []*endpoint.Endpoint{in("shop", web, "http://web.shop.svc:80"), in("shop", status, "http_status:503")}
	isAsBefore := func(t *testing.T) {
		t.Helper()
		pod.isRefused(t, cloudflare)
		cloudflare.Publishes(t, tunnel, web, "http://web.shop.svc:80", `{}`)
		cloudflare.Publishes(t, tunnel, status, "http_status:503", `{}`)
		cloudflare.Withdrew(t, tunnel, intruder)
		foreign.untouched(t)
	}
	pod.source.set(own...)
	pod.settles(t)

	t.Run("a service of another namespace is refused", func(t *testing.T) {
		pod.source.set(append(own, in("shop", intruder, "http://web.other.svc:80"))...)
		isAsBefore(t)
	})
	t.Run("a hostname of one namespace is not taken by another", func(t *testing.T) {
		pod.source.set(in("other", web, "http://web.other.svc:80"), own[1])
		isAsBefore(t)
	})
	t.Run("its own namespace goes on with it", func(t *testing.T) {
		pod.source.set(in("shop", web, "https://web.shop.svc.cluster.local:443"), own[1])
		pod.settles(t)
		cloudflare.Publishes(t, tunnel, web, "https://web.shop.svc.cluster.local:443", `{}`)
	})
	t.Run("once it is withdrawn it is free", func(t *testing.T) {
		pod.source.set(own[1])
		pod.settles(t)
		pod.source.set(in("other", web, "http://web.other.svc:80"), own[1])
		pod.settles(t)
		cloudflare.Publishes(t, tunnel, web, "http://web.other.svc:80", `{}`)
	})
	t.Run("after the last withdrawal only what is foreign is left", func(t *testing.T) {
		pod.source.set()
		pod.settles(t)
		foreign.alone(t)
	})
}

// With the guard nothing goes out without a login, and what loses its application is closed at the rule.
func TestTheAccessGuardPublishesOnlyWhatAccessProtects(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	cloudflare.Ask(t, "POST", "/access", map[string]any{"team": "my-team"}, nil)
	tunnel := cloudflare.tunnelOfOthers(t, "hand-made")
	foreign := cloudflare.foreign(t, tunnel)
	pod := deployWith(t, invocation{}, cloudflare, tunnel.ID, "ACCESS_GUARD=true")
	web, open := "web.example.com", "open.example.com"
	covering := cloudflare.protects(t, web)
	service := "http://web.shop.svc:80"

	pod.source.set(published(web, service), published(open, "http://open.shop.svc:80"))
	harness.Eventually(t, "what is covered is published", func() error {
		pod.Alive(t)
		return cloudflare.isProtected(t, tunnel, web, service, covering)
	})
	pod.isRefused(t, cloudflare)
	cloudflare.Withdrew(t, tunnel, open)
	if lines := pod.program.Lines("refused=unprotected", "create one for "+open); lines != 1 {
		t.Errorf("what is missing is told %d times", lines)
	}

	// Everything else goes on while the application is gone.
	cloudflare.Ask(t, "POST", "/applications", map[string]any{"id": covering.ID, "delete": true}, nil)
	other := "other.example.com"
	coveringOther := cloudflare.protects(t, other)
	pod.source.set(published(web, service), published(other, service))
	harness.Eventually(t, "another one is published", func() error {
		pod.Alive(t)
		return cloudflare.isProtected(t, tunnel, other, service, coveringOther)
	})
	pod.isRefused(t, cloudflare)
	if seen := cloudflare.Visit(t, web, "/"); seen != "403 through "+tunnel.ID {
		t.Errorf("a visitor without a login gets %s", seen)
	}

	// It is made again, and has another audience tag.
	again := cloudflare.protects(t, web)
	pod.settles(t)
	if err := cloudflare.isProtected(t, tunnel, web, service, again); err != nil {
		t.Error(err)
	}
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
}

// application is one of Cloudflare Access.
type application struct {
	ID       string `json:"id"`
	Audience string `json:"aud"`
}

// isProtected says what is missing: a rule that wants the application's tokens, or a visitor that is turned away.
func (e *emulator) isProtected(t *testing.T, tunnel tunnel, host, service string, by application) error {
	t.Helper()
	check := fmt.Sprintf(`{"access":{"required":true,"teamName":"my-team","audTag":[%q]}}`, by.Audience)
	rules := e.RulesFor(t, tunnel, host)
	if len(rules) != 1 || rules[0].Service != service || string(rules[0].OriginRequest) != check {
		return fmt.Errorf("%s has the rules %v, not one for %s with %s", host, rules, service, check)
	}
	if seen := e.Visit(t, host, "/"); seen != "turned away by application "+by.ID {
		return fmt.Errorf("a visitor without a login of %s gets %s", host, seen)
	}
	return nil
}

// protects makes an application for the whole host, which lets some in after a login.
func (e *emulator) protects(t *testing.T, host string) (made application) {
	t.Helper()
	include := []any{map[string]any{"email_domain": map[string]any{"domain": "example.com"}}}
	policy := map[string]any{"name": "staff", "decision": "allow", "include": include}
	e.Ask(t, "POST", "/applications", map[string]any{"application": map[string]any{
		"type": "self_hosted", "name": host, "domain": host, "policies": []any{policy},
	}}, &made)
	return made
}
