package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// odd is an object that a user of the cluster may write.
type odd struct {
	text       string // what is odd about it
	host       string
	service    string
	properties []property
	field      string // of originRequest, that an option has to be in unless the log tells why not
	renamed    bool   // whether its host may stand in the rule in another form
}

// Whatever objects say, cloudflared takes the document: one that it refuses would keep every later change of the whole tunnel from
// its visitors. What is not published is told with its reason.
func TestCloudflaredTakesEveryDocumentThatOddObjectsMake(t *testing.T) {
	t.Parallel()
	plain := func(number int) (host, service string) {
		return fmt.Sprintf("odd-%03d.example.com", number), fmt.Sprintf("http://odd-%03d.shop.svc:80", number)
	}
	var services, paths, hosts, options []odd
	for number, service := range oddServices {
		host, _ := plain(number)
		services = append(services, odd{text: service, host: host, service: service})
	}
	for number, path := range oddPaths {
		host, _ := plain(number)
		// A visitor sees by the status whether the path was matched; the last rule answers 404.
		status := fmt.Sprintf("http_status:%d", 405+number)
		paths = append(paths, odd{text: path, host: host, service: status, properties: []property{{"tunnel-path", path}}},
			odd{text: path, host: "prefix-" + host, service: status, properties: []property{{"tunnel-path-prefix", path}}})
	}
	for number, host := range oddHosts {
		_, service := plain(number)
		hosts = append(hosts, odd{text: host, host: host, service: service, renamed: true})
	}
	for number, option := range oddOptions {
		host, service := plain(number)
		options = append(options, odd{text: option[0] + ": " + option[1], host: host, service: service,
			properties: []property{{option[0], option[1]}}, field: option[2]})
	}
	published := 0
	for _, kind := range []struct {
		name            string
		odds            []odd
		leastTaken      int
		leastNotAsAsked int
		visited         []string // paths at which cloudflared does what the emulator says it does
	}{
		{"services", services, 25, 30, nil},
		{"paths", paths, 40, 30, []string{"/", "/api", "/api/users", "/API", "/a%20b", "/%C3%A4", "/a.png", "/a.b", "/aa", "/aab",
			"/12", "/%CE%B1", "/a%0A", "/a%00", "/b|a", "/a?b", "/x/a"}},
		{"hosts", hosts, 10, 10, nil},
		{"options", options, 25, 25, nil},
	} {
		published += len(kind.odds)
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			taken, notAsAsked := publishOdd(t, kind.odds, kind.visited)
			t.Logf("of %d odd %s cloudflared took %d, and of %d the log says why they are not as asked",
				len(kind.odds), kind.name, taken, notAsAsked)
			if taken < kind.leastTaken || notAsAsked < kind.leastNotAsAsked {
				t.Errorf("that is less than the %d and %d that the test is worth having for", kind.leastTaken, kind.leastNotAsAsked)
			}
		})
	}
	if published < 200 {
		t.Errorf("%d odd objects", published)
	}
}

// isOrdinary says whether a target cannot be told from that of an ordinary record.
func isOrdinary(target string) bool { return target == "none" || target == "a" }

// publishOdd asks for all of them at once, beside a hostname that is like any other, and visits paths of what is published. It
// says how many cloudflared serves, and of how many the log says something.
func publishOdd(t *testing.T, odds []odd, visited []string) (taken, told int) {
	t.Helper()
	cloudflare := startEmulator(t)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	open := connectTunnels(t, cloudflare, home)
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID, "LOG_LEVEL=info")
	web, next := startOrigin(t), startOrigin(t)
	endpoints := []*endpoint.Endpoint{published("plain.example.com", web)}
	resource := func(number int) string { return fmt.Sprintf("ingress/odd/number-%03d", number) }
	for number, one := range odds {
		// Other sources than an Ingress let anything be a name.
		made := &endpoint.Endpoint{DNSName: one.host, RecordType: endpoint.RecordTypeCNAME,
			Targets: endpoint.Targets{one.service}, Labels: endpoint.NewLabels()}
		made = annotated(made, one.properties...)
		made.Labels[endpoint.ResourceLabelKey] = resource(number)
		endpoints = append(endpoints, made)
	}
	pod.source.set(endpoints...)
	harness.Eventually(t, "the plain hostname is published", func() error {
		pod.Alive(t)
		return cloudflare.IsPublished(t, home, "plain.example.com", web, `{}`)
	})
	pod.awaitLoops(t, 2)
	open.arrives(t)
	open.gets(t, "plain.example.com", "/", web)

	log := pod.program.Output(t)
	rules := cloudflare.Rules(t, home)
	for number, one := range odds {
		reason := fmt.Sprintf("resource=%q", resource(number))
		isTold := slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
			return strings.Contains(line, reason) && (strings.Contains(line, "WARN") || strings.Contains(line, "ERROR"))
		})
		rule := slices.IndexFunc(rules, func(rule rule) bool {
			return rule.Hostname == one.host || one.renamed && rule.Service == one.service
		})
		var options map[string]any
		if rule >= 0 {
			taken++
			open.agree(t, []string{one.host}, visited)
			if text := rules[rule].OriginRequest; text != nil {
				if err := json.Unmarshal(text, &options); err != nil {
					t.Fatal(err)
				}
			}
		}
		if isTold {
			told++
		}
		_, isSet := options[one.field]
		isAsAsked := rule >= 0 && (isSet || one.field == "")
		if isOrdinary(one.service) {
			// Its target may be that of any record, so it is none of the program's business.
			isAsAsked = rule < 0 && len(cloudflare.RecordsFor(t, one.host)) == 0
		}
		if !isAsAsked && !isTold {
			t.Errorf("%q of %s is not published as it was asked for, and nothing is said of it", one.text, one.host)
		}
	}
	// cloudflared still takes what comes.
	endpoints[0] = published("plain.example.com", next)
	pod.source.set(endpoints...)
	harness.Eventually(t, "a change is served", func() error {
		got, err := open.visit("plain.example.com", "/")
		if err == nil && got.met.Origin != next {
			err = fmt.Errorf("a visitor gets %s", got)
		}
		return err
	})
	return taken, told
}
