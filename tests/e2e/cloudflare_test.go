package e2e

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

type (
	record = harness.Record
	rule   = harness.Rule
	tunnel = harness.Tunnel
	call   = harness.Call
	visit  = harness.Visit
)

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
		records:    e.Records(t),
		rules:      e.Rules(t, tunnel),
		document:   e.Document(t, tunnel),
		visits:     map[[2]string]string{},
	}
	for _, visit := range foreignVisits {
		found.visits[visit] = e.Visit(t, visit[0], visit[1])
	}
	return found
}

// untouched checks that every foreign record and rule is there still, byte for byte, the rules in their order, and
// that visitors of foreign hosts get what they got.
func (f *foreign) untouched(t *testing.T) {
	t.Helper()
	records := f.cloudflare.Records(t)
	for _, old := range f.records {
		if !slices.ContainsFunc(records, func(now record) bool { return bytes.Equal(now.Raw, old.Raw) }) {
			t.Errorf("the foreign record %s has become %v", old, f.cloudflare.RecordsFor(t, old.Name))
		}
	}
	rules, next := f.cloudflare.Rules(t, f.tunnel), 0
	for _, now := range rules {
		if next < len(f.rules) && bytes.Equal(now.Raw, f.rules[next].Raw) {
			next++
		}
	}
	if next < len(f.rules) {
		t.Errorf("the foreign rule %s is not in its place any more: %v", f.rules[next], rules)
	}
	for visit, before := range f.visits {
		if now := f.cloudflare.Visit(t, visit[0], visit[1]); now != before {
			t.Errorf("a visitor of %s%s got %s and now gets %s", visit[0], visit[1], before, now)
		}
	}
}

// added is the records that are not foreign.
func (f *foreign) added(t *testing.T) []record {
	t.Helper()
	return slices.DeleteFunc(f.cloudflare.Records(t), func(now record) bool {
		return slices.ContainsFunc(f.records, func(old record) bool { return old.ID == now.ID })
	})
}

// alone checks that nothing but what is foreign is there: the same records, and the document as it was at first.
func (f *foreign) alone(t *testing.T) {
	t.Helper()
	f.untouched(t)
	if records := f.cloudflare.Records(t); len(records) != len(f.records) {
		t.Errorf("records: %v", records)
	}
	if before, now := compact(t, f.document), compact(t, f.cloudflare.Document(t, f.tunnel)); before != now {
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
