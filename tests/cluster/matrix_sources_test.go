package cluster

import "testing"

// What each version reads in a cluster, and what of it reaches the program.

var sourceTrials = []trial{
	{"grpcroute", []string{"A GRPCRoute, by its Gateway's `target`"}, readsGRPCRoutes},
	{"everything", []string{
		"A Service, by `target`",
		"An Ingress, by `target`",
		"An HTTPRoute, by its Gateway's `target`",
		"A DNSEndpoint, by its targets",
		"`webhook-…` annotations of a Service",
		"`webhook-…` annotations of an Ingress",
		"`webhook-…` annotations of an HTTPRoute",
		"`webhook/…` properties of a DNSEndpoint",
		"The address of a LoadBalancer, by `DEFAULT_SERVICE` and `webhook-tunnel: \"true\"`",
		"A wildcard of a Service, `*.example.com`",
		"A wildcard of an Ingress, by `webhook-tunnel-wildcard: \"true\"`",
		"Annotations that begin `external-dns.alpha.kubernetes.io/`",
		"Annotations that begin `external-dns.kubernetes.io/`",
		"A deleted object is withdrawn under `--policy=sync`",
	}, readsEverything},
	{"all", []string{"The address of a LoadBalancer, by `DEFAULT_SERVICE` and `PUBLISH=all`"}, readsWithoutAnnotations},
	{"listenerset", []string{"Routes of a ListenerSet, with `--gateway-listener-sets`"}, readsListenerSets},
	{"paths", []string{"Paths of one hostname, from Ingresses with a `set-identifier` each"}, readsPathsOfIngresses},
	{"paths of a point", []string{"Paths of one hostname, from a DNSEndpoint"}, readsPathsOfDNSEndpoints},
}

// proxy is a Gateway that publishes its routes to one service.
const proxy = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: proxy, annotations: {either/target: "http://proxy.shop.svc:80"}}
spec:
  gatewayClassName: any
  listeners: [{name: http, protocol: HTTP, port: 80}]
  allowedListeners: {namespaces: {from: Same}}
---
`

// routeOf is one of a kind, for a hostname below example.com, with annotations and a parent in YAML's flow style.
func routeOf(kind, name, annotations, parent string) string {
	return `{apiVersion: gateway.networking.k8s.io/v1, kind: ` + kind + `, metadata: {name: ` + name + `, annotations: {` + annotations + `}},
		spec: {hostnames: [` + name + `.example.com], parentRefs: [{` + parent + `}]}}` + "\n---\n"
}

// serviceOf is one for a hostname below example.com.
func serviceOf(name, kind, annotations string) string {
	return `{apiVersion: v1, kind: Service, metadata: {name: ` + name + `, annotations: {` + annotations +
		`either/hostname: ` + name + `.example.com}}, spec: {type: ` + kind + `, ports: [{port: 80}]}}` + "\n---\n"
}

func readsEverything(t *testing.T, bench *bench) []string {
	const behindPath = `either/webhook-tunnel-path-prefix: /path`
	bench.has(t, proxy+
		serviceOf("service", "ClusterIP", targetOf("service")+", ")+
		ingressOf("ingress", targetOf("ingress"))+
		routeOf("HTTPRoute", "httproute", "", "name: proxy")+
		pointOf("dnsendpoint", "")+
		serviceOf("service-annotated", "ClusterIP", targetOf("service-annotated")+", "+behindPath+", ")+
		ingressOf("ingress-annotated", targetOf("ingress-annotated")+", "+behindPath)+
		routeOf("HTTPRoute", "httproute-annotated", behindPath, "name: proxy")+
		serviceOf("balanced", "LoadBalancer", `either/webhook-tunnel: "true", `)+
		ingressOf("alpha", alphaPrefix+`target: "http://alpha.shop.svc:80"`)+
		ingressOf("current", currentPrefix+`target: "http://current.shop.svc:80"`)+`
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: dnsendpoint-annotated}
spec:
  endpoints:
    - dnsName: dnsendpoint-annotated.example.com
      recordType: CNAME
      targets: ["http://dnsendpoint-annotated.shop.svc:80"]
      providerSpecific: [{name: webhook/tunnel-path-prefix, value: /path}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: wildcard, annotations: {either/target: "http://wildcard.shop.svc:80", `+word+`}}
