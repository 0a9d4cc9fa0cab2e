package cluster

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// TestKustomizeRunsAsItIs: deploy/kustomize in a namespace that enforces the strictest pod security, with the role it ships.
func TestKustomizeRunsAsItIs(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	objects := kustomize(t)
	cluster.install(t, objects)
	pod := cluster.run(t, objects, soon...)

	published := objectsOf(t, []byte(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  annotations:
    external-dns.kubernetes.io/target: http://shop.shop.svc:80
spec:
  rules: [{host: shop.example.com}]
---
# Without a target: what a Service of each type shows by itself needs nodes, pods and EndpointSlices to be read.
apiVersion: v1
kind: Service
metadata:
  name: balanced
  annotations:
    external-dns.kubernetes.io/hostname: balanced.example.com
    external-dns.kubernetes.io/webhook-tunnel-service: http://balanced.shop.svc:80
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata:
  name: inside
  annotations:
    external-dns.kubernetes.io/hostname: inside.example.com
    external-dns.kubernetes.io/target: tcp://inside.shop.svc:5432
spec: {ports: [{port: 5432}]}
---
apiVersion: v1
kind: Service
metadata:
  name: headless
  annotations:
    external-dns.kubernetes.io/hostname: headless.example.com
    external-dns.kubernetes.io/target: http://headless.shop.svc:80
spec: {clusterIP: None, selector: {app: headless}, ports: [{port: 80}]}
`))
	cluster.apply(t, appNamespace, published...)
	pod.publishes(t, shape{
		"shop.example.com":     {"http://shop.shop.svc:80"},
		"balanced.example.com": {"http://balanced.shop.svc:80"},
		"inside.example.com":   {"tcp://inside.shop.svc:5432"},
		"headless.example.com": {"http://headless.shop.svc:80"},
	})

	t.Run("its token reads no Secret and writes nothing", func(t *testing.T) {
		for _, denied := range [][2]string{
			{http.MethodGet, "/api/v1/secrets"},
			{http.MethodGet, "/api/v1/namespaces/" + ownNamespace + "/secrets/cloudflare"},
			{http.MethodDelete, "/apis/networking.k8s.io/v1/namespaces/" + appNamespace + "/ingresses/shop"},
		} {
			_, err := cluster.TryAs(pod.token, denied[0], denied[1], "application/yaml", nil)
			if err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
				t.Errorf("%v: %v", denied, err)
			}
		}
	})
	t.Run("the namespace would have no pod that may gain privileges", func(t *testing.T) {
		for _, object := range objects {
			if object.GetKind() != "Deployment" {
				continue
			}
			template, _, _ := unstructured.NestedMap(object.DeepCopy().Object, "spec", "template")
			containers, _, _ := unstructured.NestedSlice(template, "spec", "containers")
			for _, each := range containers {
				each.(map[string]any)["securityContext"].(map[string]any)["allowPrivilegeEscalation"] = true
			}
			_ = unstructured.SetNestedSlice(template, containers, "spec", "containers")
			if err := cluster.admits(template); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
				t.Errorf("admitted all the same: %v", err)
			}
		}
	})
	cluster.delete(t, published...)
	pod.publishes(t, shape{})
}

// everySource is one object for each source, five hostnames in all: so many may go at once.
const everySource = `
apiVersion: v1
kind: Service
metadata:
  name: service
  annotations:
    external-dns.kubernetes.io/hostname: service.example.com
    external-dns.kubernetes.io/webhook-tunnel-service: http://service.shop.svc:80
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: ingress
  annotations:
    external-dns.kubernetes.io/target: http://ingress.shop.svc:80
spec:
  rules: [{host: ingress.example.com}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec:
  gatewayClassName: any
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: httproute
  annotations:
    external-dns.kubernetes.io/webhook-tunnel-service: http://httproute.shop.svc:80
spec:
  parentRefs: [{name: public}]
  hostnames: [httproute.example.com]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata:
  name: grpcroute
  annotations:
    external-dns.kubernetes.io/webhook-tunnel-service: https://grpcroute.shop.svc:443
spec:
  parentRefs: [{name: public}]
  hostnames: [grpcroute.example.com]
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: dnsendpoint}
spec:
  endpoints:
    - dnsName: dnsendpoint.example.com
      recordType: CNAME
      targets: ["http://dnsendpoint.shop.svc:80"]
      setIdentifier: all
    - dnsName: dnsendpoint.example.com
      recordType: CNAME
      targets: ["http://api.shop.svc:80"]
      providerSpecific: [{name: webhook/tunnel-path-prefix, value: /api}]
      setIdentifier: api
`

var everySourcePublishes = shape{
	"service.example.com":     {"http://service.shop.svc:80"},
	"ingress.example.com":     {"http://ingress.shop.svc:80"},
	"httproute.example.com":   {"http://httproute.shop.svc:80"},
	"grpcroute.example.com":   {"https://grpcroute.shop.svc:443"},
	"dnsendpoint.example.com": {"^/api(/|$) http://api.shop.svc:80", "http://dnsendpoint.shop.svc:80"},
}

// allSources are the values that one gives the chart for them.
func allSources(more map[string]any) map[string]any {
	values := map[string]any{"sources": []string{"service", "ingress", "gateway-httproute", "gateway-grpcroute", "crd"}}
	for name, value := range more {
		values[name] = value
	}
	return values
}

// TestTheChartPublishesEverySourceUnderEveryRegistry: publication, a change and the withdrawal, with the chart's own role.
func TestTheChartPublishesEverySourceUnderEveryRegistry(t *testing.T) {
	t.Parallel()
	for _, registry := range []struct {
		name string
		more map[string]any
	}{
		{"noop", nil},
		{"txt", map[string]any{"registry": "txt"}},
		{"crd", map[string]any{"registry": "crd", "txtOwnerId": "default"}},
	} {
		t.Run(registry.name, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t)
			objects := helm(t, allSources(registry.more))
			cluster.install(t, objects)
			pod := cluster.run(t, objects, soon...)
			before := textsAmong(cluster.records)
			storesNoTexts := func() {
				t.Helper()
				if found := textsAmong(cluster.cloudflare.Records(t)); found != before {
					t.Errorf("%d TXT records, wanted %d", found, before)
				}
			}

			applied := objectsOf(t, []byte(everySource))
			cluster.apply(t, appNamespace, applied...)
			pod.publishes(t, everySourcePublishes)
			storesNoTexts()

			changed := strings.ReplaceAll(everySource, ".shop.svc:80", ".next.svc:8080")
			cluster.apply(t, appNamespace, objectsOf(t, []byte(changed))...)
			pod.publishes(t, shape{
				"service.example.com":     {"http://service.next.svc:8080"},
				"ingress.example.com":     {"http://ingress.next.svc:8080"},
				"httproute.example.com":   {"http://httproute.next.svc:8080"},
				"grpcroute.example.com":   {"https://grpcroute.shop.svc:443"},
				"dnsendpoint.example.com": {"^/api(/|$) http://api.next.svc:8080", "http://dnsendpoint.next.svc:8080"},
			})
			storesNoTexts()

			cluster.delete(t, applied...)
			pod.publishes(t, shape{})
			if now := cluster.cloudflare.Records(t); len(now) != len(cluster.records) {
				t.Errorf("records %v", now)
			}
		})
	}
}

// textsAmong counts the TXT records.
func textsAmong(records []harness.Record) int {
	count := 0
	for _, record := range records {
		if record.Type == "TXT" {
			count++
		}
	}
	return count
}
