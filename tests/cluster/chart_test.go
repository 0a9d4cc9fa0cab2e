package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// TestHelmInstallsUpgradesAndUninstallsTheChart with the real helm, whose objects no kubelet makes ready: it does not wait.
func TestHelmInstallsUpgradesAndUninstallsTheChart(t *testing.T) {
	t.Parallel()
	cluster := startClusterBeside(t, harness.StartEmulator(t))
	cluster.apply(t, "", namespace(ownNamespace))
	operator := cluster.operator(t)
	const four = " deploy/chart --namespace external-dns --set global.domain=example.com --set global.tunnel=homelab" +
		" --set existingSecret=cloudflare --set external-dns.provider.webhook.image.repository=registry.example.com/webhook"
	refused := func(name, words string) {
		t.Helper()
		if said := operator.types(t, "! helm install "+name+four+" 2>&1"); !strings.Contains(said, words) {
			t.Errorf("%q is not said:\n%s", words, said)
		}
	}

	withoutKey := cluster.cloudflareSecret("token")
	cluster.apply(t, ownNamespace, withoutKey)
	refused(ownName, "the Secret cloudflare has no key api-token: put the API token there")
	cluster.apply(t, ownNamespace, cluster.cloudflareSecret("api-token"))
	before := cluster.inventory(t)

	operator.types(t, "helm install "+ownName+four)
	refused("second", `the release is called "second": call it external-dns-tunnel, of which a namespace has one`)
	templates := cluster.templates(t)
	if names := slices.Sorted(maps.Keys(templates)); !slices.Equal(names, []string{"cloudflared", ownName}) {
		t.Errorf("Deployments %q", names)
	}

	blocks := fencesOf(sectionOf(t, "../../docs/releases.md", "Upgrading"))
	if len(blocks) != 1 {
		t.Fatalf("the blocks are %q", blocks)
	}
	// A definition as an older release made it.
	const field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/endpoints/items/properties/recordTTL"
	const definition = "kubectl get crd dnsendpoints.externaldns.k8s.io --output json"
	operator.types(t, `kubectl patch crd dnsendpoints.externaldns.k8s.io --type json --patch '[{"op": "remove", "path": "`+field+`"}]'`)
	if strings.Contains(operator.types(t, definition), "recordTTL") {
		t.Fatal("the definition has the field still")
	}
	operator.types(t, blocks[0].text)
	if !strings.Contains(operator.types(t, definition), "recordTTL") {
		t.Error("the definition of DNSEndpoint is an older release's")
	}
	if again := cluster.templates(t); !maps.Equal(again, templates) {
		t.Errorf("nothing is changed, and pods start anew: %v", again)
	}
	operator.types(t, "helm upgrade "+ownName+" deploy/chart --namespace external-dns --reuse-values --set global.domain=example.org")
	for name, template := range cluster.templates(t) {
		if template == templates[name] {
			t.Errorf("another domain, and no pod of %s starts anew", name)
		}
	}
	if domain := string(cluster.secret(t, ownName)["domain"]); domain != "example.org" {
		t.Errorf("the domain is %s", domain)
	}

	operator.types(t, "helm uninstall "+ownName+" --namespace external-dns")
	after := cluster.inventory(t)
	for place := range after {
		// What the API server writes down for itself.
		if _, had := before[place]; !had && !strings.Contains(place, "/events ") {
			t.Errorf("left is %s", place)
		}
	}
	for place := range before {
		if _, has := after[place]; !has && !strings.Contains(place, "/events ") {
			t.Errorf("gone is %s", place)
		}
	}
}

// templates are those of the pods of each Deployment beside ExternalDNS, as text.
func (c *cluster) templates(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	deployments := c.deployments(t)
	for _, each := range deployments {
		found[each.GetName()] = fmt.Sprint(deploymentOf(t, deployments, each.GetName()).template)
	}
	return found
}
