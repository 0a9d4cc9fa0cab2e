package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// got checks what visitors of a host got, one after another.
func got(t *testing.T, host string, seen []string, wanted ...string) {
	t.Helper()
	if !slices.Equal(seen, wanted) {
		t.Errorf("visitors of %s got %q, wanted %q", host, seen, wanted)
	}
}

// The rules of a tunnel are sorted by the length of their hostnames, the shortest first. The first rule that matches
// counts, so a wildcard takes the requests of every name below it.
// https://github.com/STRRL/cloudflare-tunnel-ingress-controller/pull/287
func aWildcardThatShadows(t *testing.T) string {
	const wide, narrow, exact, above = "*.apps.example.com", "*.internal.apps.example.com", "test.apps.example.com", "test.example.com"
	services := map[string]string{
		wide: "http://fallback.shop.svc:80", narrow: "http://internal.shop.svc:80", exact: "http://test.shop.svc:80", above: "http://test.shop.svc:80",
	}
	// Visited hosts, and the hostnames that are for each, the closest first.
	hosts := map[string][]string{
		exact: {exact, wide}, "deep.internal.apps.example.com": {narrow, wide}, "other.apps.example.com": {wide}, "other.example.com": {},
	}
	inOrder := func(t *testing.T, order []string) {
		pod, tunnel, foreign := besideOthers(t, invocation{})
		pod.source.rotate()
		byHand := pod.cloudflare.Visit(t, above, "/")
		through := func(service string) string { return service + " through " + tunnel.ID }
		if byHand != through("http://everything-else:80") {
			t.Fatalf("a visitor of the wildcard made by hand gets %s", byHand)
		}
		wants := func(hostnames ...string) {
			t.Helper()
			var all []*endpoint.Endpoint
			for _, one := range hostnames {
				all = append(all, published(one, services[one]))
			}
			pod.source.set(all...)
			pod.reachesFixedPoint(t)
		}
		// What of ours a visitor of a host has to get while these are published.
		served := func(host string, hostnames ...string) string {
			for _, one := range hosts[host] {
				if slices.Contains(hostnames, one) {
					return through(services[one])
				}
			}
			return ""
		}
		watched := pod.cloudflare.watchAll(t, slices.Sorted(maps.Keys(hosts))...)
		for count := range order {
			wants(order[:count+1]...)
		}
		// All at once after a restart.
		pod.rollOut(t)
		pod.settles(t)
		wants()
		for host, seen := range watched() {
			var wanted []string
			for count := range order {
				if service := served(host, order[:count+1]...); service != "" {
					wanted = append(wanted, service)
				}
			}
			// Before the first and after the last of ours it is the wildcard made by hand, or no name where another is below
			// apps.example.com.
			isOthers := func(one string) bool { return one == byHand || one == "NXDOMAIN" }
			for len(seen) > 0 && isOthers(seen[0]) {
				seen = seen[1:]
			}
			for len(seen) > 0 && isOthers(seen[len(seen)-1]) {
				seen = seen[:len(seen)-1]
			}
			got(t, host, seen, slices.Compact(wanted)...)
		}
		// In front of the wildcard that was made by hand, too.
		wants(wide, above)
		got(t, above, []string{pod.cloudflare.Visit(t, above, "/")}, through(services[above]))
		foreign.untouched(t)
	}
	t.Run("in whatever order", func(t *testing.T) {
		for _, order := range [][]string{
			{wide, narrow, exact}, {wide, exact, narrow}, {narrow, wide, exact}, {narrow, exact, wide}, {exact, wide, narrow}, {exact, narrow, wide},
		} {
			t.Run(strings.Join(order, " "), func(t *testing.T) {
				t.Parallel()
				inOrder(t, order)
			})
		}
	})
	return "In whatever order they come and after a restart: the name itself, then the narrower wildcard, then the wider one, " +
		"also before a wildcard made by hand. As they come, no visitor meets another service in between"
}

