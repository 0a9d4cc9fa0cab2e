package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What is at Cloudflare, and what the tests want to be there.

// zoneName is the one zone of every test.
const zoneName = "example.com"

// record is a DNS record; raw is all that Cloudflare says of it.
type record struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"`
	Proxied bool   `json:"proxied"`
	Comment string `json:"comment"`
	raw     json.RawMessage
}

func (r record) String() string { return string(r.raw) }

// mayStandBeside says whether the record is no business of a CNAME of the same name: mail and TXT records, and of the
// TXT records of ExternalDNS those that we keep for it.
func (r record) mayStandBeside() bool {
	return r.Type == "MX" || r.Type == "TXT" && (r.isOurText() || !strings.Contains(r.Content, "heritage=external-dns"))
}

// rule is an ingress rule; raw is its text in the document.
type rule struct {
	Hostname      string          `json:"hostname"`
	Path          string          `json:"path"`
	Service       string          `json:"service"`
	OriginRequest json.RawMessage `json:"originRequest"`
	raw           json.RawMessage
}

func (r rule) String() string { return string(r.raw) }

// tunnel is one of the account's.
type tunnel struct{ id string }

func (t tunnel) hostname() string { return t.id + ".cfargotunnel.com" }

// parseAll decodes a list and keeps the text of each element.
func parseAll[T any](t *testing.T, list json.RawMessage, keep func(*T, json.RawMessage)) []T {
	t.Helper()
	var texts []json.RawMessage
	if err := json.Unmarshal(list, &texts); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	values := make([]T, len(texts))
	for index, text := range texts {
		if err := json.Unmarshal(text, &values[index]); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		keep(&values[index], text)
	}
	return values
}

// records is every record of the zone, by name, type and content.
func (e *emulator) records(t *testing.T) []record {
	t.Helper()
	for _, zone := range e.state(t).Zones {
		if zone.Name != zoneName {
			continue
		}
		records := parseAll(t, zone.Records, func(record *record, text json.RawMessage) { record.raw = text })
		slices.SortFunc(records, func(a, b record) int {
			return strings.Compare(a.Name+" "+a.Type+" "+a.Content, b.Name+" "+b.Type+" "+b.Content)
		})
		return records
	}
	t.Fatalf("there is no zone %s", zoneName)
	return nil
}

// rules is the tunnel's ingress in its order, the catch-all included. Nothing for a tunnel never configured.
func (e *emulator) rules(t *testing.T, tunnel tunnel) []rule {
	t.Helper()
	var configuration struct {
		Ingress json.RawMessage `json:"ingress"`
	}
	text := e.document(t, tunnel)
	if err := json.Unmarshal(text, &configuration); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if configuration.Ingress == nil {
		return nil
	}
	return parseAll(t, configuration.Ingress, func(rule *rule, text json.RawMessage) { rule.raw = text })
}

// document is the tunnel's configuration as it is stored, `null` for a tunnel never configured.
func (e *emulator) document(t *testing.T, tunnel tunnel) json.RawMessage {
	t.Helper()
	for _, held := range e.state(t).Tunnels {
		if held.ID == tunnel.id {
			return held.Config
		}
	}
	t.Fatalf("there is no tunnel %s", tunnel.id)
	return nil
}

func (e *emulator) rulesFor(t *testing.T, tunnel tunnel, hostname string) []rule {
	t.Helper()
	return slices.DeleteFunc(e.rules(t, tunnel), func(rule rule) bool { return rule.Hostname != hostname })
}

// services is the path and the service of each rule of the hostname, in their order.
func (e *emulator) services(t *testing.T, tunnel tunnel, hostname string) (services []string) {
	t.Helper()
	for _, rule := range e.rulesFor(t, tunnel, hostname) {
		services = append(services, rule.Path+" "+rule.Service)
	}
	return services
}

func (e *emulator) recordsFor(t *testing.T, hostname string) []record {
	t.Helper()
	return slices.DeleteFunc(e.records(t), func(record record) bool { return record.Name != hostname })
}

// isPublished says why the hostname is not served through the tunnel in just this way: one proxied and stamped CNAME,
// one rule with this service and these options (JSON).
func (e *emulator) isPublished(t *testing.T, tunnel tunnel, hostname, service, options string) error {
	t.Helper()
	return e.isPublishedBy(t, "default", tunnel, hostname, service, options)
}

// isPublishedBy is isPublished for another OWNER_ID than the default.
func (e *emulator) isPublishedBy(t *testing.T, owner string, tunnel tunnel, hostname, service, options string) error {
	t.Helper()
	if err := e.leadsTo(t, owner, tunnel, hostname); err != nil {
		return err
	}
	rules := e.rulesFor(t, tunnel, hostname)
	if len(rules) != 1 {
		return fmt.Errorf("%s has the rules %v", hostname, rules)
	}
	one := rules[0]
	if one.Path != "" || one.Service != service || !sameOptions(t, one.OriginRequest, options) {
		return fmt.Errorf("the rule is %s, not %s with %s", one, service, options)
	}
	// No rule before it may take its requests.
	host := strings.Replace(hostname, "*.", "any.depth.", 1)
	if served := e.visit(t, host, "/"); served != service+" through "+tunnel.id {
		return fmt.Errorf("a visitor of %s gets %s", host, served)
	}
	return nil
}

