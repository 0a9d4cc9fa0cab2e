package harness

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What is at Cloudflare, and what the tests want to be there.

// ZoneName is the one zone of every test.
const ZoneName = "example.com"

// Record is a DNS record; Raw is all that Cloudflare says of it.
type Record struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"`
	Proxied bool   `json:"proxied"`
	Comment string `json:"comment"`
	Raw     json.RawMessage
}

func (r Record) String() string { return string(r.Raw) }

// mayStandBeside says whether the record is no business of a CNAME of the same name: mail and TXT records, without those
// of ExternalDNS.
func (r Record) mayStandBeside() bool {
	return r.Type == "MX" || r.Type == "TXT" && !strings.Contains(r.Content, "heritage=external-dns")
}

// Rule is an ingress rule; Raw is its text in the document.
type Rule struct {
	Hostname      string          `json:"hostname"`
	Path          string          `json:"path"`
	Service       string          `json:"service"`
	OriginRequest json.RawMessage `json:"originRequest"`
	Raw           json.RawMessage
}

func (r Rule) String() string { return string(r.Raw) }

// Tunnel is one of the account's.
type Tunnel struct{ ID string }

func (t Tunnel) Hostname() string { return t.ID + ".cfargotunnel.com" }

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

// Records is every record of the zone, by name, type and content.
func (e *Emulator) Records(t *testing.T) []Record {
	t.Helper()
	for _, zone := range e.State(t).Zones {
		if zone.Name != ZoneName {
			continue
		}
		records := parseAll(t, zone.Records, func(record *Record, text json.RawMessage) { record.Raw = text })
		slices.SortFunc(records, func(a, b Record) int {
			return strings.Compare(a.Name+" "+a.Type+" "+a.Content, b.Name+" "+b.Type+" "+b.Content)
		})
		return records
	}
	t.Fatalf("there is no zone %s", ZoneName)
	return nil
}

// Rules is the tunnel's ingress in its order, the catch-all included. Nothing for a tunnel never configured.
func (e *Emulator) Rules(t *testing.T, tunnel Tunnel) []Rule {
	t.Helper()
	var configuration struct {
		Ingress json.RawMessage `json:"ingress"`
	}
	text := e.Document(t, tunnel)
	if err := json.Unmarshal(text, &configuration); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if configuration.Ingress == nil {
		return nil
	}
	return parseAll(t, configuration.Ingress, func(rule *Rule, text json.RawMessage) { rule.Raw = text })
}

// Document is the tunnel's configuration as it is stored, `null` for a tunnel never configured.
func (e *Emulator) Document(t *testing.T, tunnel Tunnel) json.RawMessage {
	t.Helper()
	for _, held := range e.State(t).Tunnels {
		if held.ID == tunnel.ID {
			return held.Config
		}
	}
	t.Fatalf("there is no tunnel %s", tunnel.ID)
	return nil
}

func (e *Emulator) RulesFor(t *testing.T, tunnel Tunnel, hostname string) []Rule {
	t.Helper()
	return slices.DeleteFunc(e.Rules(t, tunnel), func(rule Rule) bool { return rule.Hostname != hostname })
}

// Services is the path and the service of each rule of the hostname, in their order.
func (e *Emulator) Services(t *testing.T, tunnel Tunnel, hostname string) (services []string) {
	t.Helper()
	for _, rule := range e.RulesFor(t, tunnel, hostname) {
		services = append(services, rule.Path+" "+rule.Service)
	}
	return services
}

func (e *Emulator) RecordsFor(t *testing.T, hostname string) []Record {
	t.Helper()
	return slices.DeleteFunc(e.Records(t), func(record Record) bool { return record.Name != hostname })
}

// IsPublished says why the hostname is not served through the tunnel in just this way: one proxied and stamped CNAME,
// one rule with this service and these options (JSON).
func (e *Emulator) IsPublished(t *testing.T, tunnel Tunnel, hostname, service, options string) error {
	t.Helper()
	return e.IsPublishedBy(t, "default", tunnel, hostname, service, options)
}

// IsPublishedBy is IsPublished for another OWNER_ID than the default.
func (e *Emulator) IsPublishedBy(t *testing.T, owner string, tunnel Tunnel, hostname, service, options string) error {
	t.Helper()
	if err := e.LeadsTo(t, owner, tunnel, hostname); err != nil {
		return err
	}
	rules := e.RulesFor(t, tunnel, hostname)
	if len(rules) != 1 {
		return fmt.Errorf("%s has the rules %v", hostname, rules)
	}
	one := rules[0]
	if one.Path != "" || one.Service != service || !sameOptions(t, one.OriginRequest, options) {
		return fmt.Errorf("the rule is %s, not %s with %s", one, service, options)
	}
	wanted := service
	if strings.Contains(options, `"required":true`) {
		wanted = "403" // to a visitor without a login
	}
	// No rule before it may take its requests.
	host := strings.Replace(hostname, "*.", "any.depth.", 1)
	if served := e.Visit(t, host, "/"); served != wanted+" through "+tunnel.ID {
		return fmt.Errorf("a visitor of %s gets %s", host, served)
	}
	return nil
}

// LeadsTo says why the hostname has not just one record that counts: a proxied CNAME to the tunnel, stamped by the owner.
func (e *Emulator) LeadsTo(t *testing.T, owner string, tunnel Tunnel, hostname string) error {
	t.Helper()
	records := slices.DeleteFunc(e.RecordsFor(t, hostname), Record.mayStandBeside)
	if len(records) != 1 {
		return fmt.Errorf("%s has the records %v", hostname, records)
	}
	one := records[0]
	if one.Type != "CNAME" || one.Content != tunnel.Hostname() || !one.Proxied {
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

func (e *Emulator) Publishes(t *testing.T, tunnel Tunnel, hostname, service, options string) {
	t.Helper()
	if err := e.IsPublished(t, tunnel, hostname, service, options); err != nil {
		t.Error(err)
	}
}

func (e *Emulator) RecordLeadsTo(t *testing.T, tunnel Tunnel, hostname string) {
	t.Helper()
	if err := e.LeadsTo(t, "default", tunnel, hostname); err != nil {
		t.Error(err)
	}
}

// Withdrew checks that neither a record nor a rule of the hostname is left.
func (e *Emulator) Withdrew(t *testing.T, tunnel Tunnel, hostname string) {
	t.Helper()
	if records := e.RecordsFor(t, hostname); len(records) != 0 {
		t.Errorf("%s still has the records %v", hostname, records)
	}
	if rules := e.RulesFor(t, tunnel, hostname); len(rules) != 0 {
		t.Errorf("%s still has the rules %v", hostname, rules)
	}
}
