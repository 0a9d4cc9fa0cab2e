package e2e

import (
	"slices"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// without forgets what is foreign about a hostname, because it is taken over.
func (f *foreign) without(hostname string) *foreign {
	f.records = slices.DeleteFunc(f.records, func(record record) bool { return record.Name == hostname })
	f.rules = slices.DeleteFunc(f.rules, func(rule rule) bool { return rule.Hostname == hostname })
	delete(f.visits, [2]string{hostname, "/"})
	return f
}

// The tunnel `handmade` serves intranet.example.com, made in the dashboard.
func TestAHostnameMadeByHandIsTakenOverOnlyWhenItIsAllowed(t *testing.T) {
	t.Parallel()
	const host, service = "intranet.example.com", "http://intranet.shop.svc:80"
	cloudflare := startEmulator(t)
	tunnel := cloudflare.TunnelNamed(t, "handmade")
	cloudflare.tunnelOfOthers(t, "of others")
	foreign := cloudflare.foreign(t, tunnel)
	pod := deploy(t, cloudflare, tunnel.ID)
	pod.source.set(published(host, service), published("web.example.com", "http://web.shop.svc:80"))

	pod.isRefused(t, cloudflare)
	foreign.untouched(t)
	cloudflare.Publishes(t, tunnel, "web.example.com", "http://web.shop.svc:80", `{}`)
	if lines := pod.program.Lines("hostname=\""+host+"\"", "refused="); lines != 1 {
		t.Errorf("the refusal is told %d times", lines)
	}

	watched := cloudflare.watch(t, host)
	foreign.without(host)
	for _, settings := range [][]string{{"ADOPT=tunnel"}, {}} {
		pod.rollOut(t, settings...)
		pod.settles(t)
		cloudflare.Publishes(t, tunnel, host, service, `{}`)
		foreign.untouched(t)
	}
	// Its rule was there before, and has the wanted service since.
	wanted := []string{"http://intranet:8080 through " + tunnel.ID, service + " through " + tunnel.ID}
	if seen := watched(); !slices.Equal(seen, wanted) {
		t.Errorf("visitors got %q", seen)
	}

	pod.source.set()
	pod.settles(t)
	cloudflare.Withdrew(t, tunnel, host)
	cloudflare.Withdrew(t, tunnel, "web.example.com")
	foreign.untouched(t)
}

// One of the providers inside ExternalDNS published the hostname with --txt-owner-id=default. docs.example.com has
// another owner.
func TestAHostnameOfAnotherProviderIsTakenOverByItsOwner(t *testing.T) {
	t.Parallel()
	const host, service = "former.example.com", "http://former.shop.svc:80"
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfOthers(t, "hand-made")
	foreign := cloudflare.foreign(t, tunnel)
	text := func(name string) map[string]any {
		return map[string]any{"type": "TXT", "name": name, "content": `"heritage=external-dns,external-dns/owner=default,external-dns/resource=ingress/shop/` + host + `"`, "ttl": 1}
	}
	made := []map[string]any{
		{"type": "CNAME", "name": host, "content": "ingress.example.net", "proxied": true, "ttl": 1},
		text("cname-" + host),
		// One of before 0.18, which newer versions leave where it is.
		text(host),
	}
	cloudflare.Ask(t, "POST", "/records", map[string]any{"zone": harness.ZoneName, "posts": made}, nil)
	pod := deploy(t, cloudflare, tunnel.ID)
	pod.source.set(published(host, service), published("docs.example.com", "http://docs.shop.svc:80"))
	pod.isRefused(t, cloudflare)
	if records := cloudflare.RecordsFor(t, host); records[0].Content != "ingress.example.net" {
		t.Errorf("taken without being allowed: %v", records)
	}

	isTaken := func() {
		t.Helper()
		cloudflare.Publishes(t, tunnel, host, service, `{}`)
		foreign.untouched(t)
		if texts := cloudflare.RecordsFor(t, "cname-"+host); len(texts) != 0 {
			t.Errorf("its text is still there: %v", texts)
		}
	}
	pod.rollOut(t, "ADOPT=owner=default")
	harness.Eventually(t, "the hostname is taken over", func() error {
		pod.Alive(t)
		return cloudflare.IsPublished(t, tunnel, host, service, `{}`)
	})
	pod.isRefused(t, cloudflare)
	isTaken()

	pod.source.set(published(host, service))
	pod.rollOut(t)
	pod.settles(t)
	isTaken()
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
}
