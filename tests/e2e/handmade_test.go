package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// A tunnel full of rules made in the dashboard, among them every option once: docs/guides.md, "From the dashboard".
var handmade = []string{
	`{"hostname":"a.example.com","path":"^/api/v2","service":"http://v2:80","originRequest":{"connectTimeout":5,"tlsTimeout":6}}`,
	`{"hostname":"a.example.com","path":"/api","service":"http://api:80","originRequest":{"tcpKeepAlive":7}}`,
	`{"hostname":"a.example.com","service":"http://a:80","originRequest":{"noHappyEyeballs":true}}`,
	`{"hostname":"b.example.com","service":"http://b:80","originRequest":{"keepAliveTimeout":8,"keepAliveConnections":9}}`,
	`{"hostname":"c.example.com","service":"https://c:443","originRequest":{"httpHostHeader":"c.local","originServerName":"c.local"}}`,
	`{"hostname":"d.example.com","service":"https://d:443","originRequest":{"matchSNItoHost":true,"caPool":"/etc/ca.pem"}}`,
	`{"hostname":"e.example.com","service":"https://e:443","originRequest":{"noTLSVerify":true,"http2Origin":true}}`,
	`{"hostname":"f.example.com","service":"http://f:80","originRequest":{"disableChunkedEncoding":true}}`,
	`{"hostname":"g.example.com","service":"http://g:80","originRequest":{"bastionMode":true}}`,
	`{"hostname":"h.example.com","service":"http://h:80","originRequest":{"proxyType":"socks","proxyAddress":"127.0.0.2","proxyPort":10}}`,
	`{"hostname":"i.example.com","service":"socks-proxy","originRequest":{"ipRules":[{"prefix":"10.0.0.0/8","ports":[80],"allow":true}]}}`,
	`{"hostname":"j.example.com","service":"http://j:80","originRequest":{"access":{"required":true,"teamName":"theirs","audTag":["tag"]}}}`,
	`{"hostname":"ssh.example.com","service":"ssh://bastion:22"}`,
	`{"hostname":"*.w.example.com","service":"http://w:80"}`,
}

// oddRule is one whose texts YAML, an annotation and Kubernetes' names would each bend. The service's dot at the end keeps the
// pod's search domains out.
const oddRule = "{\"hostname\":\"_k_.example.com\",\"service\":\"https://odd.svc.\",\"note\u0085- x\":\"kept\"," +
	"\"originRequest\":{\"proxyAddress\":\"a\u2028b: #😀\"}}"

func TestARuleMadeByHandBecomesAnObjectsWithoutALoss(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	server.defines(t, "dnsendpoints")
	for name, makes := range map[string]func(t *testing.T, server *apiServer, namespace, printed string){
		"as the command prints them": makesPrinted,
		"as annotated Services":      makesServices,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takesOverWithoutALoss(t, server, makes)
		})
	}
	t.Run("and once they are gone they are restored from the log", func(t *testing.T) {
		t.Parallel()
		restoresFromTheLog(t, server)
	})
}

// dashboard is a tunnel with such rules, and a record for each of their hostnames, of which the first has no comment.
type dashboard struct {
	*emulator
	tunnel       tunnel
	rules, hosts []string
	caPool       string
}

func startDashboard(t *testing.T, rules []string) *dashboard {
	t.Helper()
	made := &dashboard{emulator: startEmulator(t), rules: rules, caPool: "/etc/ca.pem"}
	made.tunnel = made.TunnelNeverConfigured(t, "handmade-rules")
	ingress := strings.Join(append(slices.Clone(rules), `{"service":"http_status:404"}`), ",")
	made.AskRaw(t, "POST", "/configurations", []byte(`{"tunnel": "`+made.tunnel.ID+`", "config": {"ingress":[`+ingress+`]}}`), nil)
	var posts []map[string]any
	for _, text := range rules {
		var rule struct{ Hostname string }
		if err := json.Unmarshal([]byte(text), &rule); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(made.hosts, rule.Hostname) {
			made.hosts = append(made.hosts, rule.Hostname)
			posts = append(posts, map[string]any{"type": "CNAME", "name": rule.Hostname, "content": made.tunnel.Hostname(), "proxied": true, "ttl": 1, "comment": "Jo's"})
		}
	}
	delete(posts[0], "comment")
	made.Ask(t, "POST", "/records", map[string]any{"zone": harness.ZoneName, "posts": posts}, nil)
	return made
}

