package main

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/source/wrappers"
)

// What tests/support holds its model of merged endpoints to.
const mergesFile = "../merges.json"

const (
	merges = 200
	// All orders of so many are tried.
	mergedAtMost = 4
)

// merge is a list of endpoints of several objects, and each list that ExternalDNS may make of it. Which comes is a matter of
// the order in which the objects are read, and of that of a Go map.
type merge struct {
	Endpoints []*endpoint.Endpoint   `json:"endpoints"`
	Outcomes  [][]*endpoint.Endpoint `json:"outcomes"`
}

// TestMergesOfTheModel gives random lists to what stands between the sources and the controller.
func TestMergesOfTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	all := make([]*merge, merges)
	several := 0
	for number := range all {
		all[number] = randomMerge(random)
		if err := all[number].play(); err != nil {
			t.Fatalf("list %d: %v", number, err)
		}
		if len(all[number].Outcomes) > 1 {
			several++
		}
	}
	if several == 0 {
		t.Error("the order never matters")
	}
	compare(t, mergesFile, all)
}

func (m *merge) play() error {
	outcomes := map[string][]*endpoint.Endpoint{}
	for _, order := range orders(m.Endpoints) {
		for _, merged := range orders(endpoint.MergeEndpoints(copied(order))) {
			outcome, err := wrappers.NewDedupSource(source(merged)).Endpoints(context.Background())
			if err != nil {
				return err
			}
			slices.SortFunc(outcome, func(one, other *endpoint.Endpoint) int { return strings.Compare(text(one), text(other)) })
			outcomes[text(outcome)] = outcome
		}
	}
	for _, key := range slices.Sorted(maps.Keys(outcomes)) {
		m.Outcomes = append(m.Outcomes, outcomes[key])
	}
	return nil
}

// orders are all of a list.
func orders[T any](list []T) [][]T {
	if len(list) == 0 {
		return [][]T{nil}
	}
	var all [][]T
	for index, first := range list {
		for _, rest := range orders(slices.Concat(list[:index], list[index+1:])) {
			all = append(all, append([]T{first}, rest...))
		}
	}
	return all
}

func randomMerge(random *rand.Rand) *merge {
	one := &merge{}
	for range 2 + random.IntN(mergedAtMost-1) {
		one.Endpoints = append(one.Endpoints, randomOfAnObject(random))
	}
	return one
}

// randomOfAnObject has few names, so that objects meet.
func randomOfAnObject(random *rand.Rand) *endpoint.Endpoint {
	name := pick(random, "a.example.com", "a.example.com", "a.example.com", "b.example.com")
	recordType, targets := endpoint.RecordTypeA, pick(random, []string{"192.0.2.10"}, []string{"192.0.2.10"}, []string{"192.0.2.11", "192.0.2.10"})
	if random.IntN(2) == 0 {
		recordType = endpoint.RecordTypeCNAME
		targets = pick(random, []string{"http://one:80"}, []string{"http://one:80"}, []string{"http://two:80"}, []string{"http://two:80", "http://one:80"},
			[]string{"http://one:80", "http://two:80"})
	}
	if random.IntN(10) == 0 {
		targets = nil
	}
	ttl := pick(random, endpoint.TTL(0), endpoint.TTL(0), endpoint.TTL(0), endpoint.TTL(300))
	one := endpoint.NewEndpointWithTTL(name, recordType, ttl, targets...)
	one.SetIdentifier = pick(random, "", "", "", "ingress/one/app")
	one.Labels[endpoint.ResourceLabelKey] = pick(random, "ingress/one/app", "service/two/web", "ingress/three/db")
	one.SetProviderSpecificProperty("webhook/tunnel-service", pick(random, "http://one:80", "http://two:80", "http://three:80"))
	return one
}