// A second cluster is set up with the tunnel of the first one. Its controller takes the whole configuration for its own,
// and only one cluster's hostnames are there.
// https://github.com/STRRL/cloudflare-tunnel-ingress-controller/issues/97
func twoClustersWithOneTunnel(t *testing.T) string {
	const count = 7
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfOthers(t, "shared")
	foreign := cloudflare.foreign(t, tunnel)
	cluster := func(owner string) (*deployment, []*endpoint.Endpoint) {
		var all []*endpoint.Endpoint
		for number := range count {
			all = append(all, published(fmt.Sprintf("%s-%d.example.com", owner, number), "http://"+owner+".svc:80"))
		}
		invocation := invocation{registry: txt, flags: []string{"--txt-owner-id=" + owner}}
		return deployWith(t, invocation, cloudflare, tunnel.ID, "OWNER_ID="+owner), all
	}
	served := func(hostnames []*endpoint.Endpoint, owner string) {
		t.Helper()
		for _, one := range hostnames {
			if err := cloudflare.IsPublishedBy(t, owner, tunnel, one.DNSName, "http://"+owner+".svc:80", `{}`); err != nil {
				t.Error(err)
			}
		}
	}
	east, ofEast := cluster("east")
	east.source.set(ofEast...)
	east.settles(t)
	var hosts []string
	for _, one := range ofEast {
		hosts = append(hosts, one.DNSName)
	}
	watched := cloudflare.watchAll(t, hosts...)

	west, ofWest := cluster("west")
	west.source.set(ofWest...)
	both := func() {
		t.Helper()
		west.reachesFixedPoint(t)
		east.reachesFixedPoint(t)
		west.staysQuiet(t, cloudflare)
		east.staysQuiet(t, cloudflare)
	}
	both()
	served(ofEast, "east")
	served(ofWest, "west")
	// What one has, the other is refused.
	west.source.set(append(ofWest, published(hosts[0], "http://west.svc:80"))...)
	west.isRefused(t, cloudflare)
	if lines := west.program.Lines("refused=record_held", hosts[0], "owner=east"); lines != 1 {
		t.Errorf("that another cluster has it is told %d times", lines)
	}
	west.source.set(ofWest[:3]...)
	both()
	served(ofEast, "east")
	served(ofWest[:3], "west")
	for host, seen := range watched() {
		got(t, host, seen, "http://east.svc:80 through "+tunnel.ID)
	}
	foreign.untouched(t)
	return "With an `OWNER_ID` each, both have their hostnames in the one tunnel. A withdrawal in one takes nothing from the " +
		"other, and a hostname of the other is refused by name"
}

// Both clusters have every default, and so one OWNER_ID: each takes the other's hostnames for hostnames of its own that
// no object wants. ExternalDNS itself does the same to two clusters with one --txt-owner-id.
// https://github.com/STRRL/cloudflare-tunnel-ingress-controller/issues/97
func twoClustersWithOneOwner(t *testing.T) string {
	const count = 3
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfOthers(t, "shared")
	foreign := cloudflare.foreign(t, tunnel)
	cluster := func(name string) *deployment {
		var all []*endpoint.Endpoint
		for number := range count {
			all = append(all, published(fmt.Sprintf("%s-%d.example.com", name, number), "http://"+name+".svc:80"))
		}
		pod := deployWith(t, invocation{registry: txt}, cloudflare, tunnel.ID)
		pod.source.set(all...)
		return pod
	}
	var hosts []string
	for number := range count {
		hosts = append(hosts, fmt.Sprintf("east-%d.example.com", number), fmt.Sprintf("west-%d.example.com", number))
	}
	watched := cloudflare.watchAll(t, hosts...)
	east := cluster("east")
	east.settles(t)
	west := cluster("west")
	harness.Eventually(t, "what is not kept is named", func() error {
		east.Alive(t)
		west.Alive(t)
		for number := range count {
			for _, cluster := range []string{"east", "west"} {
				hostname := fmt.Sprintf("%s-%d.example.com", cluster, number)
				if !east.program.Tells("refused=not_kept", hostname) && !west.program.Tells("refused=not_kept", hostname) {
					return errors.New(hostname + " is not")
				}
			}
		}
		return nil
	})
	writes := len(cloudflare.Writes(t))
	east.awaitLoops(t, askingLoops)
	west.awaitLoops(t, askingLoops)
	if now := len(cloudflare.Writes(t)); now != writes {
		t.Errorf("%d further writes", now-writes)
	}
	for host, seen := range watched() {
		// After its own service a foreign one, because the other cluster has taken the hostname down.
		own := "http://" + host[:len("east")] + ".svc:80 through " + tunnel.ID
		first := slices.Index(seen, own)
		if first < 0 || !slices.ContainsFunc(seen[first:], func(one string) bool { return one != own }) {
			t.Errorf("%s was not taken down: visitors got %q", host, seen)
		}
	}
	foreign.untouched(t)
	return "**They take each other's hostnames down**, as two ExternalDNS with one `--txt-owner-id` do. `refused=not_kept` names " +
		"each hostname, and from then on nothing is written in the loops that follow. Give each cluster an `OWNER_ID`, better a tunnel too"
}