// standing are the rules as their document has them, but for the last one.
func (d *dashboard) standing(t *testing.T) (rules []string) {
	t.Helper()
	for _, rule := range d.Rules(t, d.tunnel) {
		if rule.Hostname != "" {
			rules = append(rules, rule.String())
		}
	}
	return rules
}

// records are all of the zone, without what Cloudflare alone decides.
func (d *dashboard) records(t *testing.T) (records []string) {
	t.Helper()
	for _, record := range d.Records(t) {
		var fields map[string]any
		if err := json.Unmarshal(record.Raw, &fields); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"id", "created_on", "modified_on", "comment_modified_on"} {
			delete(fields, field)
		}
		records = append(records, fmt.Sprint(fields))
	}
	return records
}

// settings take the rules over.
func (d *dashboard) settings(more ...string) []string {
	return append([]string{"CF_API_TOKEN=" + d.Token, "CF_TUNNEL_ID=" + d.tunnel.ID, "ADOPT=tunnel", "ORIGIN_CA_POOLS=" + d.caPool}, more...)
}

// print has the rules printed as objects.
func (d *dashboard) print(t *testing.T, namespace string) string {
	t.Helper()
	printing := harness.RunProgram(t, d.Emulator, d.settings("LOG_LEVEL=info"), "list", "--as=dnsendpoint", "--namespace="+namespace)
	if code := printing.ExitCode(t); code != 0 {
		t.Fatal(printing.Output(t))
	}
	return printing.Output(t)
}

// areOurs says which hostname is not.
func (d *dashboard) areOurs(t *testing.T) error {
	t.Helper()
	for _, host := range d.hosts {
		records := d.RecordsFor(t, host)
		if len(records) != 1 || !strings.Contains(records[0].String(), "external-dns owner=default") {
			return fmt.Errorf("%s has %v", host, records)
		}
	}
	return nil
}

// isTakenOver publishes what was made in the namespace, and awaits that it is ours.
func (d *dashboard) isTakenOver(t *testing.T, server *apiServer, namespace string) (*harness.Program, *harness.ExternalDNS) {
	t.Helper()
	program := harness.StartProgramAs(t, d.Emulator, d.settings("MASS_DELETION_LIMIT=0"))
	external := harness.StartExternalDNSIn(t, nil, externalDNSBinary, "--kubeconfig="+server.Kubeconfig(t), "--namespace="+namespace,
		"--source=crd", "--source=service", "--registry=noop", "--provider=webhook", "--webhook-provider-url=http://"+program.Address,
		"--policy=sync", "--interval="+interval.String(), "--log-level=debug")
	harness.Eventually(t, "every record is ours", func() error { return d.areOurs(t) })
	return program, external
}

// hasLostNothing checks that the rules are as they were, in their order, and that no line says otherwise.
func (d *dashboard) hasLostNothing(t *testing.T, program *harness.Program) {
	t.Helper()
	if now := d.standing(t); !slices.Equal(now, d.rules) {
		t.Errorf("the rules are now\n%s", strings.Join(now, "\n"))
	}
	if program.Lines("taken over; changed options") != 0 {
		t.Error("an option is said to change")
	}
}