spec: {rules: [{host: "*.wild.example.com"}]}
---
apiVersion: v1
kind: Service
metadata: {name: wide, annotations: {either/target: "http://wide.shop.svc:80", either/hostname: "*.wide.example.com"}}
spec: {type: ClusterIP, ports: [{port: 80}]}
`)
	going := bench.has(t, ingressOf("going", targetOf("going")))
	pod, known := bench.starts(t, []string{"DEFAULT_SERVICE=http://{name}.shop.svc:80"},
		"--source=service", "--source=ingress", "--source=gateway-httproute", "--source=crd")
	if !known {
		t.Fatal("it does not know the sources")
	}
	pod.settles(t)
	if !bench.servesOwn(t, "going") {
		t.Error("the Ingress that is to go was not published")
	}
	behind := func(name, service string) string {
		t.Helper()
		return cell(bench.serves(t, name, "^/path(/|$) http://"+service+".shop.svc:80"))
	}
	cells := []string{
		cell(bench.servesOwn(t, "service")),
		cell(bench.servesOwn(t, "ingress")),
		cell(bench.serves(t, "httproute", "http://proxy.shop.svc:80")),
		cell(bench.servesOwn(t, "dnsendpoint")),
		behind("service-annotated", "service-annotated"),
		behind("ingress-annotated", "ingress-annotated"),
		behind("httproute-annotated", "proxy"),
		behind("dnsendpoint-annotated", "dnsendpoint-annotated"),
		cell(bench.servesOwn(t, "balanced")),
		cell(bench.serves(t, "*.wide", "http://wide.shop.svc:80")),
		cell(bench.serves(t, "*.wild", "http://wildcard.shop.svc:80")),
		cell(bench.servesOwn(t, "alpha")),
		cell(bench.servesOwn(t, "current")),
	}
	bench.delete(t, going...)
	gone := within(patience, func() bool { return len(bench.cloudflare.RecordsFor(t, "going.example.com")) == 0 })
	pod.settles(t)
	pod.StaysQuiet(t, bench.cloudflare)
	return append(cells, cell(gone && len(bench.cloudflare.RulesFor(t, bench.home, "going.example.com")) == 0))
}

func readsWithoutAnnotations(t *testing.T, bench *bench) []string {
	bench.has(t, serviceOf("balanced", "LoadBalancer", ""))
	pod, known := bench.starts(t, []string{"DEFAULT_SERVICE=http://{name}.shop.svc:80", "PUBLISH=all"}, "--source=service")
	if !known {
		t.Fatal("it does not know the source")
	}
	pod.settles(t)
	return []string{cell(bench.servesOwn(t, "balanced"))}
}

// readsGRPCRoutes: a version that knows them by an older name of their kind's version alone waits for it in vain, and ends.
func readsGRPCRoutes(t *testing.T, bench *bench) []string {
	bench.has(t, proxy+routeOf("GRPCRoute", "grpcroute", "", "name: proxy"))
	pod, known := bench.starts(t, nil, "--source=gateway-grpcroute")
	if !known {
		t.Fatal("it does not know the source")
	}
	served := func() bool { return bench.serves(t, "grpcroute", "http://proxy.shop.svc:80") }
	if !within(2*patience, func() bool { return pod.HasEnded() || served() }) {
		t.Error("it neither publishes the route nor ends")
	}
	return []string{cell(served())}
}

func readsListenerSets(t *testing.T, bench *bench) []string {
	bench.has(t, proxy+`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: listeners}
spec:
  parentRef: {name: proxy}
  listeners: [{name: own, protocol: HTTP, port: 8080}]
---
`+routeOf("HTTPRoute", "listened", "", "kind: ListenerSet, group: gateway.networking.k8s.io, name: listeners"))
	pod, known := bench.starts(t, nil, "--source=gateway-httproute", "--gateway-listener-sets")
	if !known {
		return []string{no}
	}
	pod.settles(t)
	return []string{cell(bench.serves(t, "listened", "http://proxy.shop.svc:80"))}
}

const twoPaths = "shared"

// sharesPaths says whether the shared hostname has both paths, or the program says that one of the two objects is not published.
func (b *bench) sharesPaths(t *testing.T, pod *pod) []string {
	t.Helper()
	both := func() bool {
		return b.serves(t, twoPaths, "^/one(/|$) http://one.shop.svc:80", "^/two(/|$) http://two.shop.svc:80")
	}
	leftOut := func() bool { return pod.program.Tells(`hostname="`+twoPaths+`.example.com"`, "is not published") }
	if !within(patience, func() bool { pod.Alive(t); return both() || leftOut() }) {
		t.Error("neither are both paths published, nor is one left out")
	}
	return []string{cell(both())}
}

func readsPathsOfIngresses(t *testing.T, bench *bench) []string {
	for _, name := range []string{"one", "two"} {
		bench.has(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: `+name+`, annotations: {
			`+targetOf(name)+`, either/set-identifier: `+name+`, either/webhook-tunnel-path-prefix: /`+name+`}},
			spec: {rules: [{host: `+twoPaths+`.example.com}]}}`)
	}
	pod, known := bench.starts(t, nil, "--source=ingress")
	if !known {
		t.Fatal("it does not know the source")
	}
	return bench.sharesPaths(t, pod)
}

func readsPathsOfDNSEndpoints(t *testing.T, bench *bench) []string {
	point := func(name string) string {
		return `{dnsName: ` + twoPaths + `.example.com, recordType: CNAME, targets: ["http://` + name + `.shop.svc:80"], setIdentifier: ` + name +
			`, providerSpecific: [{name: webhook/tunnel-path-prefix, value: /` + name + `}]}`
	}
	bench.has(t, `{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint, metadata: {name: paths},
		spec: {endpoints: [`+point("one")+`, `+point("two")+`]}}`)
	pod, known := bench.starts(t, nil, "--source=crd")
	if !known {
		t.Fatal("it does not know the source")
	}
	return bench.sharesPaths(t, pod)
}