// Beside each hostname a TXT record appears that names its owner. The dashboard shows it without a word of what it is,
// and no setting turns it off. https://github.com/STRRL/cloudflare-tunnel-ingress-controller/issues/293
func unwantedTexts(t *testing.T) string {
	pod, tunnel, foreign := besideOthers(t, invocation{registry: txt})
	all := []*endpoint.Endpoint{
		published("web.example.com", "http://web.shop.svc:80"), published("*.apps.example.com", "http://apps.shop.svc:80"),
	}
	watched := pod.cloudflare.watchAll(t, "web.example.com", "any.apps.example.com")
	pod.source.set(all...)
	pod.settles(t)
	for _, one := range foreign.added(t) {
		if one.Type != "CNAME" || one.Comment == "" {
			t.Errorf("there is %s", one)
		}
	}
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
	seen, byHand := watched(), "http://everything-else:80 through "+tunnel.ID
	got(t, "web.example.com", seen["web.example.com"], byHand, "http://web.shop.svc:80 through "+tunnel.ID, byHand)
	got(t, "*.apps.example.com", seen["any.apps.example.com"], byHand, "http://apps.shop.svc:80 through "+tunnel.ID, byHand)
	return "None is made: the record's comment names its owner"
}

// A tunnel is made whenever nothing local says that it was made before: after a lost answer, by a second replica, in a
// cluster that was made anew. Either there are two, or the name is taken and nothing is made ever again.
// https://github.com/adyanth/cloudflare-operator/issues/179
func aTunnelMadeTwice(t *testing.T) string {
	const name, replicas, host, service = "home", 3, "web.example.com", "http://web.shop.svc:80"
	cloudflare := &emulator{harness.StartEmulator(t, "--without-tunnels")}
	// The list shows it late, too.
	cloudflare.Ask(t, "POST", "/delays", map[string]any{"unlisted_calls": 2, "unlisted_ms": 300}, nil)
	cloudflare.inject(t, fault{method: "POST", path: "/accounts/*/cfd_tunnel", what: "done_but_unanswered", once: true})
	environment := []string{"CF_API_TOKEN=" + cloudflare.Token, "CF_TUNNEL_ID=" + name}
	folder := t.TempDir()
	start := func() (files []string) {
		t.Helper()
		var running []*harness.Process
		for number := range replicas {
			files = append(files, filepath.Join(folder, fmt.Sprintf("token-%d", number)))
			running = append(running, harness.RunProgram(t, cloudflare.Emulator, environment, "tunnel", "--token-file="+files[number]))
		}
		for _, one := range running {
			if code := one.ExitCode(t); code != 0 {
				t.Errorf("it ended with %d: %s", code, one.Output(t))
			}
		}
		return files
	}
	one := func() tunnel {
		t.Helper()
		made := cloudflare.State(t).Tunnels
		if len(made) != 1 {
			t.Fatalf("there are the tunnels %v", made)
		}
		return tunnel{ID: made[0].ID}
	}
	files := start()
	home := one()
	for _, file := range files {
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if connected, err := cloudflare.Connect(string(token)); err != nil || connected != home {
			t.Errorf("with the token of %s: %v, %v", file, connected, err)
		}
	}
	pod := deployWith(t, invocation{}, cloudflare, name)
	pod.source.set(published(host, service))
	pod.settles(t)
	cloudflare.Publishes(t, home, host, service, `{}`)
	watched := cloudflare.watch(t, host)
	start()
	if again := one(); again != home {
		t.Errorf("another tunnel: %v", again)
	}
	pod.settles(t)
	got(t, host, watched(), service+" through "+home.ID)
	return fmt.Sprintf("%d replicas start at once, the answer to the first POST is lost, and the list shows the tunnel late: "+
		"there is one, each replica has its token, and a hostname is served through it. Started again, they find it", replicas)
}

