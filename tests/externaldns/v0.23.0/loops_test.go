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
	one := &loop{Registry: pick(random, "noop", "txt"), Policy: pick(random, "sync", "sync", "upsert-only")}
	if one.Registry == "txt" {
		one.Prefix = pick(random, "", "%{record_type}-x.")
	}
	for range random.IntN(5) {
		one.show(random, randomEndpoint(random))
	}
	for range random.IntN(6) {
		one.Desired = append(one.Desired, randomEndpoint(random))
	}
	// Most of what is wanted stands already.
	for _, standing := range copied(one.Current) {
		if standing.RecordType == endpoint.RecordTypeCNAME && random.IntN(3) > 0 {
			one.Desired = append(one.Desired, standing)
		}
	}
	return one
}

// show adds what stands, once for each name and set identifier, with its TXT record where the registry keeps one.
func (l *loop) show(random *rand.Rand, shown *endpoint.Endpoint) {
	for _, other := range l.Current {
		if other.DNSName == shown.DNSName && other.SetIdentifier == shown.SetIdentifier {
			return
		}
	}
	shown.Labels[endpoint.OwnerLabelKey] = owner
	l.Current = append(l.Current, shown)
	if l.Registry != "txt" || random.IntN(5) == 0 {
		return
	}
	name := strings.ReplaceAll(l.Prefix, "%{record_type}", "cname") + shown.DNSName
	if l.Prefix == "" {
		name = "cname-" + shown.DNSName
	}
	heritage := endpoint.Labels{
		endpoint.OwnerLabelKey:    pick(random, owner, owner, owner, "other"),
		endpoint.ResourceLabelKey: shown.Labels[endpoint.ResourceLabelKey],
	}
	record := endpoint.NewEndpoint(name, endpoint.RecordTypeTXT, heritage.SerializePlain(true))
	if random.IntN(10) == 0 {
		record.Targets = endpoint.Targets{`"v=spf1 -all"`}
	}
	l.Current = append(l.Current, record.WithSetIdentifier(shown.SetIdentifier))
}

func randomEndpoint(random *rand.Rand) *endpoint.Endpoint {
	name := pick(random, "a.example.com", "b.example.com", "*.example.com", "x.y.example.com")
	target := pick(random, "home.cfargotunnel.com", "home.cfargotunnel.com", "office.cfargotunnel.com")
	one := endpoint.NewEndpoint(name, endpoint.RecordTypeCNAME, target)
	one.SetIdentifier = pick(random, "", "", "^/api(/|$)")
	one.Labels[endpoint.ResourceLabelKey] = pick(random, "ingress/one/app", "ingress/one/app", "service/two/web")
	one.SetProviderSpecificProperty("webhook/tunnel-service", pick(random, "http://one:80", "http://one:80", "http://two:80"))
	if random.IntN(4) == 0 {
		one.SetProviderSpecificProperty("webhook/drift", "the record")
	}
	return one
}