func takesOverWithoutALoss(t *testing.T, server *apiServer, makes func(t *testing.T, server *apiServer, namespace, printed string)) {
	t.Helper()
	made := startDashboard(t, append(slices.Clone(handmade), oddRule))
	namespace := server.makesNamespace(t)
	makes(t, server, namespace, made.print(t, namespace))
	watched := made.watchAll(t, append(slices.Clone(made.hosts), "deep.w.example.com")...)
	program, _ := made.isTakenOver(t, server, namespace)
	made.hasLostNothing(t, program)
	if left := made.print(t, namespace); strings.Contains(left, "kind:") {
		t.Errorf("there are still foreign rules:\n%s", left)
	}
	for host, seen := range watched() {
		if len(seen) != 1 {
			t.Errorf("visitors of %s got %q", host, seen)
		}
	}
}

func makesPrinted(t *testing.T, server *apiServer, namespace, printed string) {
	t.Helper()
	for _, object := range strings.Split(printed, "---\n")[1:] {
		server.make(t, "/apis/externaldns.k8s.io/v1alpha1/namespaces/"+namespace+"/dnsendpoints", "", object, "")
	}
}

// makesServices makes one of the annotations before each endpoint, under the prefix that ExternalDNS reads.
func makesServices(t *testing.T, server *apiServer, namespace, printed string) {
	t.Helper()
	var annotations []string
	made := 0
	for _, line := range strings.Split(printed, "\n") {
		if annotation, isOne := strings.CutPrefix(line, "    #   "); isOne {
			annotations = append(annotations, "    external-dns.kubernetes.io/"+annotation)
		} else if strings.HasPrefix(line, "    - ") {
			made++
			object := fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: s%d\n  annotations:\n%s\nspec: {ports: [{port: 80}]}\n",
				made, strings.Join(annotations, "\n"))
			server.make(t, "/api/v1/namespaces/"+namespace+"/services", "", object, "")
			annotations = nil
		}
	}
	if made < len(handmade) {
		t.Errorf("%d rules are said:\n%s", made, printed)
	}
}

// makesServicesWithoutOptions loses every option of a rule.
func makesServicesWithoutOptions(t *testing.T, server *apiServer, namespace, printed string) {
	t.Helper()
	makesServices(t, server, namespace, regexp.MustCompile(`(?m)^    #   webhook-(origin|access)-.*\n`).ReplaceAllString(printed, ""))
}

// restoresFromTheLog takes over without the options, deletes all, and puts each rule and record back from its lines.
func restoresFromTheLog(t *testing.T, server *apiServer) {
	t.Helper()
	var ranges []string
	for n := range 100 {
		ranges = append(ranges, fmt.Sprintf(`{"prefix":"10.0.%d.0/24","ports":[80],"allow":true}`, n))
	}
	// Its text does not fit into one line of the log.
	long := `{"hostname":"b.example.com","path":"/long","service":"http://long:80","note":"kept","originRequest":{"ipRules":[` + strings.Join(ranges, ",") + `]}}`
	made := startDashboard(t, slices.Insert(slices.Clone(handmade), 3, long))
	records := made.records(t)
	namespace := server.makesNamespace(t)
	makesServicesWithoutOptions(t, server, namespace, made.print(t, namespace))
	program, external := made.isTakenOver(t, server, namespace)
	for number := range made.rules {
		if _, err := server.Try("DELETE", fmt.Sprintf("/api/v1/namespaces/%s/services/s%d", namespace, number+1), nil); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, "everything is gone", func() error {
		if rules, records := made.standing(t), made.records(t); len(rules)+len(records) > 1 {
			return fmt.Errorf("%v %v", rules, records)
		}
		return nil
	})
	external.Stop(t)
	said := program.Output(t)
	program.Stop(t)
	made.undo(t, said)
	made.isAsBefore(t, records)
	for _, option := range []string{"connectTimeout", "caPool", "ipRules", "noTLSVerify"} {
		if !bytes.Contains([]byte(said), []byte(option+" (to keep it, set webhook-origin-")) {
			t.Errorf("no line says what keeps %s", option)
		}
	}
}