func (e *emulator) leadsTo(t *testing.T, owner string, tunnel tunnel, hostname string) error {
	t.Helper()
	records := slices.DeleteFunc(e.recordsFor(t, hostname), record.mayStandBeside)
	if len(records) != 1 {
		return fmt.Errorf("%s has the records %v", hostname, records)
	}
	one := records[0]
	if one.Type != "CNAME" || one.Content != tunnel.hostname() || !one.Proxied {
		return fmt.Errorf("the record is %s", one)
	}
	if !strings.HasPrefix(one.Comment, "external-dns owner="+owner+" ") || !strings.Contains(one.Comment, " rules=") {
		return fmt.Errorf("the stamp is %q", one.Comment)
	}
	return nil
}

func sameOptions(t *testing.T, options json.RawMessage, wanted string) bool {
	t.Helper()
	// No options at all mean the same as an empty object.
	if options == nil {
		options = json.RawMessage("{}")
	}
	var left, right any
	if err := json.Unmarshal(options, &left); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(wanted), &right); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(left, right)
}

func (e *emulator) publishes(t *testing.T, tunnel tunnel, hostname, service, options string) {
	t.Helper()
	if err := e.isPublished(t, tunnel, hostname, service, options); err != nil {
		t.Error(err)
	}
}

func (e *emulator) recordLeadsTo(t *testing.T, tunnel tunnel, hostname string) {
	t.Helper()
	if err := e.leadsTo(t, "default", tunnel, hostname); err != nil {
		t.Error(err)
	}
}

// withdrew checks that neither a record nor a rule of the hostname is left.
func (e *emulator) withdrew(t *testing.T, tunnel tunnel, hostname string) {
	t.Helper()
	if records := e.recordsFor(t, hostname); len(records) != 0 {
		t.Errorf("%s still has the records %v", hostname, records)
	}
	if rules := e.rulesFor(t, tunnel, hostname); len(rules) != 0 {
		t.Errorf("%s still has the rules %v", hostname, rules)
	}
}

// foreign is what others had in the zone and the tunnel before the program came.
type foreign struct {
	cloudflare *emulator
	tunnel     tunnel
	records    []record
	rules      []rule
	document   json.RawMessage
	visits     map[[2]string]string
}

// foreignVisits are hosts and paths that others serve, or that lead nowhere.
var foreignVisits = [][2]string{
	{"www.example.com", "/"},
	{"docs.example.com", "/"},
	{"legacy.example.com", "/anything"},
	{"mixed.example.com", "/private/page"},
	{"mixed.example.com", "/public"},
	{"unheard-of.example.com", "/"},
	{"unheard-of.example.com", "/.well-known/security.txt"},
	{"example.com", "/"},
}

// foreign remembers all that is there now.
func (e *emulator) foreign(t *testing.T, tunnel tunnel) *foreign {
	t.Helper()
	found := &foreign{
		cloudflare: e,
		tunnel:     tunnel,
		records:    e.records(t),
		rules:      e.rules(t, tunnel),
		document:   e.document(t, tunnel),
		visits:     map[[2]string]string{},
	}
	for _, visit := range foreignVisits {
		found.visits[visit] = e.visit(t, visit[0], visit[1])
	}
	return found
}

// untouched checks that every foreign record and rule is there still, byte for byte, the rules in their order, and
// that visitors of foreign hosts get what they got.
func (f *foreign) untouched(t *testing.T) {
	t.Helper()
	records := f.cloudflare.records(t)
	for _, old := range f.records {
		if !slices.ContainsFunc(records, func(now record) bool { return bytes.Equal(now.raw, old.raw) }) {
			t.Errorf("the foreign record %s has become %v", old, f.cloudflare.recordsFor(t, old.Name))
		}
	}
	rules, next := f.cloudflare.rules(t, f.tunnel), 0
	for _, now := range rules {
		if next < len(f.rules) && bytes.Equal(now.raw, f.rules[next].raw) {
			next++
		}
	}
	if next < len(f.rules) {
		t.Errorf("the foreign rule %s is not in its place any more: %v", f.rules[next], rules)
	}
	for visit, before := range f.visits {
		if now := f.cloudflare.visit(t, visit[0], visit[1]); now != before {
			t.Errorf("a visitor of %s%s got %s and now gets %s", visit[0], visit[1], before, now)
		}
	}
}

// alone checks that nothing but what is foreign is there: the same records, and the document as it was at first.
func (f *foreign) alone(t *testing.T) {
	t.Helper()
	f.untouched(t)
	if records := f.cloudflare.records(t); len(records) != len(f.records) {
		t.Errorf("records: %v", records)
	}
	if before, now := compact(t, f.document), compact(t, f.cloudflare.document(t, f.tunnel)); before != now {
		t.Errorf("the document was\n%s\nand is now\n%s", before, now)
	}
}

// compact is the text without the blanks between its tokens.
func compact(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var compacted bytes.Buffer
	if err := json.Compact(&compacted, text); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return compacted.String()
}
