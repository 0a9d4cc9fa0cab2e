package cluster

import (
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// Each version together with the newest, and with the files of deploy/.

var newest = strings.TrimPrefix(harness.Newest, "v")

var companyTrials = []trial{
	{"kustomize", []string{"`deploy/kustomize` as it is, its role included"}, runsByKustomize},
	{"neighbour", []string{"Beside " + newest + " in one zone, each with an `OWNER_ID`, neither touches the other's"}, hasANeighbour},
	{"takeover", []string{
		newest + " takes over what it published without a write, with `--registry=noop`",
		newest + " withdraws all that it published, with `--registry=noop`",
	}, isTakenOver},
}

// runsByKustomize: a version that the role does not let read an object waits for it in vain, and ends.
func runsByKustomize(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("shop", targetOf("shop"))+serviceOf("service", "ClusterIP", targetOf("service")+", "))
	own := deploymentOf(t, kustomize(t), ownName)
	program := bench.runs(t)
	arguments := replacing(named(t, own.spec.Containers, "external-dns").Args, append([]string{"--namespace=" + bench.namespace,
		"--kubeconfig=" + bench.KubeconfigOf(t, bench.tokenOf(t, own.spec.ServiceAccountName), ownNamespace),
		"--webhook-provider-url=http://" + program.Address}, soon...)...)
	pod, known := bench.startsBeside(t, program, bench.version, arguments)
	if !known {
		return []string{no}
	}
	published := func() bool { return bench.servesOwn(t, "shop") && bench.servesOwn(t, "service") }
	if !within(2*patience, func() bool { return pod.HasEnded() || published() || pod.hasRested() }) {
		t.Error("it neither publishes nor ends")
	}
	return []string{cell(!pod.HasEnded() && published())}
}

// hasRested says whether several loops have found nothing to do.
func (p *pod) hasRested() bool {
	count, err := p.Metric(harness.NoOpRuns)
	return err == nil && count >= 3
}

func hasANeighbour(t *testing.T, own *bench) []string {
	neighbour := &bench{
		cluster:   &cluster{APIServer: own.APIServer, cloudflare: own.cloudflare, records: own.records},
		namespace: "beside-" + own.namespace, version: harness.Newest, binaries: own.binaries,
	}
	neighbour.home = own.cloudflare.TunnelNeverConfigured(t, "BESIDE")
	neighbour.apply(t, "", namespace(neighbour.namespace))
	var objects []*object
	var pods []*pod
	for _, each := range []struct {
		*bench
		names [2]string
	}{{own, [2]string{"one", "two"}}, {neighbour, [2]string{"three", "four"}}} {
		for _, name := range each.names {
			objects = append(objects, each.has(t, ingressOf(name, targetOf(name)))...)
		}
		pod, known := each.starts(t, nil, "--source=ingress", "--registry=txt")
		if !known {
			t.Fatal("it does not know the registry")
		}
		pods = append(pods, pod)
	}
	settle := func() {
		t.Helper()
		for _, pod := range pods {
			pod.settles(t)
		}
	}
	settle()
	both := own.servesOwn(t, "one") && own.servesOwn(t, "two") && neighbour.servesOwn(t, "three") && neighbour.servesOwn(t, "four")
	// One of each goes.
	own.delete(t, objects[0], objects[2])
	settle()
	kept := !own.servesOwn(t, "one") && own.servesOwn(t, "two") && !neighbour.servesOwn(t, "three") && neighbour.servesOwn(t, "four")
	return []string{cell(both && kept)}
}

// isTakenOver replaces this version by the newest, as an upgrade does. It gives whether the newest writes nothing, and
// whether it leaves nothing behind.
func isTakenOver(t *testing.T, bench *bench) []string {
	objects := bench.has(t, ingressOf("ingress", targetOf("ingress"))+
		serviceOf("service", "ClusterIP", targetOf("service")+", ")+pointOf("dnsendpoint", ""))
	program := bench.runs(t)
	arguments := bench.arguments(t, program.Address, "--source=ingress", "--source=service", "--source=crd", "--registry=noop")
	old, known := bench.startsBeside(t, program, bench.version, arguments)
	if !known {
		t.Fatal("it does not know the registry")
	}
	published := func() bool {
		return bench.servesOwn(t, "ingress") && bench.servesOwn(t, "service") && bench.servesOwn(t, "dnsendpoint")
	}
	if !within(patience, published) {
		t.Fatal("it does not publish")
	}
	old.settles(t)
	old.Stop(t)
	writes := len(bench.cloudflare.Writes(t))
	newest, _ := bench.startsBeside(t, program, harness.Newest, arguments)
	newest.settles(t)
	idle := len(bench.cloudflare.Writes(t)) == writes && published()
	bench.delete(t, objects...)
	gone := within(patience, func() bool {
		return !bench.servesOwn(t, "ingress") && !bench.servesOwn(t, "service") && !bench.servesOwn(t, "dnsendpoint")
	})
	newest.settles(t)
	left := bench.cloudflare.Records(t)
	return []string{cell(idle), cell(gone && bench.shows(t, shape{}) == nil && len(left) == len(bench.records))}
}
