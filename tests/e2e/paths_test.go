package e2e

import (
	"slices"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"
)

// Several rules of one hostname, from one object by groups and from several by set identifiers: without those
// ExternalDNS would merge the objects before a provider sees them.
func TestSeveralPathsOfOneHostnameArePublishedChangedAndWithdrawn(t *testing.T) {
	t.Parallel()
	const host = "shop.example.com"
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation)
		cloudflare := pod.cloudflare
		serves := func(t *testing.T, wanted ...string) {
			t.Helper()
			pod.settles(t)
			if found := cloudflare.Services(t, tunnel, host); !slices.Equal(found, wanted) {
				t.Errorf("rules: %q, wanted %q", found, wanted)
			}
			cloudflare.RecordLeadsTo(t, tunnel, host)
			foreign.untouched(t)
		}

		t.Run("three paths from one object", func(t *testing.T) {
			pod.source.set(published(host, "http://shop:80",
				property{"tunnel-service.api", "http://api:80"},
				property{"tunnel-path-prefix.api", "/api"},
				property{"tunnel-service.images", "http://images:80"},
				property{"tunnel-path.images", `\.png$`}))
			serves(t, "^/api(/|$) http://api:80", `\.png$ http://images:80`, " http://shop:80")
		})
		t.Run("one is changed and one is removed", func(t *testing.T) {
			pod.source.set(published(host, "http://shop:80",
				property{"tunnel-service.api", "http://api-next:80"},
				property{"tunnel-path-prefix.api", "/api"}))
			serves(t, "^/api(/|$) http://api-next:80", " http://shop:80")
		})
		t.Run("the same from objects of their own", func(t *testing.T) {
			one := func(identifier, service string, properties ...property) *endpoint.Endpoint {
				return published(host, service, properties...).WithSetIdentifier(identifier)
			}
			pod.source.set(
				one("shop", "http://shop:80"),
				one("api", "http://api-next:80", property{"tunnel-path-prefix", "/api"}),
				one("images", "http://images:80", property{"tunnel-path", `\.png$`}))
			serves(t, "^/api(/|$) http://api-next:80", `\.png$ http://images:80`, " http://shop:80")
		})
		t.Run("after the last withdrawal only what is foreign is left", func(t *testing.T) {
			pod.source.set()
			pod.settles(t)
			foreign.alone(t)
		})
	})
}
