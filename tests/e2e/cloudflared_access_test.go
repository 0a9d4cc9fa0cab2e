package e2e

import (
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

const team = "my-team"

// loggedIn is a visitor that has gone through the login of Access.
func loggedIn(request *http.Request) {
	request.AddCookie(&http.Cookie{Name: "CF_Authorization", Value: "of-the-team"})
}

// withToken is a visitor whose request has a token as Access gives it, in the header that cloudflared looks at.
func (u *tunnels) withToken(t *testing.T, team, audience string, expires time.Time) func(*http.Request) {
	t.Helper()
	token, err := u.Token(team, audience, expires)
	if err != nil {
		t.Fatal(err)
	}
	return func(request *http.Request) { request.Header.Set("Cf-Access-Jwt-Assertion", token) }
}

// Where a rule requires Access, cloudflared itself lets no visitor past without a token of one of the rule's audiences.
func TestCloudflaredRefusesAVisitorWithoutATokenOfTheRulesAudience(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	open := connectTunnels(t, cloudflare, home)
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID)
	web, admin, free := startOrigin(t), startOrigin(t), startOrigin(t)
	required := []property{{"access-required", "true"}, {"access-team-name", team}, {"access-aud-tag", "first,second"}}
	group := []property{{"access-required.admin", "true"}, {"access-team-name.admin", team}, {"access-aud-tag.admin", "third"},
		{"tunnel-service.admin", admin}, {"tunnel-path-prefix.admin", "/admin"}}
	pod.source.set(published("web.example.com", web, required...), published("part.example.com", free, group...),
		published("fixed.example.com", "http_status:204", required...))
	pod.settles(t)
	open.arrives(t)

	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	first, second := open.withToken(t, team, "first", later), open.withToken(t, team, "second", later)
	third := open.withToken(t, team, "third", later)
	for _, one := range []struct {
		name, host, path, wanted string
		with                     func(*http.Request)
	}{
		{"without a token", "web.example.com", "/", "http_status:403", func(*http.Request) {}},
		{"with a cookie alone", "web.example.com", "/", "http_status:403", loggedIn},
		{"with a token of an audience", "web.example.com", "/", web, first},
		{"with a token of another of its audiences", "web.example.com", "/", web, second},
		{"with a token of a third one", "web.example.com", "/", "http_status:403", third},
		{"with a token that has expired", "web.example.com", "/", "http_status:502", open.withToken(t, team, "first", before)},
		{"with a token of another team", "web.example.com", "/", "http_status:502", open.withToken(t, "their-team", "first", later)},
		{"with no token at all", "web.example.com", "/", "http_status:502", func(request *http.Request) {
			request.Header.Set("Cf-Access-Jwt-Assertion", "word")
		}},
		{"at a fixed answer without a token", "fixed.example.com", "/", "http_status:403", func(*http.Request) {}},
		{"at a fixed answer with a token", "fixed.example.com", "/", "http_status:204", first},
		{"below the path without a token", "part.example.com", "/admin/users", "http_status:403", func(*http.Request) {}},
		{"below the path with a token", "part.example.com", "/admin/users", admin, third},
		{"beside the path", "part.example.com", "/administration", free, func(*http.Request) {}},
	} {
		t.Run(one.name, func(t *testing.T) { open.gets(t, one.host, one.path, one.wanted, one.with) })
	}
}

