package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// tenant is a namespace with its objects below the one Gateway of the platform.
type tenant string

const (
	platform       = "infra"
	sharedGateway  = "http://gw.infra.svc:80"
	sharedDomain   = "shared.example.com"
	defaultService = "http://proxy-{namespace}.infra.svc:8000"
)

// host is a name in the tenant's own domain.
func (own tenant) host(label string) string { return label + "." + string(own) + ".example.com" }

// held is a name in the domain that all tenants share, and that the tenant asks for first.
func (own tenant) held() string { return string(own) + "." + sharedDomain }

// late is another one, which the tenant gives up.
func (own tenant) late() string { return "late-" + own.held() }

// route is below the platform's Gateway.
func (own tenant) route(t *testing.T, name, host string) *object {
	t.Helper()
	return own.object(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: `+name+`},
		spec: {hostnames: ["`+host+`"], parentRefs: [{name: public, namespace: `+platform+`}]}}`)
}

// ingress has annotations of ours in YAML's flow style, and the target without which ExternalDNS does not send it.
func (own tenant) ingress(t *testing.T, name, host, annotations string) *object {
	t.Helper()
	return own.object(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: "`+host+`"}]},
		metadata: {name: `+name+`, annotations: {external-dns.kubernetes.io/target: tunnel, `+annotations+`}}}`)
}

func (own tenant) object(t *testing.T, text string) *object {
	t.Helper()
	made := objectsOf(t, []byte(text))[0]
	made.SetNamespace(string(own))
	return made
}

func webhook(name, value string) string {
	return fmt.Sprintf("external-dns.kubernetes.io/webhook-%s: %q", name, value)
}

