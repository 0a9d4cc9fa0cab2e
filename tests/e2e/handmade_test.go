package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
	t.Run("and without their options they are restored from the log", func(t *testing.T) {
		t.Parallel()
		restoresFromTheLog(t, server)
	})
}

// dashboard has the rules and a record for each of their hostnames.
func dashboard(t *testing.T) (cloudflare *emulator, tunnel tunnel, hosts []string) {
	t.Helper()
	cloudflare = startEmulator(t)
	tunnel = cloudflare.TunnelNeverConfigured(t, "handmade-rules")
	rules := strings.Join(append(slices.Clone(handmade), `{"service":"http_status:404"}`), ",")
	cloudflare.AskRaw(t, "POST", "/configurations", []byte(`{"tunnel": "`+tunnel.ID+`", "config": {"ingress":[`+rules+`]}}`), nil)
	var posts []map[string]any
	for _, text := range handmade {
		var rule struct{ Hostname string }
		if err := json.Unmarshal([]byte(text), &rule); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(hosts, rule.Hostname) {
			hosts = append(hosts, rule.Hostname)
			posts = append(posts, map[string]any{"type": "CNAME", "name": rule.Hostname, "content": tunnel.Hostname(), "proxied": true, "ttl": 1, "comment": "Jo's"})
		}
	}
	cloudflare.Ask(t, "POST", "/records", map[string]any{"zone": harness.ZoneName, "posts": posts}, nil)
	return cloudflare, tunnel, hosts
}

// standing are the rules as their document has them, but for the last one.
func standing(t *testing.T, cloudflare *emulator, tunnel tunnel) (rules []string) {
	t.Helper()
	for _, rule := range cloudflare.Rules(t, tunnel) {
		if rule.Hostname != "" {
			rules = append(rules, rule.String())
		}
	}
	return rules
}

func takesOverWithoutALoss(t *testing.T, server *apiServer, makes func(t *testing.T, server *apiServer, namespace, printed string)) {
	t.Helper()
	cloudflare, tunnel, hosts := dashboard(t)
	namespace := server.makesNamespace(t)
	settings := []string{"CF_API_TOKEN=" + cloudflare.Token, "CF_TUNNEL_ID=" + tunnel.ID, "ADOPT=tunnel", "ORIGIN_CA_POOLS=/etc/ca.pem"}
	printing := harness.RunProgram(t, cloudflare.Emulator, append(settings, "LOG_LEVEL=info"), "list", "--as=dnsendpoint", "--namespace="+namespace)
	if code := printing.ExitCode(t); code != 0 {
		t.Fatal(printing.Output(t))
	}
	makes(t, server, namespace, printing.Output(t))

	watched := cloudflare.watchAll(t, append(slices.Clone(hosts), "deep.w.example.com")...)
	program := harness.StartProgramAs(t, cloudflare.Emulator, settings)
	startsAt(t, server, namespace, program)
	harness.Eventually(t, "every record is ours", func() error { return areOurs(t, cloudflare, hosts) })
	if now := standing(t, cloudflare, tunnel); !slices.Equal(now, handmade) {
		t.Errorf("the rules are now\n%s", strings.Join(now, "\n"))
	}
	for host, seen := range watched() {
		if len(seen) != 1 {
			t.Errorf("visitors of %s got %q", host, seen)
		}
	}
	if program.Lines("taken over, options that change") != 0 {
		t.Error("an option is said to change")
	}
}

func startsAt(t *testing.T, server *apiServer, namespace string, program *harness.Program) *harness.ExternalDNS {
	t.Helper()
	return harness.StartExternalDNSIn(t, nil, externalDNSBinary, "--kubeconfig="+server.Kubeconfig(t), "--namespace="+namespace,
		"--source=crd", "--source=service", "--registry=noop", "--provider=webhook", "--webhook-provider-url=http://"+program.Address,
		"--policy=sync", "--interval="+interval.String(), "--log-level=debug")
}

func areOurs(t *testing.T, cloudflare *emulator, hosts []string) error {
	t.Helper()
	for _, host := range hosts {
		records := cloudflare.RecordsFor(t, host)
		if len(records) != 1 || !strings.Contains(records[0].String(), "external-dns owner=default") {
			return fmt.Errorf("%s has %v", host, records)
		}
	}
	return nil
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
	if made != len(handmade) {
		t.Errorf("%d of %d rules are said:\n%s", made, len(handmade), printed)
	}
}

// restoresFromTheLog takes over with the services and the paths alone, and puts each rule and record back from its line.
func restoresFromTheLog(t *testing.T, server *apiServer) {
	t.Helper()
	cloudflare, tunnel, hosts := dashboard(t)
	namespace := server.makesNamespace(t)
	settings := []string{"CF_API_TOKEN=" + cloudflare.Token, "CF_TUNNEL_ID=" + tunnel.ID, "ADOPT=tunnel"}
	printing := harness.RunProgram(t, cloudflare.Emulator, append(settings, "LOG_LEVEL=info", "ORIGIN_CA_POOLS=/etc/ca.pem"), "list", "--as=dnsendpoint")
	printing.ExitCode(t)
	without := regexp.MustCompile(`(?m)^    #   webhook-(origin|access)-.*\n`).ReplaceAllString(printing.Output(t), "")
	makesServices(t, server, namespace, without)
	program := harness.StartProgramAs(t, cloudflare.Emulator, settings)
	external := startsAt(t, server, namespace, program)
	harness.Eventually(t, "every record is ours", func() error { return areOurs(t, cloudflare, hosts) })
	harness.Eventually(t, "the options are gone", func() error {
		if rules := strings.Join(standing(t, cloudflare, tunnel), "\n"); strings.Contains(rules, "noTLSVerify") {
			return fmt.Errorf("%s", rules)
		}
		return nil
	})
	external.Stop(t)
	said := program.Output(t)
	var was []string
	for _, found := range regexp.MustCompile(`taken over, was=rule of tunnel \S+ (\{.*\}) hostname=`).FindAllStringSubmatch(said, -1) {
		was = append(was, found[1])
	}
	slices.Sort(was)
	wanted := slices.Sorted(slices.Values(handmade))
	if !slices.Equal(was, wanted) {
		t.Errorf("the lines have the rules\n%s", strings.Join(was, "\n"))
	}
	for _, host := range hosts {
		record, err := json.Marshal(map[string]any{"name": host, "type": "CNAME", "content": tunnel.Hostname(), "proxied": true, "ttl": 1, "comment": "Jo's"})
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`taken over, was=record (\{.*"` + regexp.QuoteMeta(host) + `".*\}) hostname=`).FindStringSubmatch(said)
		var one, other any
		if found == nil || json.Unmarshal([]byte(found[1]), &one) != nil || json.Unmarshal(record, &other) != nil || fmt.Sprint(one) != fmt.Sprint(other) {
			t.Errorf("the line of the record is %q, and it was %s", found, record)
		}
	}
	for _, option := range []string{"connectTimeout", "caPool", "ipRules", "noTLSVerify"} {
		if !bytes.Contains([]byte(said), []byte(option+", kept by webhook-origin-")) {
			t.Errorf("no line says what keeps %s", option)
		}
	}
}
