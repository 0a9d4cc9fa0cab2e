package e2e

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// beside configures a tunnel and the zone as others have them, with origins that answer.
func (e *emulator) beside(t *testing.T, tunnel tunnel, legacy, everything string) {
	t.Helper()
	e.Ask(t, "POST", "/configurations", map[string]any{"tunnel": tunnel.ID, "config": map[string]any{"ingress": []map[string]any{
		{"hostname": "legacy.example.com", "path": "^/private", "service": "http_status:451"},
		{"hostname": "legacy.example.com", "service": legacy},
		{"path": `^/\.well-known/`, "service": "http_status:418"},
		{"hostname": "*.example.com", "service": everything},
		{"service": "http_status:404"},
	}}}, nil)
	e.Ask(t, "POST", "/records", map[string]any{"zone": harness.ZoneName, "posts": []map[string]any{
		{"type": "A", "name": "www", "content": "192.0.2.1", "ttl": 300},
		{"type": "A", "name": "printer.office", "content": "192.0.2.2", "ttl": 300},
		{"type": "CNAME", "name": "legacy", "content": tunnel.Hostname(), "proxied": true, "ttl": 1},
		{"type": "CNAME", "name": "grey", "content": tunnel.Hostname(), "proxied": false, "ttl": 1},
		{"type": "CNAME", "name": "*", "content": tunnel.Hostname(), "proxied": true, "ttl": 1},
	}}, nil)
}

// agree checks that cloudflared and the edge serve every path of every host as the emulator says they do.
func (u *tunnels) agree(t *testing.T, hosts, paths []string) {
	t.Helper()
	for _, host := range hosts {
		for _, path := range paths {
			address, err := url.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			wanted, _, _ := strings.Cut(u.cloudflare.Visit(t, host, address.Path), " through ")
			u.gets(t, host, path, wanted)
		}
	}
}