// looks awaits the end of a loop that begins now.
func (p *pod) looks(t *testing.T) {
	t.Helper()
	loops := func() float64 { return p.MustMetric(t, harness.NoOpRuns) + p.MustMetric(t, harness.ApplyCalls) }
	before := loops()
	harness.EventuallyWithin(t, patience, "external-dns looks again", func() error {
		p.Alive(t)
		if loops() < before+2 {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestTwoTenantsBelowOneGatewayTakeNothingFromEachOther: each tries nine things against the other, all at once.
func TestTwoTenantsBelowOneGatewayTakeNothingFromEachOther(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	objects := helm(t, allSources(map[string]any{"provider": map[string]any{"webhook": map[string]any{"args": []string{
		"--namespace-guard=true", "--shared-services=" + sharedGateway, "--default-service=" + defaultService,
		"--namespace-domains=*={namespace}.example.com,*=" + sharedDomain,
	}}}}))
	cluster.install(t, objects)
	tenants := []tenant{"red", "blue"}
	for _, name := range []string{platform, string(tenants[0]), string(tenants[1])} {
		cluster.apply(t, "", namespace(name))
	}
	cluster.apply(t, platform, objectsOf(t, []byte(`{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway,
		metadata: {name: public, annotations: {external-dns.kubernetes.io/target: "`+sharedGateway+`"}},
		spec: {gatewayClassName: any, listeners: [{name: http, protocol: HTTP, port: 80, allowedRoutes: {namespaces: {from: All}}}]}}`))...)
	published := shape{}
	for _, own := range tenants {
		cluster.apply(t, "",
			own.route(t, "web", own.host("web")), own.route(t, "held", own.held()), own.route(t, "late", own.late()),
			own.ingress(t, "default", own.host("default"), webhook("tunnel", "true")),
			own.object(t, `{apiVersion: v1, kind: Service, metadata: {name: api, annotations: {
				external-dns.kubernetes.io/hostname: `+own.host("api")+`, external-dns.kubernetes.io/target: tunnel,
				`+webhook("tunnel-service", "http://{name}.{namespace}.svc:8080")+`}}, spec: {ports: [{port: 8080}]}}`))
		published[own.host("web")] = []string{sharedGateway}
		published[own.held()] = []string{sharedGateway}
		published[own.late()] = []string{sharedGateway}
		published[own.host("default")] = []string{"http://proxy-" + string(own) + ".infra.svc:8000"}
		published[own.host("api")] = []string{"http://api." + string(own) + ".svc:8080"}
	}
	pod := cluster.run(t, objects, soon...)
	pod.publishes(t, published)

	for index, own := range tenants {
		other := tenants[1-index]
		gateway := webhook("tunnel-service", sharedGateway)
		service := webhook("tunnel-service", "http://web."+string(own)+".svc:80")
		attempts := []struct {
			what  string
			by    *object
			tells []string // with the object
		}{
			{"the same hostname in the other's domain",
				own.route(t, "same", other.host("web")), []string{"refused=invalid", "NAMESPACE_DOMAINS"}},
			{"the same hostname in a shared domain",
				own.ingress(t, "same-shared", other.held(), service), []string{"is not published"}},
			{"a path in the other's domain",
				own.ingress(t, "path", other.host("web"), service+", external-dns.kubernetes.io/set-identifier: path, "+
					webhook("tunnel-path-prefix", "/login")), []string{"refused=invalid", "NAMESPACE_DOMAINS"}},
			{"a path in a shared domain",
				own.ingress(t, "path-shared", other.held(), service+", external-dns.kubernetes.io/set-identifier: path, "+
					webhook("tunnel-path-prefix", "/login")), []string{"refused=namespace_held"}},
			{"a wildcard over all tenants",
				own.ingress(t, "wildcard", "*.example.com", gateway+", "+webhook("tunnel-wildcard", "true")),
				[]string{"refused=invalid", "NAMESPACE_DOMAINS"}},
			{"the other's Host header behind the Gateway",
				own.ingress(t, "header", own.host("header"), gateway+", "+webhook("origin-http-host-header", other.host("web"))),
				[]string{"refused=invalid", "webhook-origin-http-host-header"}},
			{"the other's namespace as an object's name",
				own.ingress(t, string(other), own.host("name"), webhook("tunnel-service", "http://api.{name}.svc:8080")),
				[]string{"refused=invalid", "NAMESPACE_GUARD"}},
			{"another port of the Gateway",
				own.ingress(t, "port", own.host("port"), webhook("tunnel-service", "http://gw.infra.svc:8080")),
				[]string{"refused=invalid", "NAMESPACE_GUARD"}},
			{"the other's default service",
				own.ingress(t, "proxy", own.host("proxy"), webhook("tunnel-service", "http://proxy-"+string(other)+".infra.svc:8000")),
				[]string{"refused=invalid", "NAMESPACE_GUARD"}},
		}
		var made []*object
		for _, attempt := range attempts {
			made = append(made, attempt.by)
		}
		cluster.apply(t, "", made...)
		for _, attempt := range attempts {
			t.Run(string(own)+" tries "+attempt.what, func(t *testing.T) {
				resource := strings.ToLower(attempt.by.GetKind()) + "/" + string(own) + "/" + attempt.by.GetName()
				awaitLine(t, pod, append(attempt.tells, fmt.Sprintf("resource=%q", resource))...)
			})
		}
		pod.looks(t)
		if err := cluster.shows(t, published); err != nil {
			t.Error(err)
		}
		// What is refused holds up no change of the other.
		web := other.route(t, "web", other.host("web"))
		web.SetAnnotations(map[string]string{"external-dns.kubernetes.io/webhook-origin-connect-timeout": "5s"})
		cluster.apply(t, "", web)
		harness.EventuallyWithin(t, patience, "the other changes its route", func() error {
			return cluster.cloudflare.IsPublished(t, cluster.home, other.host("web"), sharedGateway, `{"connectTimeout":5}`)
		})
		cluster.delete(t, made...)
		pod.publishes(t, published)

		t.Run(string(own)+" asks for a hostname as the other deletes it and changes another", func(t *testing.T) {
			late := own.ingress(t, "late-"+string(other), other.late(), service)
			changed := other.ingress(t, "default", other.host("default"), webhook("tunnel-service", "http://new."+string(other)+".svc:80"))
			cluster.apply(t, "", late)
			pod.publishes(t, published)
			cluster.delete(t, other.route(t, "late", other.late()))
			cluster.apply(t, "", changed)
			published[other.host("default")] = []string{"http://new." + string(other) + ".svc:80"}
			// ExternalDNS sees an update of the hostname, which is refused.
			awaitLine(t, pod, "refused=namespace_held", fmt.Sprintf("resource=\"ingress/%s/late-%s\"", own, other))
			pod.reaches(t, published)
			// Taken off both for one loop it is free.
			cluster.delete(t, late)
			delete(published, other.late())
			pod.publishes(t, published)
			cluster.apply(t, "", late)
			taken := maps.Clone(published)
			taken[other.late()] = []string{"http://web." + string(own) + ".svc:80"}
			pod.publishes(t, taken)
			cluster.delete(t, late)
			pod.publishes(t, published)
		})
	}
	t.Logf("published at the end: %v", slices.Sorted(maps.Keys(published)))
}
