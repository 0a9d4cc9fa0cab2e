package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"
)

// in is what an object of a namespace asks for, with a service of that namespace or an answer.
func in(namespace, object, host, service string, properties ...property) *endpoint.Endpoint {
	if !strings.Contains(service, ":") {
		service = fmt.Sprintf("http://%s.%s.svc:80", service, namespace)
	}
	// Of one type and target, so that ExternalDNS merges what it cannot tell apart.
	one := annotated(endpoint.NewEndpoint(host, endpoint.RecordTypeA, "192.0.2.10"), append(properties, property{"tunnel-service", service})...)
	return from("ingress/"+namespace+"/"+object, one)
}

// at gives an object's endpoint a path, and the set identifier without which ExternalDNS merges it with other paths.
func at(prefix string, one *endpoint.Endpoint) *endpoint.Endpoint {
	one.SetProviderSpecificProperty("webhook/tunnel-path-prefix", prefix)
	return one.WithSetIdentifier(prefix)
}

// Switched on where stamps name no object, the guard goes by the services of the rules. Where these do not tell, nothing
// changes, and what requires a login never gets to the rule behind it.
func TestTheNamespaceGuardThatComesLaterTakesAndOpensNothing(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation)
		cloudflare := pod.cloudflare
		pod.source.rotate()
		const held, shared = "held.example.com", "shared.example.com"
		admin := func(host, prefix string) *endpoint.Endpoint {
			return at(prefix, in("shop", "admin", host, "admin", property{"access-required", "true"},
				property{"access-team-name", "my-team"}, property{"access-aud-tag", strings.Repeat("a", 64)}))
		}
		bank := at("/bank", in("bank", "web", shared, "bank"))
		answer := func(namespace string) *endpoint.Endpoint {
			return at("/status", in(namespace, "status", held, "http_status:503"))
		}
		of := func(prefix string, more ...*endpoint.Endpoint) []*endpoint.Endpoint {
			return append(more, in("shop", "web", held, "web"), in("shop", "web", shared, "web"), admin(held, prefix), admin(shared, prefix), bank)
		}
		pod.source.set(of("/admin", answer("shop"))...)
		pod.settles(t)

		// In one loop the guard comes, everything drifts, a path is reworded, and a stranger asks for the path of an answer that
		// its own object asks for no more.
		comment := func(host string) string { return cloudflare.RecordsFor(t, host)[0].Comment }
		for _, host := range []string{held, shared} {
			if found := comment(host); strings.Contains(found, "resource=") || strings.Contains(found, "ns=") {
				t.Fatalf("the comment of %s names an object: %s", host, found)
			}
		}
		pod.source.set(of("/administration", answer("bank"), at("/new", in("bank", "new", held, "new")))...)
		pod.rollOut(t, "NAMESPACE_GUARD=true")
		for range 5 {
			pod.awaitLoops(t, 1)
			for _, host := range []string{held, shared} {
				if seen := cloudflare.Visit(t, host, "/admin"); seen != "403 through "+tunnel.ID && (host == shared || !strings.Contains(seen, "web.shop")) {
					t.Errorf("a visitor of %s/admin without a login gets %s", host, seen)
				}
			}
		}
		pod.isRefused(t, cloudflare)
		services := func(host string) []string {
			return slices.Sorted(slices.Values(cloudflare.Services(t, tunnel, host)))
		}
		for host, wanted := range map[string][]string{
			held: {" http://web.shop.svc:80", "^/admin(/|$) http://admin.shop.svc:80", "^/administration(/|$) http://admin.shop.svc:80",
				"^/status(/|$) http_status:503"},
			shared: {" http://web.shop.svc:80", "^/admin(/|$) http://admin.shop.svc:80", "^/bank(/|$) http://bank.bank.svc:80"},
		} {
			if found := services(host); !slices.Equal(found, wanted) {
				t.Errorf("rules of %s: %q, wanted %q", host, found, wanted)
			}
		}
		if found := comment(held); !strings.Contains(found, " ns=") {
			t.Errorf("the comment is %s", found)
		}
		if lines := pod.program.Lines("WARN", shared, "bank: ns=", "shop: ns="); lines != 1 {
			t.Errorf("%d lines tell what to write", lines)
		}
		foreign.untouched(t)
	})
}

// ExternalDNS merges endpoints of objects of any namespaces, and any of them may be what is left, also where their paths
// differ. In no loop does the namespace that has a hostname lose it.
func TestAHostnameStaysWithItsNamespaceHoweverExternalDNSMerges(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation, "NAMESPACE_GUARD=true")
		cloudflare := pod.cloudflare
		pod.source.rotate()
		const all, contested, equal = 10, 5, 3
		var hosts []string
		var shop, bank []*endpoint.Endpoint
		for number := range all {
			hosts = append(hosts, fmt.Sprintf("h%d.example.com", number))
			shop = append(shop, in("shop", "web", hosts[number], "web"))
			if number < equal {
				bank = append(bank, in("bank", "web", hosts[number], "bank"))
			} else if number < contested {
				bank = append(bank, at("/bank", in("bank", "web", hosts[number], "bank")))
			}
		}
		pod.source.set(shop...)
		pod.settles(t)
		stands := func() {
			t.Helper()
			for _, host := range hosts {
				if found := cloudflare.Services(t, tunnel, host); !slices.Equal(found, []string{" http://web.shop.svc:80"}) {
					t.Fatalf("rules of %s: %q", host, found)
				}
			}
		}
		writes := len(cloudflare.Writes(t))
		pod.source.set(append(bank, shop...)...)
		for range 30 {
			pod.awaitLoops(t, 1)
			stands()
		}
		// The objects are deleted, and the others go on asking.
		pod.source.set(append(bank, shop[contested:]...)...)
		pod.isRefused(t, cloudflare)
		stands()
		if now := len(cloudflare.Writes(t)); now != writes {
			t.Errorf("written: %v", cloudflare.Writes(t)[writes:])
		}
		for _, host := range hosts[:equal] {
			if lines := pod.program.Lines("WARN", host, "ingress/bank/web", "merged both objects", "ns="); lines == 0 {
				t.Errorf("nothing is told of %s", host)
			}
			asked := pod.program.Exec(t, "status", host)
			asked.ExitCode(t)
			if rows := asked.Output(t); !strings.Contains(rows, "merged both objects") {
				t.Errorf("status has no row that says so: %s", rows)
			}
		}
		// Taken off both for one loop it is free.
		pod.source.set(shop[contested:]...)
		pod.settles(t)
		pod.source.set(append(bank, shop[contested:]...)...)
		pod.settles(t)
		for _, host := range hosts[:equal] {
			cloudflare.Publishes(t, tunnel, host, "http://bank.bank.svc:80", `{}`)
		}
		for _, host := range hosts[equal:contested] {
			if found := cloudflare.Services(t, tunnel, host); !slices.Equal(found, []string{"^/bank(/|$) http://bank.bank.svc:80"}) {
				t.Errorf("rules of %s: %q", host, found)
			}
		}
		foreign.untouched(t)
	})
}
