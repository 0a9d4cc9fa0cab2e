package e2e

import (
	"strings"
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
		for _, ownership := range []ownership{inComments, inTexts} {
			t.Run(version+" with the ownership "+string(ownership), func(t *testing.T) {
				t.Parallel()
				const web, api = "web.example.com", "api.example.com"
				pod, tunnel, foreign := besideOthers(t, invocation{binary: binary}, ownership.setting())
				cloudflare := pod.cloudflare
				keeps := func(t *testing.T, hostnames ...string) {
					t.Helper()
					var names []string
					for _, hostname := range hostnames {
						if ownership == inTexts {
							names = append(names, textNames(version, hostname)...)
						}
					}
					cloudflare.hasTexts(t, "default", names...)
					foreign.untouched(t)
				}

				t.Run("two hostnames are published", func(t *testing.T) {
					pod.source.set(published(web, "http://web.shop.svc:80"), published(api, "http://api.shop.svc:80"))
					pod.settles(t)
					cloudflare.Publishes(t, tunnel, web, "http://web.shop.svc:80", `{}`)
					cloudflare.Publishes(t, tunnel, api, "http://api.shop.svc:80", `{}`)
					keeps(t, web, api)
				})
				t.Run("one is changed and one is withdrawn", func(t *testing.T) {
					pod.source.set(published(web, "http://web.shop.svc:80", property{"origin-no-tls-verify", "true"}))
					pod.settles(t)
					cloudflare.Publishes(t, tunnel, web, "http://web.shop.svc:80", `{"noTLSVerify":true}`)
					cloudflare.Withdrew(t, tunnel, api)
					keeps(t, web)
				})
				t.Run("after the last withdrawal only what is foreign is left", func(t *testing.T) {
					pod.source.set()
					pod.settles(t)
					foreign.alone(t)
				})
			})
		}
	}
}

// textNames is where this version keeps the TXT records of a CNAME.
func textNames(version, hostname string) []string {
	names := []string{"cname-" + hostname}
	if strings.HasPrefix(version, "v0.14.") || strings.HasPrefix(version, "v0.15.") || strings.HasPrefix(version, "v0.16.") || strings.HasPrefix(version, "v0.17.") {
		names = append(names, hostname)
	}
	return names
}