// Hosts, wildcards, paths and groups, from annotations to the service that answers, beside what others have.
func TestCloudflaredServesWhatIsPublished(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		cloudflare := startEmulator(t)
		home, other := cloudflare.TunnelNeverConfigured(t, "home"), cloudflare.TunnelNeverConfigured(t, "other")
		legacy, everything := startOrigin(t), startOrigin(t)
		cloudflare.beside(t, home, legacy, everything)
		open := connectTunnels(t, cloudflare, home, other)
		foreign := func(t *testing.T) {
			t.Helper()
			open.gets(t, "legacy.example.com", "/", legacy)
			open.gets(t, "legacy.example.com", "/private/x", "http_status:451")
			open.gets(t, "unheard-of.example.com", "/", everything)
			open.gets(t, "unheard-of.example.com", "/.well-known/security.txt", "http_status:418")
			open.gets(t, "deep.unheard-of.example.com", "/", everything)
			open.gets(t, "www.example.com", "/", "A 192.0.2.1")
			open.gets(t, "grey.example.com", "/", "error 1016")
			// A name that exists hides the wildcard, as does one between it and the name.
			open.gets(t, "office.example.com", "/", "NXDOMAIN")
			open.gets(t, "fax.office.example.com", "/", "NXDOMAIN")
		}
		foreign(t)

		pod := deployWith(t, invocation, cloudflare, home.ID+","+other.ID, "MASS_DELETION_LIMIT=0", "MOVE_GRACE="+moveGrace.String())
		web, shop, api, images, wild, deep, apex, far, next := startOrigin(t), startOrigin(t), startOrigin(t), startOrigin(t),
			startOrigin(t), startOrigin(t), startOrigin(t), startOrigin(t), startOrigin(t)
		hosts := []string{"web.example.com", "shop.example.com", "any.wild.example.com", "a.b.wild.example.com",
			"deep.wild.example.com", "wild.example.com", "example.com", "far.example.com", "x.web.example.com",
			"WEB.example.com", "legacy.example.com", "unheard-of.example.com", "grey.example.com", "status.example.com"}
		paths := []string{"/", "/api", "/api/", "/api/users", "/apis", "/API", "/%61pi", "/api%2Fusers", "/./api", "/x/api",
			"/logo.png", "/logo.png/x", "/.well-known/x", "/private", "/%C3%A9.png", "/api?x=/logo.png"}
		publishedAt := func(webService string) {
			pod.source.set(
				published("web.example.com", webService),
				published("shop.example.com", shop,
					property{"tunnel-service.api", api}, property{"tunnel-path-prefix.api", "/api"},
					property{"tunnel-service.images", images}, property{"tunnel-path.images", `\.png$`}),
				published("*.wild.example.com", wild),
				published("deep.wild.example.com", deep),
				published("example.com", apex),
				published("status.example.com", "http_status:503"),
				published("far.example.com", far, property{"tunnel", "other"}))
			pod.settles(t)
			open.arrives(t)
		}

		t.Run("hosts, wildcards, paths and groups are served", func(t *testing.T) {
			publishedAt(web)
			for _, one := range [][3]string{
				{"web.example.com", "/", web}, {"Web.Example.COM", "/any", web},
				{"shop.example.com", "/", shop}, {"shop.example.com", "/apis", shop}, {"shop.example.com", "/API", shop},
				{"shop.example.com", "/api", api}, {"shop.example.com", "/api/users", api}, {"shop.example.com", "/%61pi", api},
				{"shop.example.com", "/logo.png", images}, {"shop.example.com", "/api/logo.png", api},
				{"any.wild.example.com", "/", wild}, {"a.b.wild.example.com", "/", wild}, {"deep.wild.example.com", "/", deep},
				{"wild.example.com", "/", "NXDOMAIN"}, {"x.web.example.com", "/", "NXDOMAIN"},
				{"example.com", "/", apex}, {"far.example.com", "/", far}, {"status.example.com", "/", "http_status:503"},
			} {
				open.gets(t, one[0], one[1], one[2])
			}
			open.agree(t, hosts, paths)
			foreign(t)
		})
		t.Run("a changed service answers", func(t *testing.T) {
			publishedAt(next)
			open.gets(t, "web.example.com", "/", next)
			open.agree(t, hosts, paths)
			foreign(t)
		})
		t.Run("what is withdrawn is served no longer, and the others go on", func(t *testing.T) {
			pod.source.set()
			pod.settles(t)
			open.arrives(t)
			open.gets(t, "web.example.com", "/", everything) // by the wildcard of others, as before
			open.gets(t, "far.example.com", "/", everything)
			open.gets(t, "example.com", "/", "NXDOMAIN")
			open.agree(t, hosts, paths)
			foreign(t)
		})
	})
}

// Cloudflare takes a document with a file that cloudflared cannot read, and cloudflared refuses it as a whole. Only what the
// operator lists can do that, and the log then names the connector.
func TestCloudflaredRefusesADocumentAndTheLogNamesTheConnector(t *testing.T) {
	t.Parallel()
	const missing = "/etc/nowhere/authority.pem"
	cloudflare := startEmulator(t)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	open := connectTunnels(t, cloudflare, home)
	open.refusedFor = missing
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID, "ORIGIN_CA_POOLS="+missing)
	web, next := startOrigin(t), startOrigin(t)
	pod.source.set(published("web.example.com", web))
	pod.settles(t)
	open.arrives(t)
	open.gets(t, "web.example.com", "/", web)

	pod.source.set(published("web.example.com", web),
		published("stop.example.com", "https://stop.shop.svc:443", property{"origin-ca-pool", missing}))
	pod.settles(t)
	open.arrives(t)
	open.gets(t, "web.example.com", "/", web) // by the document before
	pushes := open.Pushes()
	if last := pushes[len(pushes)-1]; !last.IsRefused() {
		t.Errorf("cloudflared took %s", last.Tunnel.Config)
	}
	// The program looks at its connectors every two minutes, and names one that lags at two looks, one after the other.
	harness.EventuallyWithin(t, 5*time.Minute, "the log names the connector", func() error {
		pod.Alive(t)
		if !pod.program.Tells("WARN", "has the connector", "see the log of that cloudflared") {
			return errors.New("it does not")
		}
		return nil
	})
	pod.source.set(published("web.example.com", next))
	pod.settles(t)
	open.arrives(t)
	open.gets(t, "web.example.com", "/", next)
}