// byHand adds a rule before the catch-all, as the dashboard does. The others keep their bytes.
func (e *emulator) byHand(t *testing.T, tunnel tunnel, rule string) {
	t.Helper()
	document, rules := string(e.Document(t, tunnel)), e.Rules(t, tunnel)
	place := strings.LastIndex(document, rules[len(rules)-1].String())
	text := `{"tunnel": "` + tunnel.ID + `", "config": ` + document[:place] + rule + "," + document[place:] + "}"
	e.AskRaw(t, "POST", "/configurations", []byte(text), nil)
}

// A tunnel has rules that came from containers' labels and rules that were made by hand. When a container starts anew, its
// agent writes the configuration from labels alone, and the hostnames made by hand are gone.
// https://github.com/ChrispyBacon-dev/DockFlare/issues/386
func rulesByHandThatAreWiped(t *testing.T) string {
	const plex, rule = "plex.example.com", `{"hostname":"plex.example.com","service":"http://192.168.1.20:32400","id":"7"}`
	cloudflare := startEmulator(t)
	tunnel := cloudflare.TunnelNeverConfigured(t, "nas")
	pod := deployWith(t, invocation{}, cloudflare, tunnel.ID)
	sonarr, radarr := published("sonarr.example.com", "http://sonarr:8989"), published("radarr.example.com", "http://radarr:7878")
	pod.source.set(sonarr, radarr)
	pod.settles(t)
	cloudflare.byHand(t, tunnel, rule)
	cloudflare.Ask(t, "POST", "/records", map[string]any{"zone": harness.ZoneName, "posts": []map[string]any{
		{"type": "CNAME", "name": plex, "content": tunnel.Hostname(), "proxied": true, "ttl": 1},
	}}, nil)
	before := cloudflare.RecordsFor(t, plex)
	watched := cloudflare.watch(t, plex)
	unharmed := func() {
		t.Helper()
		if rules := cloudflare.RulesFor(t, tunnel, plex); len(rules) != 1 || string(rules[0].Raw) != rule {
			t.Errorf("the rule made by hand is %v", rules)
		}
		if records := cloudflare.RecordsFor(t, plex); len(records) != 1 || records[0].String() != before[0].String() {
			t.Errorf("the record made by hand is %v", records)
		}
	}
	// It starts anew, changes, goes and comes, and so does the program.
	for _, wanted := range [][]*endpoint.Endpoint{
		{radarr}, {sonarr, radarr}, {published("sonarr.example.com", "http://sonarr:9999"), radarr}, {},
	} {
		pod.source.set(wanted...)
		pod.settles(t)
		unharmed()
	}
	pod.source.set(sonarr)
	pod.rollOut(t)
	pod.settles(t)
	unharmed()
	got(t, plex, watched(), "http://192.168.1.20:32400 through "+tunnel.ID)
	return "Containers come, change and go and the program starts anew: rule and record made by hand stay byte for byte, and " +
		"their visitors notice nothing"
}

// An object names an Access policy that is not there. The hostname's application, which has others, is written without any
// policy.
// https://github.com/ChrispyBacon-dev/DockFlare/issues/399
func anUnknownPolicyThatStripsTheOthers(t *testing.T) string {
	const host, byHand, service, unknown = "web.example.com", "home.example.com", "http://web.shop.svc:80", "authenticated-default"
	pod, tunnel, foreign := besideOthers(t, invocation{})
	cloudflare := pod.cloudflare
	cloudflare.SetUpAccess(t)
	cloudflare.protects(t, byHand)
	with := func(hostname, policies string) *endpoint.Endpoint {
		return published(hostname, service, property{"access-policy", policies})
	}
	pod.source.set(with(host, "staff, on-call"))
	pod.settles(t)
	applications := cloudflare.applications(t)
	if len(applications) != 2 {
		t.Fatalf("the applications are %q", applications)
	}
	watched := cloudflare.watchAll(t, host, byHand)
	cloudflare.isClosed(t, host, "/")
	cloudflare.isClosed(t, byHand, "/")
	closed := [2]string{cloudflare.Visit(t, host, "/"), cloudflare.Visit(t, byHand, "/")}

	pod.source.set(with(host, "staff, "+unknown), with(byHand, unknown), published("other.example.com", service))
	harness.Eventually(t, "the others are done", func() error {
		pod.Alive(t)
		return cloudflare.IsPublished(t, tunnel, "other.example.com", service, `{}`)
	})
	pod.isRefused(t, cloudflare)
	cloudflare.hasApplications(t, applications...)
	for _, hostname := range []string{host, byHand} {
		if lines := pod.program.Lines(`hostname="`+hostname+`"`, "refused=access_policy", unknown, `there are "on-call", "staff"`); lines != 1 {
			t.Errorf("the unknown policy of %s is told %d times", hostname, lines)
		}
	}
	cloudflare.Withdrew(t, tunnel, byHand)
	seen := watched()
	got(t, host, seen[host], closed[0])
	got(t, byHand, seen[byHand], closed[1])
	foreign.untouched(t)
	return "Refused by name (`refused=access_policy`), with the policies that there are. The application keeps its policies, also one " +
		"made by hand; no visitor gets in without a login at any time, and the other hostnames of the loop are done"
}

