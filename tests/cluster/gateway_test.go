package cluster

import "testing"

// gateways are four: with a service as its target, two with another one, and without any.
const gateways = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: public
  annotations:
    external-dns.kubernetes.io/target: http://proxy.gateways.svc:80
    # Of a Gateway ExternalDNS reads the target alone.
    external-dns.kubernetes.io/webhook-tunnel-path-prefix: /never
spec:
  gatewayClassName: any
  listeners: [{name: http, protocol: HTTP, port: 80}]
  allowedListeners: {namespaces: {from: Same}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: second
  annotations:
    external-dns.kubernetes.io/target: http://second.gateways.svc:80
spec:
  gatewayClassName: any
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: mirror
  annotations:
    external-dns.kubernetes.io/target: http://second.gateways.svc:80
spec:
  gatewayClassName: any
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bare}
spec:
  gatewayClassName: any
  listeners: [{name: http, protocol: HTTP, port: 80}]
`

// route is one of a kind, with a name that is its hostname below example.com, annotations and parents in YAML's flow style.
func route(t *testing.T, kind, name, annotations, parents string) *object {
	t.Helper()
	return objectsOf(t, []byte(`{apiVersion: gateway.networking.k8s.io/v1, kind: `+kind+`,
		metadata: {name: `+name+`, annotations: `+annotations+`},
		spec: {hostnames: [`+name+`.example.com], parentRefs: `+parents+`}}`))[0]
}

// TestRoutesArePublishedByTheTargetOfTheirGateway, and those that name a service by that one.
func TestRoutesArePublishedByTheTargetOfTheirGateway(t *testing.T) {
	t.Parallel()
	const ownService = `{external-dns.kubernetes.io/webhook-tunnel-service: "http://own.shop.svc:80"}`
	cluster := startCluster(t)
	objects := helm(t, allSources(map[string]any{"enableGatewayListenerSets": true}))
	cluster.install(t, objects)
	pod := cluster.run(t, objects, soon...)
	cluster.apply(t, appNamespace, objectsOf(t, []byte(gateways))...)
	proxied := shape{}
	publish := func(hostname string, service string, objects ...*object) {
		t.Helper()
		cluster.apply(t, appNamespace, objects...)
		if service != "" {
			proxied[hostname] = []string{service}
		}
	}

	publish("plain.example.com", "http://proxy.gateways.svc:80", route(t, "HTTPRoute", "plain", `{}`, `[{name: public}]`))
	publish("grpc.example.com", "http://proxy.gateways.svc:80", route(t, "GRPCRoute", "grpc", `{}`, `[{name: public}]`))
	publish("own.example.com", "http://own.shop.svc:80", route(t, "HTTPRoute", "own", ownService, `[{name: public}]`))
	publish("own-grpc.example.com", "http://own.shop.svc:80", route(t, "GRPCRoute", "own-grpc", ownService, `[{name: public}]`))
	// ExternalDNS reads no target from a route.
	publish("misplaced.example.com", "http://proxy.gateways.svc:80",
		route(t, "HTTPRoute", "misplaced", `{external-dns.kubernetes.io/target: "http://never.shop.svc:80"}`, `[{name: public}]`))
	publish("bare-own.example.com", "http://own.shop.svc:80", route(t, "HTTPRoute", "bare-own", ownService, `[{name: bare}]`))
	// An address and no service: an ordinary record, and none of ours.
	publish("bare.example.com", "", route(t, "HTTPRoute", "bare", `{}`, `[{name: bare}]`))
	// With two Gateways: the service that both name, or that of the route.
	publish("mirrored.example.com", "http://second.gateways.svc:80", route(t, "HTTPRoute", "mirrored", `{}`, `[{name: second}, {name: mirror}]`))
	publish("two-own.example.com", "http://own.shop.svc:80", route(t, "HTTPRoute", "two-own", ownService, `[{name: public}, {name: second}]`))
	// A ListenerSet's routes have the target of its Gateway, or its own.
	publish("listened.example.com", "http://proxy.gateways.svc:80", append(objectsOf(t, []byte(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: inherited}
spec:
  parentRef: {name: public}
  listeners: [{name: inherited, protocol: HTTP, port: 8080}]
`)), route(t, "HTTPRoute", "listened", `{}`, `[{kind: ListenerSet, group: gateway.networking.k8s.io, name: inherited}]`))...)
	publish("listened-own.example.com", "http://listeners.shop.svc:80", append(objectsOf(t, []byte(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata:
  name: own
  annotations:
    external-dns.kubernetes.io/target: http://listeners.shop.svc:80
spec:
  parentRef: {name: public}
  listeners: [{name: own, protocol: HTTP, port: 8081}]
`)), route(t, "HTTPRoute", "listened-own", `{}`, `[{kind: ListenerSet, group: gateway.networking.k8s.io, name: own}]`))...)
	pod.publishes(t, proxied)

	t.Run("two Gateways with two services are refused until the route says which", func(t *testing.T) {
		torn := route(t, "HTTPRoute", "torn", `{}`, `[{name: public}, {name: second}]`)
		cluster.apply(t, appNamespace, torn)
		awaitLine(t, pod, `hostname="torn.example.com"`, "refused=invalid")
		if err := cluster.shows(t, proxied); err != nil {
			t.Error(err)
		}
		publish("torn.example.com", "http://own.shop.svc:80", route(t, "HTTPRoute", "torn", ownService, `[{name: public}, {name: second}]`))
		pod.publishes(t, proxied)
	})
	t.Run("the target of a Gateway changes the service of all its routes", func(t *testing.T) {
		moved := objectsOf(t, []byte(gateways))[0]
		moved.SetAnnotations(map[string]string{"external-dns.kubernetes.io/target": "http://moved.gateways.svc:80"})
		cluster.apply(t, appNamespace, moved)
		for hostname, rules := range proxied {
			if rules[0] == "http://proxy.gateways.svc:80" {
				proxied[hostname] = []string{"http://moved.gateways.svc:80"}
			}
		}
		pod.publishes(t, proxied)
	})
}
