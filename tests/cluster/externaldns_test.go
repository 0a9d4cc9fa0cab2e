package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

func awaitLine(t *testing.T, pod *pod, texts ...string) {
	t.Helper()
	harness.EventuallyWithin(t, patience, fmt.Sprintf("the program says %q", texts), func() error {
		pod.Alive(t)
		if !pod.program.Tells(texts...) {
			return errors.New("not yet")
		}
		return nil
	})
}

func ingress(t *testing.T, name, annotations string) *object {
	t.Helper()
	return objectsOf(t, []byte(`{apiVersion: networking.k8s.io/v1, kind: Ingress,
		metadata: {name: `+name+`, annotations: `+annotations+`}, spec: {rules: [{host: `+name+`.example.com}]}}`))[0]
}

// TestTheChartPublishesANewIngressSecondsAfterItIsMade: by what the chart has of itself, beside an interval of a day. It
// measures how soon.
func TestTheChartPublishesANewIngressSecondsAfterItIsMade(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	objects := helm(t, map[string]any{"interval": "24h"})
	cluster.install(t, objects)
	pod := cluster.run(t, objects)
	harness.Eventually(t, "the first loop has ended", func() error {
		if pod.MustMetric(t, harness.NoOpRuns) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	wanted := shape{}
	for _, name := range []string{"first", "second", "third"} {
		begun := time.Now()
		cluster.apply(t, appNamespace, ingress(t, name, `{external-dns.kubernetes.io/target: "http://`+name+`.shop.svc:80"}`))
		wanted[name+".example.com"] = []string{"http://" + name + ".shop.svc:80"}
		pod.reaches(t, wanted)
		t.Logf("published %.1f s after it was made", time.Since(begun).Seconds())
	}
	begun := time.Now()
	first := ingress(t, "first", `{}`)
	first.SetNamespace(appNamespace)
	cluster.delete(t, first)
	delete(wanted, "first.example.com")
	pod.reaches(t, wanted)
	t.Logf("withdrawn %.1f s after it was deleted", time.Since(begun).Seconds())
}

// TestBothPrefixesAreReadWhereExternalDNSIsToldSo: the way from the old prefix to the new one.
func TestBothPrefixesAreReadWhereExternalDNSIsToldSo(t *testing.T) {
	t.Parallel()
	const (
		legacy  = `external-dns.alpha.kubernetes.io/target: "http://legacy.shop.svc:80", external-dns.alpha.kubernetes.io/webhook-tunnel-path-prefix: /legacy`
		current = `external-dns.kubernetes.io/target: "http://current.shop.svc:80"`
	)
	cluster := startCluster(t)
	objects := helm(t, map[string]any{"extraArgs": map[string]any{"enable-legacy-annotation-prefix": true}})
	cluster.install(t, objects)
	pod := cluster.run(t, objects, soon...)
	cluster.apply(t, appNamespace,
		ingress(t, "old", `{`+legacy+`}`), ingress(t, "new", `{`+current+`}`), ingress(t, "both", `{`+legacy+`, `+current+`}`))
	pod.publishes(t, shape{
		"old.example.com": {"^/legacy(/|$) http://legacy.shop.svc:80"},
		"new.example.com": {"http://current.shop.svc:80"},
		// Annotation by annotation: the new prefix wins where both are there.
		"both.example.com": {"^/legacy(/|$) http://current.shop.svc:80"},
	})
}

// TestAnAnnotationFilterLeavesDNSEndpointsPublished: ExternalDNS 0.22.0 shows none of them where one does not match
// (#6728).
func TestAnAnnotationFilterLeavesDNSEndpointsPublished(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	objects := helm(t, map[string]any{"sources": []string{"crd"}, "annotationFilter": "public=true"})
	cluster.install(t, objects)
	pod := cluster.run(t, objects, soon...)
	cluster.apply(t, appNamespace, objectsOf(t, []byte(`
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: public, annotations: {public: "true"}}
spec: {endpoints: [{dnsName: public.example.com, recordType: CNAME, targets: ["http://public.shop.svc:80"]}]}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: internal}
spec: {endpoints: [{dnsName: internal.example.com, recordType: CNAME, targets: ["http://internal.shop.svc:80"]}]}
`))...)
	pod.publishes(t, shape{"public.example.com": {"http://public.shop.svc:80"}})
}