// isAsBefore compares the rules and the records with those that were made by hand.
func (d *dashboard) isAsBefore(t *testing.T, records []string) {
	t.Helper()
	if now := d.standing(t); !slices.Equal(now, d.rules) {
		t.Errorf("the rules are now\n%s", strings.Join(now, "\n"))
	}
	if now := d.records(t); !slices.Equal(now, records) {
		t.Errorf("the records are now\n%s\nand were\n%s", strings.Join(now, "\n"), strings.Join(records, "\n"))
	}
}

// tookOver is a line with all of what was taken over, or with a part of it.
var tookOver = regexp.MustCompile(`(?m)taken over; before(?: (\d+)/(\d+))?: (.*) hostname=\S+(?: path=".*")?$`)

// was is what the lines have.
func was(said string) (texts []string) {
	text := ""
	for _, found := range tookOver.FindAllStringSubmatch(said, -1) {
		text += found[3]
		if found[1] == found[2] {
			texts, text = append(texts, text), ""
		}
	}
	return texts
}

// undo does by Cloudflare's API what docs/guides.md says of the lines, and knows nothing else.
func (d *dashboard) undo(t *testing.T, said string) {
	t.Helper()
	type place struct{ Hostname, Path string }
	placeOf := func(rule json.RawMessage) (at place) {
		if err := json.Unmarshal(rule, &at); err != nil {
			t.Fatalf("%v in %s", err, rule)
		}
		return at
	}
	rules, records := map[string]map[int]json.RawMessage{}, map[string][]map[string]any{}
	for _, text := range was(said) {
		if found := regexp.MustCompile(`^rule (\d+) of tunnel (\S+) (.*)$`).FindStringSubmatch(text); found != nil {
			number, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			if rules[found[2]] == nil {
				rules[found[2]] = map[int]json.RawMessage{}
			}
			rules[found[2]][number] = json.RawMessage(found[3])
			continue
		}
		var record map[string]any
		text, isRecord := strings.CutPrefix(text, "record ")
		if err := json.Unmarshal([]byte(text), &record); err != nil || !isRecord {
			t.Fatalf("nothing is restored from %q: %v", text, err)
		}
		records[record["name"].(string)] = append(records[record["name"].(string)], record)
	}
	for tunnel, rules := range rules {
		path := fmt.Sprintf("/accounts/%s/cfd_tunnel/%s/configurations", d.Account, tunnel)
		var standing struct{ Config map[string]json.RawMessage }
		d.call(t, "GET", path, nil, &standing)
		var ingress []json.RawMessage
		if err := json.Unmarshal(standing.Config["ingress"], &ingress); err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules {
			ingress = slices.DeleteFunc(ingress, func(other json.RawMessage) bool { return placeOf(other) == placeOf(rule) })
		}
		for _, number := range slices.Sorted(maps.Keys(rules)) {
			ingress = slices.Insert(ingress, number-1, rules[number])
		}
		text, err := json.Marshal(ingress)
		if err != nil {
			t.Fatal(err)
		}
		standing.Config["ingress"] = text
		d.call(t, "PUT", path, standing, nil)
	}
	var zones []struct{ ID, Name string }
	d.call(t, "GET", "/zones", nil, &zones)
	for _, zone := range zones {
		patches, posts := []map[string]any{}, []map[string]any{}
		for name, records := range records {
			if !strings.HasSuffix("."+name, "."+zone.Name) {
				continue
			}
			standing := d.RecordsFor(t, name)
			for index, record := range records {
				if index < len(standing) {
					record["id"] = standing[index].ID
					patches = append(patches, record)
				} else {
					posts = append(posts, record)
				}
			}
		}
		if len(patches)+len(posts) == 0 {
			continue
		}
		d.call(t, "POST", "/zones/"+zone.ID+"/dns_records/batch", map[string]any{"patches": patches, "posts": posts}, nil)
	}
}
