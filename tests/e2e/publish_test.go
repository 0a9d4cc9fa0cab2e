package e2e

import (
	"testing"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The whole life of some hostnames, beside what others have in the same zone and tunnel.
func TestHostnamesArePublishedChangedAndWithdrawn(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation)
		cloudflare := pod.cloudflare

		t.Run("without any source nothing is written and nothing foreign is deleted", func(t *testing.T) {
			pod.settles(t)
			if writes := cloudflare.Writes(t); len(writes) != 0 {
				t.Errorf("written: %v", writes)
			}
			foreign.untouched(t)
		})

		web, api, admin := "web.example.com", "api.example.com", "admin.example.com"
		t.Run("three hostnames are created", func(t *testing.T) {
			pod.source.set(
				published(web, "http://web.shop.svc:8080"),
				published(api, "https://api.shop.svc:8443", property{"origin-no-tls-verify", "true"}),
				published(admin, "http://admin.shop.svc:3000", property{"origin-connect-timeout", "10s"}),
			)
			pod.settles(t)
			cloudflare.Publishes(t, tunnel, web, "http://web.shop.svc:8080", `{}`)
			cloudflare.Publishes(t, tunnel, api, "https://api.shop.svc:8443", `{"noTLSVerify":true}`)
			cloudflare.Publishes(t, tunnel, admin, "http://admin.shop.svc:3000", `{"connectTimeout":10}`)
			foreign.untouched(t)
		})

		t.Run("a service and an origin option are changed", func(t *testing.T) {
			pod.source.set(
				published(web, "http://web-next.shop.svc:8080"),
				published(api, "https://api.shop.svc:8443", property{"origin-no-tls-verify", "true"}),
				published(admin, "http://admin.shop.svc:3000", property{"origin-connect-timeout", "25s"}),
			)
			pod.settles(t)
			cloudflare.Publishes(t, tunnel, web, "http://web-next.shop.svc:8080", `{}`)
			cloudflare.Publishes(t, tunnel, api, "https://api.shop.svc:8443", `{"noTLSVerify":true}`)
			cloudflare.Publishes(t, tunnel, admin, "http://admin.shop.svc:3000", `{"connectTimeout":25}`)
			foreign.untouched(t)
		})

		t.Run("one hostname is withdrawn and the others stay", func(t *testing.T) {
			pod.source.set(
				published(web, "http://web-next.shop.svc:8080"),
				published(api, "https://api.shop.svc:8443", property{"origin-no-tls-verify", "true"}),
			)
			pod.settles(t)
			cloudflare.Withdrew(t, tunnel, admin)
			cloudflare.Publishes(t, tunnel, web, "http://web-next.shop.svc:8080", `{}`)
			cloudflare.Publishes(t, tunnel, api, "https://api.shop.svc:8443", `{"noTLSVerify":true}`)
			foreign.untouched(t)
		})

		t.Run("after the last withdrawal only what is foreign is left", func(t *testing.T) {
			pod.source.set()
			pod.settles(t)
			foreign.alone(t)
		})
	})
}

// What sources other than a plain Ingress yield.
func TestEveryShapeOfEndpointReachesItsFixedPoint(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		cloudflare := startEmulator(t)
		tunnel := cloudflare.TunnelNeverConfigured(t, "fresh")
		foreign := cloudflare.foreign(t, tunnel)
		pod := deployWith(t, invocation, cloudflare, tunnel.ID, "MASS_DELETION_LIMIT=0")

		balanced := addressed("balanced.example.com", property{"tunnel-service", "http://balanced.shop.svc:80"})
		shapes := append(balanced,
			published("*.wild.example.com", "http://wild.shop.svc:80"),
			published("example.com", "http://apex.shop.svc:80"),
			published("Upper.Example.COM", "http://upper.shop.svc:80"),
			published("status.example.com", "http_status:503"),
			annotated(endpoint.NewEndpoint("alias.example.com", endpoint.RecordTypeCNAME, tunnel.Hostname())),
			published("guarded.example.com", "http://guarded.shop.svc:80",
				property{"access-required", "true"},
				property{"access-team-name", "shop"},
				property{"access-aud-tag", "a,b"}),
		)
		pod.source.set(shapes...)
		pod.settles(t)

		t.Run("the A and AAAA of a load balancer become one CNAME", func(t *testing.T) {
			cloudflare.Publishes(t, tunnel, "balanced.example.com", "http://balanced.shop.svc:80", `{}`)
		})
		t.Run("a wildcard is published", func(t *testing.T) {
			cloudflare.Publishes(t, tunnel, "*.wild.example.com", "http://wild.shop.svc:80", `{}`)
		})
		t.Run("the apex is published", func(t *testing.T) {
			cloudflare.Publishes(t, tunnel, "example.com", "http://apex.shop.svc:80", `{}`)
		})
		t.Run("a hostname in upper case is published in lower case", func(t *testing.T) {
			cloudflare.Publishes(t, tunnel, "upper.example.com", "http://upper.shop.svc:80", `{}`)
		})
		t.Run("a service that is no URL is published", func(t *testing.T) {
			cloudflare.Publishes(t, tunnel, "status.example.com", "http_status:503", `{}`)
		})
		t.Run("a target that is the tunnel's own hostname gets a record and no rule", func(t *testing.T) {
			cloudflare.RecordLeadsTo(t, tunnel, "alias.example.com")
			if rules := cloudflare.RulesFor(t, tunnel, "alias.example.com"); len(rules) != 0 {
				t.Errorf("rules: %v", rules)
			}
		})
		t.Run("Cloudflare Access is required where it was asked for", func(t *testing.T) {
			cloudflare.Publishes(t, tunnel, "guarded.example.com", "http://guarded.shop.svc:80",
				`{"access":{"required":true,"teamName":"shop","audTag":["a","b"]}}`)
		})
		t.Run("a tunnel that was never configured ends with a catch-all", func(t *testing.T) {
			rules := cloudflare.Rules(t, tunnel)
			if last := rules[len(rules)-1]; last.Hostname != "" || last.Path != "" || last.Service != "http_status:404" {
				t.Errorf("the last rule is %s", last.Raw)
			}
		})
		t.Run("all of them are withdrawn", func(t *testing.T) {
			pod.source.set()
			pod.settles(t)
			if records := cloudflare.Records(t); len(records) != len(foreign.records) {
				t.Errorf("records: %v", records)
			}
			if rules := cloudflare.Rules(t, tunnel); len(rules) != 1 {
				t.Errorf("rules besides the catch-all: %v", rules)
			}
			foreign.untouched(t)
		})
	})
}

// ExternalDNS asks for a refused hostname in every loop: it must cost nothing and hold up no other hostname.
func TestAHostnameWithAForeignRecordOrRuleIsLeftAlone(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation)
		cloudflare := pod.cloudflare

		free := "free.example.com"
		pod.source.set(
			published("www.example.com", "http://mine.shop.svc:80"),    // an A record
			published("legacy.example.com", "http://mine.shop.svc:80"), // a rule and its CNAME
			published("docs.example.com", "http://mine.shop.svc:80"),   // a CNAME to elsewhere
			published(free, "http://free.shop.svc:80"),
		)
		harness.Eventually(t, "the free hostname is published", func() error {
			pod.Alive(t)
			return cloudflare.IsPublished(t, tunnel, free, "http://free.shop.svc:80", `{}`)
		})
		foreign.untouched(t)

		pod.isRefused(t, cloudflare)
		foreign.untouched(t)
	})
}
