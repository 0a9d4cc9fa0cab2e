package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// large is an instance with thousands of hostnames, in zones that may have so many records.
type large struct {
	*externalDNS
	cloudflare *emulator
	tunnel     tunnel
	program    *harness.Program
	passage    *passage
	endpoints  []*endpoint.Endpoint
}

const (
	// Each hostname is a record. An emulated zone of a paid plan has 3,500.
	zonesForThousands = 3
	// So many of the hostnames are visited.
	sample = 20
)

// beforeThousands has so many hostnames in mind, and publishes none.
func beforeThousands(t *testing.T, count int) *large {
	t.Helper()
	cloudflare := startEmulator(t)
	zones := []string{"example.org"}
	for len(zones) < zonesForThousands {
		zones = append(zones, fmt.Sprintf("zone-%d.example", len(zones)))
		cloudflare.Ask(t, "POST", "/zones", map[string]string{"name": zones[len(zones)-1], "plan": "pro"}, nil)
	}
	tunnel := cloudflare.TunnelNeverConfigured(t, "large")
	made := &large{cloudflare: cloudflare, tunnel: tunnel, program: harness.StartProgram(t, cloudflare.Emulator, tunnel.ID)}
	made.passage = startPassage(t, made.program)
	for number := range count {
		hostname := fmt.Sprintf("customer-%d.%s", number, zones[number%len(zones)])
		made.endpoints = append(made.endpoints, published(hostname, "http://ingress.shop.svc:80"))
	}
	return made
}

// wants has the first of them wanted.
func (l *large) wants(t *testing.T, count int) {
	t.Helper()
	if l.externalDNS != nil {
		l.source.set(l.endpoints[:count]...)
		return
	}
	source, throughPassage := startConnector(t), *l.program
	source.set(l.endpoints[:count]...)
	throughPassage.Address = l.passage.address
	l.externalDNS = startExternalDNS(t, invocation{binary: externalDNSBinary, registry: txt}, source, &throughPassage)
}

// serves says why not just the first of them have a record of ours and a rule.
func (l *large) serves(t *testing.T, count int) error {
	t.Helper()
	l.Alive(t)
	records, target := 0, l.tunnel.Hostname()
	for _, zone := range l.cloudflare.State(t).Zones {
		var all []record
		if err := json.Unmarshal(zone.Records, &all); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Content == target && strings.HasPrefix(one.Comment, "external-dns owner=default ") {
				records++
			}
		}
	}
	rules := max(len(l.cloudflare.Rules(t, l.tunnel))-1, 0) // the catch-all
	if records != count || rules != count {
		return fmt.Errorf("%d records and %d rules for %d hostnames", records, rules, count)
	}
	return nil
}

// watchesSample has some of the first of them visited from now on.
func (l *large) watchesSample(t *testing.T, count int) func() map[string][]string {
	t.Helper()
	var hostnames []string
	for number := range sample {
		hostnames = append(hostnames, l.endpoints[number*count/sample].DNSName)
	}
	return l.cloudflare.watchAll(t, hostnames...)
}

// passage is between ExternalDNS and the program, and looks at what goes through.
type passage struct {
	address string

	mutex sync.Mutex
	traffic
}

// traffic is what ExternalDNS asked for by POST /records.
type traffic struct {
	longest   int         // body
	deletions map[int]int // requests by the number of records that each asks to delete
	statuses  map[int]int // their answers
}

func startPassage(t *testing.T, program *harness.Program) *passage {
	t.Helper()
	made := &passage{}
	made.seen()
	target := &url.URL{Scheme: "http", Host: program.Address}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if isApply(answer.Request) {
			made.mutex.Lock()
			defer made.mutex.Unlock()
			made.statuses[answer.StatusCode]++
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if isApply(request) {
			body, err := io.ReadAll(request.Body)
			if err == nil {
				err = made.look(body)
			}
			if err != nil {
				t.Errorf("what ExternalDNS asks for is not read: %v", err)
			}
			request.Body = io.NopCloser(bytes.NewReader(body))
		}
		proxy.ServeHTTP(writer, request)
	}))
	t.Cleanup(server.Close)
	made.address = strings.TrimPrefix(server.URL, "http://")
	return made
}

func isApply(request *http.Request) bool {
	return request.Method == http.MethodPost && request.URL.Path == "/records"
}

