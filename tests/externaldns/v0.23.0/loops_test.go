package main

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/external-dns/controller"
	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/registry"
	"sigs.k8s.io/external-dns/registry/noop"
	"sigs.k8s.io/external-dns/registry/txt"
)

// What tests/support holds its model of ExternalDNS to.
const loopsFile = "../loops.json"

const (
	loops = 120
	owner = "default"
)

var managedTypes = []string{endpoint.RecordTypeA, endpoint.RecordTypeAAAA, endpoint.RecordTypeCNAME}

var renew = flag.Bool("renew", false, "write what is compared otherwise")

// loop is one turn of the real controller: what the webhook shows, what it made of the sources' endpoints, and what it is
// asked for.
type loop struct {
	Registry string               `json:"registry"`
	Prefix   string               `json:"prefix"`
	Policy   string               `json:"policy"`
	Current  []*endpoint.Endpoint `json:"current"`
	Desired  []*endpoint.Endpoint `json:"desired"`
	Changes  *plan.Changes        `json:"changes"`
}

// webhook is a provider with two answers, which keeps what it is asked for.
type webhook struct {
	provider.BaseProvider
	current []*endpoint.Endpoint
	changes plan.Changes
}

func (w *webhook) Records(context.Context) ([]*endpoint.Endpoint, error) {
	return copied(w.current), nil
}

func (w *webhook) ApplyChanges(_ context.Context, changes *plan.Changes) error {
	w.changes = *changes
	return nil
}

type source []*endpoint.Endpoint

func (s source) Endpoints(context.Context) ([]*endpoint.Endpoint, error) { return copied(s), nil }
func (s source) AddEventHandler(context.Context, func())                 {}

// copied goes through JSON, as endpoints on their way to and from a webhook do.
func copied(endpoints []*endpoint.Endpoint) []*endpoint.Endpoint {
	var copies []*endpoint.Endpoint
	if err := json.Unmarshal([]byte(text(endpoints)), &copies); err != nil {
		panic(err)
	}
	return copies
}

// TestLoopsOfTheModel plays random loops to the real controller, with its planner and its registries.
func TestLoopsOfTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]*loop, loops)
	for number := range all {
		all[number] = randomLoop(random)
		if err := all[number].play(); err != nil {
			t.Fatalf("loop %d: %v", number, err)
		}
	}
	compare(t, loopsFile, all)
}

