package e2e

import (
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// Versions differ in the keys of what they send, in the names of their TXT records and in their number: up to
// 0.17 they write the name of the hostname too.
func TestEachVersionOfExternalDNSPublishesChangesAndWithdraws(t *testing.T) {
	versions, err := harness.VersionsAsked()
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) == 0 {
		t.Skip("`just matrix` runs this: building an older version takes minutes")
	}
	t.Parallel()
	for _, version := range versions {
		binary, err := harness.BuildExternalDNSOf(version)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			const web, api = "web.example.com", "api.example.com"
			pod, tunnel, foreign := besideOthers(t, invocation{binary: binary})
			cloudflare := pod.cloudflare
			storesNoTexts := func(t *testing.T) {
				t.Helper()
				for _, one := range foreign.added(t) {
					if one.Type == "TXT" {
						t.Errorf("there is %s", one)
					}
				}
				foreign.untouched(t)
			}

			t.Run("two hostnames are published", func(t *testing.T) {
				pod.source.set(published(web, "http://web.shop.svc:80"), published(api, "http://api.shop.svc:80"))
				pod.settles(t)
				cloudflare.Publishes(t, tunnel, web, "http://web.shop.svc:80", `{}`)
				cloudflare.Publishes(t, tunnel, api, "http://api.shop.svc:80", `{}`)
				storesNoTexts(t)
			})
			t.Run("one is changed and one is withdrawn", func(t *testing.T) {
				pod.source.set(published(web, "http://web.shop.svc:80", property{"origin-no-tls-verify", "true"}))
				pod.settles(t)
				cloudflare.Publishes(t, tunnel, web, "http://web.shop.svc:80", `{"noTLSVerify":true}`)
				cloudflare.Withdrew(t, tunnel, api)
				storesNoTexts(t)
			})
			t.Run("after the last withdrawal only what is foreign is left", func(t *testing.T) {
				pod.source.set()
				pod.settles(t)
				foreign.alone(t)
			})
		})
	}
}
