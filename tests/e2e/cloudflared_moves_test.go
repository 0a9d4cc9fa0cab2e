package e2e

import (
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"
)

// The same as of any move, for a hostname whose path is reworded in the same step, however old its record is.
func TestCloudflaredServesEveryVisitorWhileAPathIsRewordedInAMove(t *testing.T) {
	t.Parallel()
	withEachAge(t, func(t *testing.T, age time.Duration) {
		site := beVisited(t)
		web, api := startOrigin(t), startOrigin(t)
		const host = "web.example.com"
		to := func(name, path string) *endpoint.Endpoint {
			return published(host, web,
				property{"tunnel", name}, property{"tunnel-service.api", api}, property{"tunnel-path.api", path})
		}
		site.becomes(t, to("home", "^/api/"))
		site.cloudflare.passTime(t, age)
		site.slowly()
		root, below := site.open.sendCrowd(host, "/"), site.open.sendCrowd(host, "/api/users")
		site.becomes(t, to("away", "^/api(/|$)"))
		site.hasMoved(t, host, site.home, site.away)
		root.end()
		below.end()
		root.wasServed(t, web)
		below.wasServed(t, api)
	})
}
