package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// guideWith is a reader of a section of docs/guides.md.
func guideWith(t *testing.T, cluster *cluster, heading string) reader {
	t.Helper()
	return reader{cluster, sectionOf(t, "../../docs/guides.md", heading)}
}

// blocks are the guide's blocks of a language.
func (r reader) blocks(language string) (texts []string) {
	for _, fence := range fencesOf(r.guide) {
		if fence.language == language {
			texts = append(texts, fence.text)
		}
	}
	return texts
}

// TestASecondExternalDNSWritesPlainRecordsBesideTheTunnelsHostnames: the guide's values and command, and ExternalDNS's own
// provider for Cloudflare. What it does not own it leaves alone, and it takes back what it made.
func TestASecondExternalDNSWritesPlainRecordsBesideTheTunnelsHostnames(t *testing.T) {
	t.Parallel()
	reader := guideWith(t, startCluster(t), "Plain records by a second ExternalDNS")
	objects := helm(t, map[string]any{"sources": []string{"ingress", "crd"}})
	reader.install(t, objects)
	pod := reader.run(t, objects, soon...)
	reader.apply(t, appNamespace, ingress(t, "shop", `{external-dns.kubernetes.io/target: "http://shop.shop.svc:80"}`))
	published := shape{"shop.example.com": {"http://shop.shop.svc:80"}}
	pod.publishes(t, published)

	examples := reader.blocks("yaml")
	if len(examples) != 2 {
		t.Fatalf("the guide has the examples %q", examples)
	}
	operator := reader.operator(t)
	if err := os.WriteFile(filepath.Join(operator.folder, "records.yaml"), []byte(examples[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	operator.types(t, reader.block(t, "sh"))
	second := reader.startsRecords(t)

	records := func() (found []string) {
		for _, name := range []string{"example.com", "mail.example.com"} {
			for _, record := range reader.cloudflare.RecordsFor(t, name) {
				found = append(found, record.Type+" "+record.Name+" "+record.Content)
			}
		}
		slices.Sort(found)
		return found
	}
	before := records()
	plain := objectsOf(t, []byte(examples[1]))
	// A hostname of the tunnel, for which a plain record is asked.
	contested := objectsOf(t, []byte(`{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint,
		metadata: {name: contested, labels: {records: plain}},
		spec: {endpoints: [{dnsName: shop.example.com, recordType: A, targets: [203.0.113.8]}]}}`))
	reader.apply(t, appNamespace, append(plain, contested...)...)
	wanted := slices.Concat(before, []string{
		"A mail.example.com 203.0.113.7", "MX example.com mail.example.com", "TXT example.com v=spf1 mx -all",
	})
	slices.Sort(wanted)
	harness.EventuallyWithin(t, patience, "the plain records are there", func() error {
		second.Alive(t)
		if now := records(); !slices.Equal(now, wanted) {
			return fmt.Errorf("%q, wanted %q", now, wanted)
		}
		return nil
	})
	rests(t, second, 3)
	pod.publishes(t, published)

	reader.delete(t, plain...)
	harness.EventuallyWithin(t, patience, "the plain records are gone, and what names their owner", func() error {
		second.Alive(t)
		if now := records(); !slices.Equal(now, before) {
			return fmt.Errorf("%q, wanted %q", now, before)
		}
		for _, record := range reader.cloudflare.Records(t) {
			if strings.HasPrefix(record.Name, "records-") {
				return fmt.Errorf("%s is left", record)
			}
		}
		return nil
	})
	pod.publishes(t, published)
}

// startsRecords runs the Deployment of the guide's release, with its role.
func (r reader) startsRecords(t *testing.T) *harness.ExternalDNS {
	t.Helper()
	own := deploymentOf(t, r.deployments(t), "records-external-dns")
	r.fillVariables(t, own.spec)
	environment, arguments := folders{}.process(named(t, own.spec.Containers, "external-dns"))
	token := r.tokenOf(t, own.spec.ServiceAccountName)
	arguments = replacing(arguments, append([]string{"--kubeconfig=" + r.KubeconfigOf(t, token, ownNamespace)}, soon...)...)
	environment = append(environment, "CLOUDFLARE_BASE_URL="+r.cloudflare.BaseURL)
	return harness.StartExternalDNSIn(t, environment, externalDNSBinary, arguments...)
}

// TestTwoClustersServeOneHostnameAndTheWebhookMovesFromOneToTheOther: the guide's values, with the webhook in one of them.
func TestTwoClustersServeOneHostnameAndTheWebhookMovesFromOneToTheOther(t *testing.T) {
	t.Parallel()
	cloudflare := harness.StartEmulator(t, "--without-tunnels")
	first := startClusterBeside(t, cloudflare)
	second := guideWith(t, startClusterBeside(t, cloudflare), "One hostname from two clusters")
	values := replaced(t, second.block(t, "yaml"), "homelab", tunnelName)
	without := replaced(t, values, "replicaCount: 0", "")
	render := func(text string) []*object {
		t.Helper()
		var read map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
			t.Fatal(err)
		}
		return helmOf(t, read)
	}

	serving := render(without)
	first.install(t, serving)
	replicas := first.fetchRunTokens(t, serving)
	first.oneTunnelIsNamed(t, tunnelName)
	second.home = first.home
	waiting := render(values)
	second.install(t, waiting)
	if own := deploymentOf(t, second.deployments(t), ownName); own.replicas != 0 {
		t.Errorf("the second cluster has %d webhooks", own.replicas)
	}
	replicas = append(replicas, second.fetchRunTokens(t, waiting)...)
	first.haveOneToken(t, replicas)
	for _, replica := range replicas {
		if err := first.connects(t, replica); err != nil {
			t.Fatal(err)
		}
	}

	shop := ingress(t, "shop", `{external-dns.kubernetes.io/target: "http://shop.shop.svc:80"}`)
	for _, cluster := range []*cluster{first, second.cluster} {
		cluster.apply(t, appNamespace, shop.DeepCopy())
	}
	pod := first.run(t, serving, soon...)
	published := shape{"shop.example.com": {"http://shop.shop.svc:80"}}
	pod.publishes(t, published)
	served := "http://shop.shop.svc:80 through " + first.home.ID
	first.visits(t, served)

	pod.Stop(t)
	pod.program.Stop(t)
	writes := len(cloudflare.Writes(t))
	second.apply(t, ownNamespace, serving...)
	pod = second.run(t, second.deployments(t), soon...)
	pod.publishes(t, published)
	if now := cloudflare.Writes(t); len(now) != writes {
		t.Errorf("the move of the webhook writes: %v", now[writes:])
	}
	first.visits(t, served)
}
