package cluster

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
)

// Which settings of ExternalDNS, and of the program's that ExternalDNS has to honour, do what is said of them.

var settingTrials = []trial{
	{"events", []string{
		"With `--events` a new Ingress is published at once",
		"With `--events` a new DNSEndpoint is published at once",
	}, looksOnEvents},
	{"marks", []string{
		"`--events-emit` writes an Event at a published Ingress",
		"What the Event at a refused Ingress says",
	}, emitsEvents},
	{"upsert-only", []string{"`--policy=upsert-only` publishes, and withdraws nothing"}, keepsUnderUpsertOnly},
	{"no policy", []string{"It starts without `--policy`"}, startsWithoutPolicy},
	{"crd", []string{"`--registry=crd`"}, hasTheRegistryCRD},
	{"types", []string{"`--managed-record-types=CNAME` is enough, also for addresses"}, managesTypes},
	{"prefix", []string{"`--annotation-prefix` names another prefix"}, readsAnotherPrefix},
	{"legacy prefix", []string{"`--enable-legacy-annotation-prefix` reads both prefixes"}, readsBothPrefixes},
	{"annotation filter", []string{"`--annotation-filter` leaves the DNSEndpoints that fit"}, filtersByAnnotation},
	{"domains", []string{"It keeps to `DOMAIN_FILTER`"}, keepsToDomains},
	{"domains by expression", []string{"It keeps to `REGEXP_DOMAIN_FILTER`"}, keepsToExpressions},
}

func looksOnEvents(t *testing.T, bench *bench) []string {
	pod, known := bench.starts(t, nil, "--source=ingress", "--source=crd", "--events", "--interval=24h")
	if !known {
		return []string{no, no}
	}
	pod.rests(t)
	var cells []string
	for _, object := range []struct{ name, text string }{
		{"ingress", ingressOf("ingress", targetOf("ingress"))}, {"dnsendpoint", pointOf("dnsendpoint", "")},
	} {
		bench.has(t, object.text)
		cells = append(cells, cell(within(negativePatience, func() bool { return bench.servesOwn(t, object.name) })))
	}
	pod.Alive(t)
	return cells
}

// emitsEvents: one hostname is published, and one has a foreign record.
func emitsEvents(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("free", targetOf("free"))+ingressOf("intranet", targetOf("intranet")))
	pod, known := bench.starts(t, nil, "--source=ingress", "--events-emit=RecordReady", "--events-emit=RecordError")
	if !known {
		return []string{no, "none"}
	}
	awaitLine(t, pod, `hostname="`+held+`"`, "refused=record_held")
	if !within(negativePatience, func() bool { return slices.Contains(bench.events(t, "free"), "RecordReady") }) {
		return []string{no, "none"}
	}
	// Events of one request are written together.
	if !within(negativePatience, func() bool { return len(bench.events(t, "intranet")) > 0 }) {
		return []string{yes, "none"}
	}
	return []string{yes, "`" + bench.events(t, "intranet")[0] + "`"}
}

