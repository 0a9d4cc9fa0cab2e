package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// What differs between the registries is what ExternalDNS knows of Cloudflare: noop and txt ask what stands there in every
// loop, crd takes what it once applied for what stands there.

// held is a hostname with a foreign record from the start, which leads to another tunnel.
const held = "intranet.example.com"

func TestUnderTheRegistryNoopWhatIsRefusedIsTriedAgainAndChangesByHandAreMended(t *testing.T) {
	t.Parallel()
	pod := withHeldHostname(t, nil)
	pod.cluster.givesUp(t, held)
	pod.cluster.loses(t, "free.example.com")
	pod.publishes(t, shape{"free.example.com": {"http://free.shop.svc:80"}, held: {"http://intranet.shop.svc:80"}})
}

func TestUnderTheRegistryCRDNeitherIsDone(t *testing.T) {
	t.Parallel()
	pod := withHeldHostname(t, map[string]any{"registry": "crd", "txtOwnerId": "default"})
	// One of them was refused.
	harness.Eventually(t, "both are said to be published", func() error {
		told, err := pod.cluster.dnsRecords()
		if err == nil && (len(told) != 2 || told[held] != "Programmed" || told["free.example.com"] != "Programmed") {
			err = fmt.Errorf("%v", told)
		}
		return err
	})
	pod.cluster.givesUp(t, held)
	pod.cluster.loses(t, "free.example.com")
	pod.rests(t)
	pod.StaysQuiet(t, pod.cluster.cloudflare)
	if err := pod.cluster.shows(t, shape{}); err != nil {
		t.Error(err)
	}
}

// dnsRecords is what the registry believes of each hostname.
func (c *cluster) dnsRecords() (map[string]string, error) {
	text, err := c.Try(http.MethodGet, "/apis/externaldns.k8s.io/v1alpha1/namespaces/"+ownNamespace+"/dnsrecords", nil)
	if err != nil {
		return nil, err
	}
	var records struct {
		Items []struct {
			Spec   struct{ Endpoint struct{ DNSName string } }
			Status struct{ Conditions []struct{ Reason string } }
		}
	}
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, err
	}
	told := map[string]string{}
	for _, record := range records.Items {
		for _, condition := range record.Status.Conditions {
			told[record.Spec.Endpoint.DNSName] += condition.Reason
		}
	}
	return told, nil
}

// withHeldHostname publishes one hostname and asks in vain for the one that is held.
func withHeldHostname(t *testing.T, values map[string]any) *pod {
	t.Helper()
	cluster := startCluster(t)
	objects := helm(t, values)
	cluster.install(t, objects)
	pod := cluster.run(t, objects, soon...)
	cluster.apply(t, appNamespace,
		ingress(t, "free", `{external-dns.kubernetes.io/target: "http://free.shop.svc:80"}`),
		ingress(t, "intranet", `{external-dns.kubernetes.io/target: "http://intranet.shop.svc:80"}`))
	pod.reaches(t, shape{"free.example.com": {"http://free.shop.svc:80"}})
	awaitLine(t, pod, `hostname="`+held+`"`, "refused=record_held")
	return pod
}

// givesUp deletes the foreign record, as its owner would.
func (c *cluster) givesUp(t *testing.T, hostname string) {
	t.Helper()
	c.deleteRecords(t, hostname)
	c.records = slices.DeleteFunc(c.records, func(record harness.Record) bool { return record.Name == hostname })
}

// loses deletes a record of ours by hand, and all rules of the tunnel.
func (c *cluster) loses(t *testing.T, hostname string) {
	t.Helper()
	c.deleteRecords(t, hostname)
	c.cloudflare.Ask(t, "POST", "/configurations", map[string]any{
		"tunnel": tunnelName, "config": map[string]any{"ingress": []any{map[string]any{"service": "http_status:404"}}},
	}, nil)
}

func (c *cluster) deleteRecords(t *testing.T, hostname string) {
	t.Helper()
	for _, record := range c.cloudflare.RecordsFor(t, hostname) {
		c.cloudflare.Ask(t, "POST", "/records", map[string]any{
			"zone": harness.ZoneName, "deletes": []map[string]string{{"id": record.ID}},
		}, nil)
	}
}