func (p *passage) look(body []byte) error {
	var asked struct {
		Delete []json.RawMessage `json:"delete"`
	}
	err := json.Unmarshal(body, &asked)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.longest = max(p.longest, len(body))
	p.deletions[len(asked.Delete)]++
	return err
}

// seen is what went through since it was looked at last.
func (p *passage) seen() traffic {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	seen := p.traffic
	p.traffic = traffic{deletions: map[int]int{}, statuses: map[int]int{}}
	return seen
}

// A cluster has 8,121 DNSEndpoints when its instance begins. What ExternalDNS asks for at once is longer than the webhook
// takes, 4 MB by its framework's default, so the answer is 413, which ends ExternalDNS. So it goes each time.
// https://github.com/stackitcloud/external-dns-stackit-webhook/issues/30
func aRequestOfFiveMegabytes(t *testing.T) string {
	const count, limit = 8121, 4 << 20
	pod := beforeThousands(t, count)
	watched := pod.watchesSample(t, count)
	pod.wants(t, count)
	harness.EventuallyWithin(t, limitPatience, "all are published", func() error {
		pod.Alive(t)
		return pod.serves(t, count)
	})
	seen := pod.passage.seen()
	if seen.longest <= limit {
		t.Errorf("the longest request has %d bytes, so this is not the accident", seen.longest)
	}
	for status := range seen.statuses {
		if status != http.StatusServiceUnavailable && status != http.StatusNoContent {
			t.Errorf("it was answered %v", seen.statuses)
		}
	}
	pod.reachesFixedPoint(t)
	service := "http://ingress.shop.svc:80 through " + pod.tunnel.ID
	for hostname, seen := range watched() {
		// A new rule comes a moment after its record. Until then there is no rule at all, or the one for everything else.
		seen = slices.DeleteFunc(seen, func(one string) bool { return strings.HasPrefix(one, "http_status:") })
		got(t, hostname, seen, "NXDOMAIN", service)
	}
	return "The request is read whole, and each loop publishes a thousand of its hostnames and is answered 503 until the last one " +
		"is: never 413, and ExternalDNS lives on"
}

// The upgrade to 0.22.0 finds nothing wanted any more in a large cluster: 0 creations and 8,764 deletions, each hostname
// with its TXT record. There an unrelated error of another request saved the records.
// https://github.com/mitodl/ol-infrastructure/pull/5866
func anEmptySourceOfALargeCluster(t *testing.T) string {
	const deletions, portion = 8764, 700
	const count = deletions / 2
	pod := beforeThousands(t, count)
	for wanted := 0; wanted < count; {
		wanted = min(wanted+portion, count)
		pod.wants(t, wanted)
		harness.EventuallyWithin(t, limitPatience, "the next are published", func() error { return pod.serves(t, wanted) })
	}
	watched := pod.watchesSample(t, count)
	writes := len(pod.cloudflare.Writes(t))
	pod.passage.seen()
	pod.wants(t, 0)
	harness.EventuallyWithin(t, limitPatience, "some loops in a row fail softly", func() error {
		pod.Alive(t)
		if now := pod.MustMetric(t, harness.SoftErrors); now < askingLoops {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	seen := pod.passage.seen()
	if seen.deletions[deletions] < askingLoops || len(seen.deletions) != 1 {
		t.Errorf("requests by the number of their deletions: %v", seen.deletions)
	}
	if seen.statuses[http.StatusServiceUnavailable] < askingLoops || len(seen.statuses) != 1 {
		t.Errorf("the deletions were answered %v", seen.statuses)
	}
	if now := pod.program.MustMetric(t, withheldDeletions); now != count {
		t.Errorf("%s is %v", withheldDeletions, now)
	}
	if lines := pod.program.Lines("refused=mass_deletion", fmt.Sprintf("hostnames=%d", count)); lines != 1 {
		t.Errorf("that they are withheld is told %d times", lines)
	}
	pod.wants(t, count)
	pod.reachesFixedPoint(t)
	if err := pod.serves(t, count); err != nil {
		t.Error(err)
	}
	if now := len(pod.cloudflare.Writes(t)); now != writes {
		t.Errorf("%d writes", now-writes)
	}
	for hostname, seen := range watched() {
		got(t, hostname, seen, "http://ingress.shop.svc:80 through "+pod.tunnel.ID)
	}
	return "All 8,764 deletions, of 4,382 hostnames and their TXT records, are withheld in every loop with one line and one number; " +
		"nothing is written, and the loop after the mistake is quiet"
}
