package e2e

import (
	"slices"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"
)

// from is an endpoint of the object of that name.
func from(resource string, one *endpoint.Endpoint) *endpoint.Endpoint {
	one.Labels[endpoint.ResourceLabelKey] = resource
	return one
}

// Of two objects that ExternalDNS knows apart one has the hostname, whichever asks first in a loop.
func TestTheObjectThatHasAHostnameKeepsItAndTheOtherIsTold(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation)
		cloudflare := pod.cloudflare
		pod.source.rotate()
		const host = "wanted.example.com"
		holder := func(service string) *endpoint.Endpoint { return from("ingress/b/web", published(host, service)) }
		rival := from("ingress/a/web", published(host, "http://rival:80"))
		pod.source.set(holder("http://holder:80"))
		pod.settles(t)
		for _, service := range []string{"http://holder:80", "http://changed:80"} {
			pod.source.set(rival, holder(service))
			pod.settles(t)
			cloudflare.Publishes(t, tunnel, host, service, `{}`)
		}
		if lines := pod.program.Lines("WARN", host, "ingress/a/web", "ingress/b/web"); lines != 1 {
			t.Errorf("%d lines tell the other object", lines)
		}
		pod.source.set(rival)
		pod.settles(t)
		cloudflare.Publishes(t, tunnel, host, "http://rival:80", `{}`)
		foreign.untouched(t)
	})
}

// The namespace that holds a hostname changes it, although the object of another namespace comes first by name.
func TestTheHolderOfAHostnameChangesItWhicheverOtherObjectAsks(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{}, "NAMESPACE_GUARD=true")
	cloudflare := pod.cloudflare
	const host = "held.example.com"
	in := func(resource, service string, properties ...property) *endpoint.Endpoint {
		return from(resource, published(host, service, properties...))
	}
	asks := func(service string) []*endpoint.Endpoint {
		return []*endpoint.Endpoint{
			in("ingress/aaa/x", "http://x.aaa.svc:80"),
			in("ingress/shop/web", service,
				property{"tunnel-service.api", "http://api.shop.svc:80"}, property{"tunnel-path-prefix.api", "/api"}),
		}
	}
	first, second := asks("http://one.shop.svc:80"), asks("http://two.shop.svc:80")
	pod.source.set(first[1])
	pod.settles(t)
	serves := func(service string) {
		t.Helper()
		wanted := []string{"^/api(/|$) http://api.shop.svc:80", " " + service}
		if found := cloudflare.Services(t, tunnel, host); !slices.Equal(found, wanted) {
			t.Errorf("rules: %q, wanted %q", found, wanted)
		}
	}
	pod.source.set(second...)
	pod.settles(t)
	serves("http://two.shop.svc:80")
	// After a restart nothing but the record's comment says which namespace holds it.
	pod.source.set(first...)
	pod.rollOut(t, "NAMESPACE_GUARD=true")
	pod.settles(t)
	serves("http://one.shop.svc:80")
	foreign.untouched(t)
}
