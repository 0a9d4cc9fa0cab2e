package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// Where a cluster's users look for whether a hostname is published. ExternalDNS writes all of it, and learns of a request
// only whether it succeeded: what is refused beside others is marked as they are.

const (
	dnsEndpoints = "dnsendpoints"
	eventsPath   = "/apis/events.k8s.io/v1/namespaces/default/events"
	heldHostname = "www.example.com"
	freeHostname = "free.example.com"
)

// marked is what stands in a cluster of one hostname.
type marked struct {
	dnsRecord string   // the reason of the DNSRecord's condition
	observed  bool     // whether the DNSEndpoint's generation counts as observed
	events    []string // the reasons of its events, each once
}

func (s *apiServer) marks(t *testing.T, name, hostname string) (found marked) {
	t.Helper()
	read := func(path string, into any) {
		t.Helper()
		text, err := s.Try("GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	var records struct {
		Items []struct {
			Spec   struct{ Endpoint struct{ DNSName string } }
			Status struct{ Conditions []struct{ Reason string } }
		}
	}
	read(kindsPath+"dnsrecords", &records)
	for _, one := range records.Items {
		for _, condition := range one.Status.Conditions {
			if one.Spec.Endpoint.DNSName == hostname {
				found.dnsRecord = condition.Reason
			}
		}
	}
	var object struct {
		Metadata struct{ Generation int }
		Status   struct{ ObservedGeneration int }
	}
	read(kindsPath+dnsEndpoints+"/"+name, &object)
	found.observed = object.Status.ObservedGeneration == object.Metadata.Generation
	var events struct {
		Items []struct {
			Reason    string
			Regarding struct{ Name string }
		}
	}
	read(eventsPath, &events)
	for _, event := range events.Items {
		if event.Regarding.Name == name && !slices.Contains(found.events, event.Reason) {
			found.events = append(found.events, event.Reason)
		}
	}
	slices.Sort(found.events)
	return found
}

var markingFlags = []string{
	"--source=crd", "--registry=crd", "--txt-owner-id=default",
	"--events-emit=RecordReady", "--events-emit=RecordError", "--events-emit=RecordDeleted",
}

// asks makes a DNSEndpoint for its hostnames.
func (u *upgrade) asks(t *testing.T, name string, hostnames ...string) {
	t.Helper()
	endpoints := make([]string, len(hostnames))
	for at, hostname := range hostnames {
		service := strings.TrimSuffix(hostname, ".example.com") + ".shop.svc:80"
		endpoints[at] = `{dnsName: ` + hostname + `, recordType: CNAME, targets: ["http://` + service + `"]}`
	}
	object := `{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint, metadata: {name: ` + name + `},
		spec: {endpoints: [` + strings.Join(endpoints, ", ") + `]}}`
	if _, err := u.server.Try("POST", kindsPath+dnsEndpoints, []byte(object)); err != nil {
		t.Fatal(err)
	}
}

// marks awaits what ExternalDNS says of a hostname and its object.
func (u *upgrade) marks(t *testing.T, name, hostname string, wanted marked) {
	t.Helper()
	harness.Eventually(t, "ExternalDNS has marked "+hostname, func() error {
		u.Alive(t)
		if found := u.server.marks(t, name, hostname); found.String() != wanted.String() {
			return errors.New(found.String())
		}
		return nil
	})
}

func (m marked) String() string {
	return fmt.Sprintf("DNSRecord %s, observed %v, events %s", m.dnsRecord, m.observed, strings.Join(m.events, " "))
}

// Of two hostnames that are asked for at once one has a foreign record and rule. docs/museum.md says what stands where.
func TestMuseumWhatIsRefusedBesideOthersIsMarkedAsDoneByExternalDNS(t *testing.T) {
	t.Parallel()
	pod := beforeUpgrade(t)
	pod.server.defines(t, dnsEndpoints)
	pod.asks(t, "held", heldHostname)
	pod.asks(t, "free", freeHostname)
	pod.runs(t, harness.Newest, markingFlags...)
	done := marked{"Programmed", true, []string{"RecordReady"}}
	pod.marks(t, "free", freeHostname, done)
	pod.marks(t, "held", heldHostname, done) // which it is not
	pod.cloudflare.Publishes(t, pod.tunnel, freeHostname, "http://free.shop.svc:80", `{}`)
	if rules := pod.cloudflare.RulesFor(t, pod.tunnel, heldHostname); len(rules) != 0 {
		t.Errorf("%s has the rules %v", heldHostname, rules)
	}
	if lines := pod.program.Lines(`hostname="`+heldHostname+`"`, `resource="crd/default/held"`, "refused=record_held"); lines != 1 {
		t.Errorf("the refusal is told %d times", lines)
	}
	if count := pod.program.MustMetric(t, `cloudflare_tunnel_webhook_refusals{reason="record_held"}`); count != 1 {
		t.Errorf("%v refusals are counted", count)
	}
	pod.rests(t)
	pod.foreign.untouched(t)
}

// A request that is answered 503 marks nothing as done, not even what was done in it.
func TestMuseumWhatIsWithheldIsMarkedAsFailed(t *testing.T) {
	t.Parallel()
	pod := beforeUpgrade(t)
	pod.server.defines(t, dnsEndpoints)
	hostnames := make([]string, 6)
	for number := range hostnames {
		hostnames[number] = fmt.Sprintf("web-%d.example.com", number)
	}
	// In one object: an API server deletes objects one by one, and a loop between two carries out the first deletions.
	pod.asks(t, "webs", hostnames...)
	pod.runs(t, harness.Newest, markingFlags...)
	for _, hostname := range hostnames {
		pod.marks(t, "webs", hostname, marked{"Programmed", true, []string{"RecordReady"}})
	}
	if _, err := pod.server.Try("DELETE", kindsPath+dnsEndpoints+"/webs", nil); err != nil {
		t.Fatal(err)
	}
	pod.asks(t, "new", "new.example.com")
	pod.marks(t, "new", "new.example.com", marked{"Failed", true, []string{"RecordError"}})
	pod.cloudflare.Publishes(t, pod.tunnel, "new.example.com", "http://new.shop.svc:80", `{}`)
	for _, hostname := range hostnames {
		pod.cloudflare.Publishes(t, pod.tunnel, hostname, "http://"+strings.TrimSuffix(hostname, ".example.com")+".shop.svc:80", `{}`)
	}
}