// compare holds a file, with a line for each, to what the real one did, or writes it.
func compare[T any](t *testing.T, file string, all []T) {
	t.Helper()
	var lines strings.Builder
	for _, one := range all {
		lines.WriteString(text(one) + "\n")
	}
	if *renew {
		if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != lines.String() {
		t.Errorf("%s is not what ExternalDNS does: look at the difference after `just loops-renew`", file)
	}
}

// text is the JSON of plain data.
func text(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (l *loop) play() error {
	webhook := &webhook{current: l.Current}
	config := &externaldns.Config{TXTOwnerID: owner, TXTPrefix: l.Prefix, ManagedDNSRecordTypes: managedTypes}
	made := map[string]func(*externaldns.Config, provider.Provider) (registry.Registry, error){"noop": noop.New, "txt": txt.New}
	registry, err := made[l.Registry](config, webhook)
	if err != nil {
		return err
	}
	err = newController(registry, l.Desired, l.Policy).RunOnce(context.Background())
	l.Changes = sorted(&webhook.changes)
	return err
}

func newController(registry registry.Registry, desired []*endpoint.Endpoint, policy string) *controller.Controller {
	return &controller.Controller{
		Source:             source(desired),
		Registry:           registry,
		Policy:             plan.Policies[policy],
		DomainFilter:       &endpoint.DomainFilter{},
		ManagedRecordTypes: managedTypes,
	}
}

// sorted puts into an order what the controller has in none; what is updated stays in pairs.
func sorted(changes *plan.Changes) *plan.Changes {
	for _, list := range [][]*endpoint.Endpoint{changes.Create, changes.UpdateOld, changes.UpdateNew, changes.Delete} {
		byKey(list)
	}
	return changes
}

func byKey(endpoints []*endpoint.Endpoint) []*endpoint.Endpoint {
	key := func(one *endpoint.Endpoint) string {
		return strings.Join([]string{one.DNSName, one.RecordType, one.SetIdentifier}, " ")
	}
	slices.SortStableFunc(endpoints, func(one, other *endpoint.Endpoint) int {
		return strings.Compare(key(one), key(other))
	})
	return endpoints
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

func randomLoop(random *rand.Rand) *loop {
	one := &loop{Registry: pick(random, "noop", "txt", "txt"), Policy: pick(random, "sync", "sync", "upsert-only")}
	if one.Registry == "txt" {
		one.Prefix = pick(random, "", "%{record_type}-x.")
	}
	for range random.IntN(5) {
		one.show(random, randomEndpoint(random))
	}
	for range random.IntN(5) {
		one.Desired = append(one.Desired, randomEndpoint(random))
	}
	// Most of what is wanted stands already, at times with another TTL or spelled otherwise.
	for _, standing := range copied(one.Current) {
		if slices.Contains(managedTypes, standing.RecordType) && random.IntN(3) > 0 {
			standing.RecordTTL = pick(random, standing.RecordTTL, 0, 300)
			standing.Targets[0] = misspelled(random, standing.Targets[0])
			one.Desired = append(one.Desired, standing)
		}
	}
	// What no source makes without being told to.
	if random.IntN(6) == 0 {
		one.Desired = append(one.Desired, endpoint.NewEndpoint("a.example.com", endpoint.RecordTypeTXT, `"v=spf1 -all"`))
	}
	return one
}

// show adds what stands, once for each name, type and set identifier, with its TXT record where the registry keeps one.
func (l *loop) show(random *rand.Rand, shown *endpoint.Endpoint) {
	for _, other := range l.Current {
		if other.DNSName == shown.DNSName && other.RecordType == shown.RecordType && other.SetIdentifier == shown.SetIdentifier {
			return
		}
	}
	if random.IntN(10) > 0 {
		shown.Labels[endpoint.OwnerLabelKey] = owner
	}
	// A TXT record may be left over.
	if random.IntN(8) > 0 {
		l.Current = append(l.Current, shown)
	}
	if l.Registry != "txt" {
		// Types that are not managed.
		if random.IntN(4) == 0 {
			l.Current = append(l.Current, endpoint.NewEndpoint(shown.DNSName, pick(random, endpoint.RecordTypeTXT, endpoint.RecordTypeNS), "any"))
		}
		return
	}
	recordType := strings.ToLower(shown.RecordType)
	typed := strings.ReplaceAll(l.Prefix, "%{record_type}", recordType) + shown.DNSName
	if l.Prefix == "" {
		typed = recordType + "-" + shown.DNSName
	}
	// As before 0.12.
	untyped := strings.ReplaceAll(l.Prefix, "%{record_type}", "") + shown.DNSName
	for _, name := range pick(random, nil, []string{typed}, []string{typed}, []string{typed}, []string{untyped}, []string{typed, untyped}) {
		l.Current = append(l.Current, randomTXT(random, name, shown))
	}
}

// randomTXT is the TXT record of what is shown, with or without quotes, its owner and its object; or the text of
// another program.
func randomTXT(random *rand.Rand, name string, shown *endpoint.Endpoint) *endpoint.Endpoint {
	heritage := endpoint.Labels{endpoint.OwnerLabelKey: pick(random, owner, owner, owner, "other")}
	if random.IntN(4) > 0 {
		heritage[endpoint.ResourceLabelKey] = pick(random, shown.Labels[endpoint.ResourceLabelKey], "ingress/old/app")
	}
	if random.IntN(5) == 0 {
		name = strings.ToUpper(name)
	}
	record := endpoint.NewEndpoint(name, endpoint.RecordTypeTXT, heritage.SerializePlain(random.IntN(4) > 0))
	if random.IntN(10) == 0 {
		record.Targets = endpoint.Targets{`"v=spf1 -all"`}
	}
	return record.WithSetIdentifier(shown.SetIdentifier)
}

// misspelled is a name as it is, or at times in another spelling, which comes before all others.
func misspelled(random *rand.Rand, name string) string {
	if random.IntN(12) == 0 {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// randomEndpoint has few names, so that several types meet there. The targets are sorted, as ExternalDNS has those of its
// sources.
func randomEndpoint(random *rand.Rand) *endpoint.Endpoint {
	name := misspelled(random, pick(random, "a.example.com", "a.example.com", "x.y.example.com", "*.example.com"))
	recordType := pick(random, endpoint.RecordTypeCNAME, endpoint.RecordTypeCNAME, endpoint.RecordTypeCNAME, endpoint.RecordTypeA, endpoint.RecordTypeAAAA)
	targets := map[string][]string{
		endpoint.RecordTypeCNAME: {"home.test", "home.test", "office.test"},
		endpoint.RecordTypeA:     {"192.0.2.9", "192.0.2.9", "192.0.2.10"},
		endpoint.RecordTypeAAAA:  {"2001:db8::1", "2001:db8::1", "2001:db8::2"},
	}[recordType]
	target := misspelled(random, pick(random, targets...))
	one := endpoint.NewEndpoint(name, recordType, target)
	if random.IntN(5) == 0 {
		one.Targets = endpoint.NewTargets(target, misspelled(random, pick(random, targets...)))
	}
	if random.IntN(16) == 0 {
		one.DNSName += "."
	}
	one.SetIdentifier = pick(random, "", "", "", "^/api(/|$)")
	one.RecordTTL = pick(random, endpoint.TTL(0), 0, 0, 0, 0, 0, 0, 300)
	one.Labels[endpoint.ResourceLabelKey] = pick(random, "ingress/one/app", "ingress/one/app", "service/two/web")
	one.SetProviderSpecificProperty("webhook/tunnel-service", pick(random, "http://one:80", "http://one:80", "http://one:80", "http://two:80"))
	if random.IntN(8) == 0 {
		one.SetProviderSpecificProperty("webhook/drift", "the record")
	}
	return one
}
