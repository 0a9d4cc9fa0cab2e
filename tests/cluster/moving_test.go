package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The guide "From cluster-template" of docs/guides.md: each of its blocks and words, on objects like those of the template.

// templateObjects are what the template makes, and what its users add: an app that `cloudflare-dns` skips, one of the local
// network, and records that are no business of a tunnel. `old/` stands for the prefix that `cloudflare-dns` reads.
const templateObjects = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: envoy-external, namespace: network, annotations: {old/target: external.example.com}}
spec:
  gatewayClassName: envoy
  listeners:
    - {name: http, protocol: HTTP, port: 80, allowedRoutes: {namespaces: {from: Same}}}
    - name: https
      protocol: HTTPS
      port: 443
      allowedRoutes: {namespaces: {from: All}}
      tls: {certificateRefs: [{name: example-com-production-tls}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: envoy-internal, namespace: network, annotations: {old/target: internal.example.com}}
spec:
  gatewayClassName: envoy
  listeners: [{name: https, protocol: HTTPS, port: 443, allowedRoutes: {namespaces: {from: All}}, tls: {certificateRefs: [{name: any}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: https-redirect, namespace: network, annotations: {old/controller: none}}
spec:
  parentRefs: [{name: envoy-external, sectionName: http}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: echo}
spec: {hostnames: [echo.example.com], parentRefs: [{name: envoy-external, namespace: network, sectionName: https}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: flux-webhook, namespace: network}
spec: {hostnames: [flux-webhook.example.com], parentRefs: [{name: envoy-external, sectionName: https}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: admin, annotations: {old/controller: none}}
spec: {hostnames: [admin.example.com], parentRefs: [{name: envoy-external, namespace: network, sectionName: https}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: printer}
spec: {hostnames: [printer.example.com], parentRefs: [{name: envoy-internal, namespace: network, sectionName: https}]}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: cloudflare-tunnel, namespace: network}
spec: {endpoints: [{dnsName: external.example.com, recordType: CNAME, targets: [11111111-2222-4333-8444-555555555555.cfargotunnel.com]}]}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: records}
spec:
  endpoints:
    - {dnsName: vpn.example.com, recordType: A, targets: [203.0.113.7]}
    - {dnsName: lists.example.com, recordType: MX, targets: [10 mail.example.net]}
    - {dnsName: status.example.com, recordType: CNAME, targets: [status.example.net]}
`

const (
	alphaAnnotations = "external-dns.alpha.kubernetes.io/"
	newAnnotations   = "external-dns.kubernetes.io/"
	templateNetwork  = "network"
	templateSkips    = "admin.example.com" // what `cloudflare-dns` does not publish, and an app behind the Gateway
	templateEntry    = "external.example.com"
)

// templateApps have to go on as they are.
var templateApps = []string{"echo.example.com", "flux-webhook.example.com"}

// reader follows the guide.
type reader struct {
	*cluster
	guide string
}

// says is what the guide's words have at the place in brackets.
func (r reader) says(t *testing.T, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(strings.Join(strings.Fields(r.guide), " "))
	if found == nil {
		t.Fatalf("the guide does not say %s", pattern)
	}
	return found[len(found)-1]
}

// block is the guide's one block of a language.
func (r reader) block(t *testing.T, language string) string {
	t.Helper()
	for _, fence := range fencesOf(r.guide) {
		if fence.language == language {
			return fence.text
		}
	}
	t.Fatalf("the guide has no block of %s", language)
	panic("unreachable")
}

// startCloudflareDNS is the template's ExternalDNS, with these flags besides.
func (r reader) startCloudflareDNS(t *testing.T, prefix string, flags ...string) *harness.ExternalDNS {
	t.Helper()
	environment := []string{"CLOUDFLARE_BASE_URL=" + r.cloudflare.BaseURL, "CF_API_TOKEN=" + r.cloudflare.Token}
	return harness.StartExternalDNSIn(t, environment, externalDNSBinary, append([]string{
		"--kubeconfig=" + r.Kubeconfig(t), "--annotation-prefix=" + prefix, "--gateway-name=envoy-external",
		"--provider=cloudflare", "--cloudflare-proxied", "--domain-filter=" + harness.ZoneName,
		"--registry=txt", "--txt-prefix=k8s.", "--txt-owner-id=default",
		"--managed-record-types=A", "--managed-record-types=CNAME", "--managed-record-types=MX",
	}, slices.Concat(soon, flags)...)...)
}

// has awaits that these names have a record, and the others none.
func (r reader) has(t *testing.T, names []string, others ...string) {
	t.Helper()
	harness.EventuallyWithin(t, patience, fmt.Sprintf("%v have records, and %v none", names, others), func() error {
		for _, name := range names {
			if len(r.cloudflare.RecordsFor(t, name)) == 0 {
				return errors.New(name + " has none")
			}
		}
		for _, name := range others {
			if records := r.cloudflare.RecordsFor(t, name); len(records) > 0 {
				return fmt.Errorf("there are %v", records)
			}
		}
		return nil
	})
}

// rests awaits so many loops of an ExternalDNS that find nothing to do.
func rests(t *testing.T, one *harness.ExternalDNS, loops float64) {
	t.Helper()
	wanted := one.MustMetric(t, harness.NoOpRuns) + loops
	harness.EventuallyWithin(t, patience, "external-dns finds all records up to date", func() error {
		one.Alive(t)
		if now := one.MustMetric(t, harness.NoOpRuns); now < wanted {
			return fmt.Errorf("%v of %v", now, wanted)
		}
		return nil
	})
}

// keeps remembers the records that have to stay as they are: all but those of these names.
func (r reader) keeps(t *testing.T, but ...string) {
	t.Helper()
	r.cluster.records = slices.DeleteFunc(r.cloudflare.Records(t), func(record harness.Record) bool {
		return slices.ContainsFunc(but, func(name string) bool {
			return record.Name == name || record.Type == "TXT" && strings.HasSuffix(record.Name, "-"+name)
		})
	})
}

// install runs the chart with these values.
func (r reader) installs(t *testing.T, values string) *pod {
	t.Helper()
	var read map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &read); err != nil {
		t.Fatal(err)
	}
	objects := helmOf(t, read)
	r.install(t, objects)
	return r.run(t, objects, soon...)
}

func (r reader) annotates(t *testing.T, namespace, kind, name, annotation string) {
	t.Helper()
	r.operator(t).types(t, fmt.Sprintf("kubectl --namespace %s annotate %s %s '%s'", namespace, kind, name, annotation))
}

// TestTheGuideFromClusterTemplate: apps stay online through a rule each, what was kept out stays out, and the records that are
// no business of a tunnel stay with the ExternalDNS that made them.
func TestTheGuideFromClusterTemplate(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{alphaAnnotations, newAnnotations} {
		t.Run("where cloudflare-dns reads "+prefix, func(t *testing.T) {
			t.Parallel()
			movesFromClusterTemplate(t, prefix)
		})
	}
}

func movesFromClusterTemplate(t *testing.T, prefix string) {
	reader := reader{startCluster(t), sectionOf(t, "../../docs/guides.md", "From cluster-template")}
	reader.home = reader.cloudflare.TunnelNeverConfigured(t, "home")
	reader.apply(t, "", namespace(templateNetwork))
	reader.apply(t, appNamespace, objectsOf(t, []byte(strings.ReplaceAll(templateObjects, "old/", prefix)))...)
	others := []string{"vpn.example.com", "lists.example.com", "status.example.com"}

	before := reader.startCloudflareDNS(t, prefix, "--source=crd", "--source=gateway-httproute", "--policy=sync")
	reader.has(t, slices.Concat(templateApps, others, []string{templateEntry}), templateSkips, "printer.example.com")
	rests(t, before, 1)
	reader.keeps(t, templateApps...)

	if prefix == newAnnotations {
		listed := strings.Fields(reader.operator(t).types(t, reader.block(t, "sh")))
		slices.Sort(listed)
		if wanted := []string{templateNetwork + "/https-redirect", appNamespace + "/admin"}; !slices.Equal(listed, wanted) {
			t.Errorf("the guide lists %q as kept out, not %q", listed, wanted)
		}
		annotation := strings.ReplaceAll(reader.says(t, "`(tunnel.example.com/controller: none)`"), ": ", "=")
		for _, route := range listed {
			namespace, name, _ := strings.Cut(route, "/")
			reader.annotates(t, namespace, "httproute", name, annotation)
		}
	}
	service := reader.says(t, "with `tunnel.example.com/target: ([^`]+)`")
	reader.annotates(t, templateNetwork, "gateway", "envoy-external", "tunnel.example.com/target="+service)
	before.Stop(t)
	source, policy := reader.says(t, "`sources: \\[(\\w+)\\]`"), reader.says(t, "`policy: (upsert-only)`")
	left := reader.startCloudflareDNS(t, prefix, "--source="+source, "--policy="+policy)
	values := reader.block(t, "yaml")
	pod := reader.installs(t, values)
	published := shape{}
	for _, app := range templateApps {
		published[app] = []string{service}
	}
	pod.publishes(t, published)
	rests(t, left, 3)
	list := pod.program.Exec(t, "list")
	if code := list.ExitCode(t); code != 0 {
		t.Errorf("list ends with %d", code)
	}
	for _, app := range templateApps {
		if !regexp.MustCompile(`(?m)^` + app + `\s.*\bours\b`).MatchString(list.Output(t)) {
			t.Errorf("%s is not shown as ours:\n%s", app, list.Output(t))
		}
	}

	// The last step.
	pod.Stop(t)
	pod.program.Stop(t)
	left.Stop(t)
	withoutAdopt := regexp.MustCompile(`(?m)^ +ADOPT: .*\n`).ReplaceAllString(values, "")
	if withoutAdopt == values {
		t.Fatal("the values adopt nothing")
	}
	left = reader.startCloudflareDNS(t, prefix, "--source="+source, "--policy="+reader.says(t, "`policy: (sync)`"))
	tunnel := object{Object: map[string]any{"apiVersion": "externaldns.k8s.io/v1alpha1", "kind": "DNSEndpoint"}}
	tunnel.SetNamespace(templateNetwork)
	tunnel.SetName(reader.says(t, "the DNSEndpoint `([a-z-]+)`"))
	reader.delete(t, &tunnel)
	reader.has(t, others, templateEntry)
	reader.keeps(t, templateApps...)
	pod = reader.installs(t, withoutAdopt)
	pod.publishes(t, published)
	rests(t, left, 3)
	if err := reader.shows(t, published); err != nil {
		t.Error(err)
	}
	for _, record := range reader.cloudflare.Records(t) {
		if strings.HasSuffix(record.Name, "-"+templateEntry) {
			t.Errorf("there still is %s", record)
		}
	}
}