// Several teams deploy to one cluster and share a tunnel. Its configuration has one author only, because the one call that
// changes it replaces all of it, so no team can keep its own rules by itself.
// https://github.com/cloudflare/cloudflared/issues/1437
func severalTeamsWithOneTunnel(t *testing.T) string {
	pod, tunnel, foreign := besideOthers(t, invocation{}, "NAMESPACE_GUARD=true")
	cloudflare := pod.cloudflare
	service := func(team string) string { return "http://web." + team + ".svc:80" }
	of := func(team, hostname, service string, properties ...property) *endpoint.Endpoint {
		return from("ingress/"+team+"/"+hostname, published(hostname, service, properties...))
	}
	host := func(team string) string { return team + ".example.com" }
	own := func(team string) *endpoint.Endpoint { return of(team, host(team), service(team)) }
	pod.source.set(own("red"), own("green"), own("blue"))
	pod.settles(t)
	watched := cloudflare.watchAll(t, host("red"), host("green"), host("blue"))

	// One changes its service, one makes a mistake, one asks for another's hostname and service. A fourth works by hand.
	cloudflare.byHand(t, tunnel, `{"hostname":"terraform.example.com","service":"http://10.0.0.4:80"}`)
	pod.source.set(
		of("red", host("red"), "http://next.red.svc:80"),
		of("green", host("green"), service("green"), property{"tunel-service", "http://other.green.svc:80"}),
		own("blue"),
		of("blue", host("green"), service("blue")),
		of("blue", "stolen.example.com", service("red")),
	)
	harness.Eventually(t, "the one that made no mistake has its change", func() error {
		pod.Alive(t)
		return cloudflare.IsPublished(t, tunnel, host("red"), "http://next.red.svc:80", `{}`)
	})
	pod.isRefused(t, cloudflare)
	for _, told := range [][]string{
		{`hostname="` + host("green") + `"`, "refused=invalid", "tunel-service"},
		{`hostname="` + host("green") + `"`, "ingress/blue/", "is not published: ingress/green/"},
		{`hostname="stolen.example.com"`, "refused=invalid", "NAMESPACE_GUARD is on"},
	} {
		if lines := pod.program.Lines(told...); lines == 0 {
			t.Errorf("nothing tells %q", told)
		}
	}
	pod.source.set(own("green"), own("blue"))
	pod.settles(t)
	seen := watched()
	got(t, host("red"), seen[host("red")][:2], service("red")+" through "+tunnel.ID, "http://next.red.svc:80 through "+tunnel.ID)
	got(t, host("green"), seen[host("green")], service("green")+" through "+tunnel.ID)
	got(t, host("blue"), seen[host("blue")], service("blue")+" through "+tunnel.ID)
	cloudflare.Withdrew(t, tunnel, "stolen.example.com")
	if rules := cloudflare.RulesFor(t, tunnel, "terraform.example.com"); len(rules) != 1 {
		t.Errorf("the rule made by hand meanwhile is %v", rules)
	}
	foreign.untouched(t)
	return "Each object is its team's own slice; `NAMESPACE_GUARD` keeps hostnames and services apart. A change, a mistake, a theft and " +
		"a rule made by hand at once: each has its own effect only, and visitors of the others notice nothing"
}