// A hostname with a policy has two locks, and the second holds when the first is opened by hand.
func TestCloudflaredHoldsAHostnameWhoseApplicationIsGone(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	cloudflare.SetUpAccess(t)
	include := []any{map[string]any{"everyone": map[string]any{}}}
	cloudflare.Ask(t, "POST", "/policies", map[string]any{"name": "past", "decision": "bypass", "include": include}, nil)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	open := connectTunnels(t, cloudflare, home)
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID)
	web, free := startOrigin(t), startOrigin(t)
	const host = "web.example.com"
	pod.source.set(published(host, web, property{"access-policy", "staff"}), published("free.example.com", free))
	pod.settles(t)
	open.arrives(t)
	turnedAway := func(t *testing.T) {
		t.Helper()
		got, err := open.visit(host, "/")
		if err != nil || got.status != http.StatusFound || got.header.Get("Location") == "" {
			t.Errorf("a visitor gets %d %s %v", got.status, got, err)
		}
	}

	t.Run("the login is asked for, and a visitor with one is served", func(t *testing.T) {
		turnedAway(t)
		if got := open.gets(t, host, "/", web, loggedIn); !got.met.HasAssertion {
			t.Error("the origin met no token")
		}
		open.gets(t, "free.example.com", "/", free)
	})
	// The program would mend in its next loop what others do now.
	pod.externalDNS.Stop(t)
	var state struct {
		Access struct {
			Applications []struct {
				Application map[string]any `json:"application"`
			} `json:"applications"`
			Policies []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"policies"`
		} `json:"access"`
	}
	cloudflare.Ask(t, "GET", "/state", nil, &state)
	if len(state.Access.Applications) != 1 {
		t.Fatalf("the applications are %v", state.Access.Applications)
	}
	application := state.Access.Applications[0].Application
	t.Run("the application is edited to let all visitors past", func(t *testing.T) {
		var bypass string
		for _, policy := range state.Access.Policies {
			if policy.Name == "past" {
				bypass = policy.ID
			}
		}
		open.gets(t, "free.example.com", "/", free)
		cloudflare.Ask(t, "POST", "/applications", map[string]any{"id": application["id"], "application": map[string]any{
			"type": "self_hosted", "name": application["name"], "domain": application["domain"],
			"destinations": application["destinations"], "tags": application["tags"], "policies": []any{bypass},
		}}, nil)
		open.arrives(t)
		open.gets(t, host, "/", "http_status:403")
		open.gets(t, host, "/", "http_status:403", loggedIn)
	})
	t.Run("the application is deleted by hand", func(t *testing.T) {
		cloudflare.Ask(t, "POST", "/applications", map[string]any{"id": application["id"], "delete": true}, nil)
		open.arrives(t)
		open.gets(t, host, "/", "http_status:403")
	})
	t.Run("the program makes it anew, and its tokens are let in", func(t *testing.T) {
		pod.rollOut(t)
		harness.Eventually(t, "there is an application", func() error {
			got, err := open.visit(host, "/")
			if err == nil && got.status != http.StatusFound {
				err = http.ErrNoLocation
			}
			return err
		})
		pod.settles(t)
		open.arrives(t)
		turnedAway(t)
		open.gets(t, host, "/", web, loggedIn)
	})
}

// From before it is published until it is withdrawn, a protected hostname is served to no visitor without a login,
// however long its application, its rule and its record take to the edge; and to all visitors with one, once it is
// published.
func TestCloudflaredLetsNoVisitorPastTheLoginWhileAProtectedHostnameChanges(t *testing.T) {
	t.Parallel()
	site := beVisited(t)
	site.cloudflare.SetUpAccess(t)
	one, two, admin := startOrigin(t), startOrigin(t), startOrigin(t)
	const host = "web.example.com"
	with := func(service, policies, tunnel string, more ...property) []*endpoint.Endpoint {
		return []*endpoint.Endpoint{published(host, service, append(more, property{"access-policy", policies}, property{"tunnel", tunnel})...)}
	}
	site.becomes(t)
	site.slowly()
	without := []*crowd{site.open.sendCrowd(host, "/"), site.open.sendCrowd(host, "/admin/users")}
	site.becomes(t, with(one, "staff", "home")...)
	loggedInThere := site.open.sendCrowd(host, "/", loggedIn)
	for _, change := range [][]*endpoint.Endpoint{
		with(two, "staff", "home"),
		with(two, "staff, on-call", "home"),
		with(two, "on-call", "home", property{"tunnel-service.admin", admin}, property{"tunnel-path-prefix.admin", "/admin"}),
		with(two, "on-call", "away", property{"tunnel-service.admin", admin}, property{"tunnel-path-prefix.admin", "/admin"}),
		with(one, "on-call", "away"),
	} {
		site.becomes(t, change...)
	}
	site.hasMoved(t, host, site.home, site.away)
	loggedInThere.end()
	loggedInThere.wasServed(t, one, two)
	site.becomes(t)
	for _, sent := range without {
		sent.end()
		t.Log(sent)
		for _, service := range []string{one, two, admin} {
			if count := sent.served[service]; count > 0 {
				t.Errorf("%d visitors of %s without a login were served by %s", count, sent.address, service)
			}
		}
		// Before it is published and after, others serve it.
		if sent.served[site.everything] == 0 || len(sent.failures) == 0 {
			t.Errorf("%s: no visitor was served by others, or none was turned away", sent)
		}
	}
}

// A new hostname has to stand behind a rule of others, and would take the wildcard's rule along: visitors of the wildcard would
// be led to the others, past their check. It is refused until that rule is gone.
func TestCloudflaredKeepsTheCheckOfAWildcardInFrontOfARuleOfOthers(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	open := connectTunnels(t, cloudflare, home)
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID)
	admin, web, theirs := startOrigin(t), startOrigin(t), startOrigin(t)
	const elsewhere, path = "any.example.com", "/admin/old"
	wide := published("*.example.com", admin, property{"tunnel-path-prefix", "/admin"},
		property{"access-required", "true"}, property{"access-team-name", team}, property{"access-aud-tag", "admins"})
	token := open.withToken(t, team, "admins", time.Now().Add(time.Hour))
	isChecked := func(t *testing.T) {
		t.Helper()
		open.arrives(t)
		open.gets(t, elsewhere, path, "http_status:403")
		open.gets(t, elsewhere, path, admin, token)
	}
	pod.source.set(wide)
	pod.settles(t)
	alone := cloudflare.Document(t, home)
	cloudflare.byHand(t, home, `{"path":"^/admin/old","service":"`+theirs+`"}`)
	isChecked(t)

	pod.source.set(wide, published("new.example.com", web))
	pod.awaitLoops(t, 2)
	isChecked(t)
	if !pod.program.Tells("refused=rule_conflict", "new.example.com", "which requires a login") {
		t.Error("nothing is told of the hostname that is refused")
	}
	cloudflare.Ask(t, "POST", "/configurations", map[string]any{"tunnel": home.ID, "config": alone}, nil)
	pod.settles(t)
	isChecked(t)
	open.gets(t, "new.example.com", "/", web)
}

// A wider place opens while a part of it asks for a login of its own from then on, and then the other way round.
// However long applications, rules and records take to the edge, no visitor of that part is served without a login.
func TestCloudflaredLetsNoVisitorPastTheLoginOfAPartWhileTheWholeOpensAndCloses(t *testing.T) {
	t.Parallel()
	staff, none := property{"access-policy", "staff"}, property{"access-policy", "none"}
	for _, pair := range []struct {
		name, host, path string
		asked            func(whole, part string, isOpen bool) []*endpoint.Endpoint
	}{
		{"a name below a wildcard", "web.wild.example.com", "/", func(whole, part string, isOpen bool) []*endpoint.Endpoint {
			if isOpen {
				return []*endpoint.Endpoint{published("*.wild.example.com", whole, none), published("web.wild.example.com", part, staff)}
			}
			return []*endpoint.Endpoint{published("*.wild.example.com", whole, staff), published("web.wild.example.com", part)}
		}},
		{"a path of a hostname", "web.example.com", "/admin/users", func(whole, part string, isOpen bool) []*endpoint.Endpoint {
			group := []property{{"tunnel-service.admin", part}, {"tunnel-path-prefix.admin", "/admin"}}
			if isOpen {
				group = append(group, none, property{"access-policy.admin", "staff"})
			} else {
				group = append(group, staff)
			}
			return []*endpoint.Endpoint{published("web.example.com", whole, group...)}
		}},
	} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			site := beVisited(t)
			site.cloudflare.SetUpAccess(t)
			whole, part := startOrigin(t), startOrigin(t)
			site.becomes(t, pair.asked(whole, part, false)...)
			site.slowly()
			without := site.open.sendCrowd(pair.host, pair.path)
			with := site.open.sendCrowd(pair.host, pair.path, loggedIn)
			for _, isOpen := range []bool{true, false} {
				site.becomes(t, pair.asked(whole, part, isOpen)...)
				site.open.gets(t, pair.host, pair.path, part, loggedIn)
			}
			for _, sent := range []*crowd{without, with} {
				sent.end()
			}
			without.wasServedBy(t)
			with.wasServedBy(t, part)
		})
	}
}