// events are the reasons of those at an object.
func (b *bench) events(t *testing.T, name string) (reasons []string) {
	t.Helper()
	text, err := b.Try(http.MethodGet, "/apis/events.k8s.io/v1/namespaces/"+b.namespace+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Reason    string
			Regarding struct{ Name string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, event := range list.Items {
		if event.Regarding.Name == name {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

func keepsUnderUpsertOnly(t *testing.T, bench *bench) []string {
	old := bench.has(t, ingressOf("old", targetOf("old")))
	pod, known := bench.starts(t, nil, "--source=ingress", "--policy=upsert-only")
	if !known {
		t.Fatal("it does not know the policy")
	}
	pod.settles(t)
	bench.delete(t, old...)
	bench.has(t, ingressOf("new", targetOf("new")))
	published := within(patience, func() bool { return bench.servesOwn(t, "new") })
	pod.settles(t)
	return []string{cell(published && bench.servesOwn(t, "old"))}
}

func startsWithoutPolicy(t *testing.T, bench *bench) []string {
	program := bench.runs(t)
	arguments := slices.DeleteFunc(bench.arguments(t, program.Address, "--source=ingress"), func(argument string) bool {
		return argument == "--policy=sync"
	})
	pod, known := bench.startsBeside(t, program, bench.version, arguments)
	if known {
		pod.rests(t)
	}
	return []string{cell(known)}
}

func hasTheRegistryCRD(t *testing.T, bench *bench) []string {
	// The registries of all versions keep their objects in one place.
	name := bench.namespace
	bench.has(t, ingressOf(name, targetOf(name)))
	pod, known := bench.starts(t, nil, "--source=ingress", "--registry=crd")
	if !known {
		return []string{no}
	}
	pod.settles(t)
	text, err := bench.Try(http.MethodGet, "/apis/externaldns.k8s.io/v1alpha1/dnsrecords", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Spec struct{ Endpoint struct{ DNSName string } }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, record := range list.Items {
		if record.Spec.Endpoint.DNSName == name+".example.com" {
			kept++
		}
	}
	return []string{cell(kept == 1 && bench.servesOwn(t, name))}
}

func managesTypes(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("named", targetOf("named"))+serviceOf("balanced", "LoadBalancer", ""))
	pod, known := bench.starts(t, []string{"DEFAULT_SERVICE=http://{name}.shop.svc:80", "PUBLISH=all"},
		"--source=ingress", "--source=service", "--managed-record-types=CNAME")
	if !known {
		return []string{no}
	}
	pod.settles(t)
	return []string{cell(bench.servesOwn(t, "named") && bench.servesOwn(t, "balanced"))}
}

func readsAnotherPrefix(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("other", `dns.example.org/target: "http://other.shop.svc:80"`))
	pod, known := bench.starts(t, nil, "--source=ingress", "--annotation-prefix=dns.example.org/")
	if !known {
		return []string{no}
	}
	pod.settles(t)
	return []string{cell(bench.servesOwn(t, "other"))}
}

func readsBothPrefixes(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("alpha", alphaPrefix+`target: "http://alpha.shop.svc:80"`)+
		ingressOf("current", currentPrefix+`target: "http://current.shop.svc:80"`))
	pod, known := bench.starts(t, nil, "--source=ingress", "--enable-legacy-annotation-prefix")
	if !known {
		return []string{no}
	}
	pod.settles(t)
	return []string{cell(bench.servesOwn(t, "alpha") && bench.servesOwn(t, "current"))}
}

func filtersByAnnotation(t *testing.T, bench *bench) []string {
	bench.has(t, pointOf("public", `, annotations: {public: "true"}`)+pointOf("internal", ""))
	pod, known := bench.starts(t, nil, "--source=crd", "--annotation-filter=public=true")
	if !known {
		t.Fatal("it does not know the filter")
	}
	pod.settles(t)
	return []string{cell(bench.servesOwn(t, "public") && !bench.servesOwn(t, "internal"))}
}

func keepsToDomains(t *testing.T, bench *bench) []string {
	return bench.keepsTo(t, "DOMAIN_FILTER=in.example.com")
}

func keepsToExpressions(t *testing.T, bench *bench) []string {
	return bench.keepsTo(t, `REGEXP_DOMAIN_FILTER=\.in\.example\.com$`)
}

// keepsTo says whether ExternalDNS asks for what is inside of the program's filter, and for nothing else.
func (b *bench) keepsTo(t *testing.T, filter string) []string {
	t.Helper()
	b.has(t, ingressOf("shop.in", targetOf("shop.in"))+ingressOf("shop.out", targetOf("shop.out")))
	pod, known := b.starts(t, []string{filter}, "--source=ingress")
	if !known {
		t.Fatal("it does not know the source")
	}
	if !within(patience, func() bool { return b.servesOwn(t, "shop.in") }) {
		t.Error("what is inside of the filter is not published")
	}
	return []string{cell(pod.calms(t) && !b.servesOwn(t, "shop.out"))}
}
