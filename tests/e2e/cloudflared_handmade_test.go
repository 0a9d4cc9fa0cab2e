package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The tunnel full of rules made in the dashboard, with origins that answer: what a visitor gets shows the service and the options
// by which cloudflared goes.
func TestCloudflaredServesRulesMadeByHandAllTheTimeTheyBecomeAnObjects(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	server.defines(t, "dnsendpoints")
	t.Run("as the command prints them", func(t *testing.T) {
		t.Parallel()
		made, open := visitedDashboard(t)
		namespace := server.makesNamespace(t)
		makesPrinted(t, server, namespace, made.print(t, namespace))
		ended := open.visitAll(t, made.visits(t))
		program, _ := made.isTakenOver(t, server, namespace)
		open.arrives(t)
		time.Sleep(5 * interval)
		for address, answers := range ended() {
			// Of a bastion and of ssh, for which a plain visitor has no right words.
			isRefused := address == "g.example.com/" || address == "ssh.example.com/"
			if len(answers) != 1 || strings.HasPrefix(answers[0], "200") == isRefused {
				t.Errorf("visitors of %s got %q", address, answers)
			}
		}
		made.hasLostNothing(t, program)
	})
	t.Run("and without their options, undone by the log", func(t *testing.T) {
		t.Parallel()
		made, open := visitedDashboard(t)
		records, before := made.records(t), open.visitAll(t, made.visits(t))()
		namespace := server.makesNamespace(t)
		makesServicesWithoutOptions(t, server, namespace, made.print(t, namespace))
		program, external := made.isTakenOver(t, server, namespace)
		harness.Eventually(t, "the options are gone", func() error {
			if rules := strings.Join(made.standing(t), "\n"); strings.Contains(rules, "noTLSVerify") {
				return fmt.Errorf("%s", rules)
			}
			return nil
		})
		open.arrives(t)
		between := open.visitAll(t, made.visits(t))()
		external.Stop(t)
		said := program.Output(t)
		program.Stop(t)
		made.undo(t, said)
		open.arrives(t)
		made.isAsBefore(t, records)
		after := open.visitAll(t, made.visits(t))()
		changed := 0
		for address, answers := range before {
			if !slices.Equal(after[address], answers) {
				t.Errorf("visitors of %s got %q before, and get %q", address, answers, after[address])
			}
			if !slices.Equal(between[address], answers) {
				changed++
			}
		}
		if changed < 4 {
			t.Errorf("the options of %d rules were felt: %q, and without them %q", changed, before, between)
		}
	})
}

// visitedDashboard has the fourteen rules lead to origins of the test, through a cloudflared.
func visitedDashboard(t *testing.T) (*dashboard, *tunnels) {
	t.Helper()
	secure := startOriginWith(t, func(server *httptest.Server) { server.EnableHTTP2 = true; server.StartTLS() })
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	caPool := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(caPool, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, rule := range handmade {
		rule = regexp.MustCompile(`https://\w+:443`).ReplaceAllString(rule, secure.URL)
		rule = regexp.MustCompile(`http://\w+:80`).ReplaceAllStringFunc(rule, func(string) string { return startOrigin(t) })
		// The origin's certificate is for one label below the zone.
		rule = strings.NewReplacer("c.local", "local.example.com", "/etc/ca.pem", caPool,
			"bastion:22", "127.0.0.1:"+harness.FreePort(t)).Replace(rule)
		rules = append(rules, rule)
	}
	made := startDashboard(t, rules)
	made.caPool = caPool
	open := connectTrusting(t, made.emulator, authority, made.tunnel)
	return made, open
}

// visits are an address of each rule.
func (d *dashboard) visits(t *testing.T) (addresses []string) {
	t.Helper()
	for _, rule := range d.Rules(t, d.tunnel) {
		if rule.Hostname != "" {
			host := strings.Replace(rule.Hostname, "*", "deep", 1)
			addresses = append(addresses, host+"/"+strings.TrimLeft(rule.Path, "^/"))
		}
	}
	return addresses
}

// visitAll has the addresses visited, one after another and again and again. What it returns ends that once each was visited, and
// says what was got there, each answer only once.
func (u *tunnels) visitAll(t *testing.T, addresses []string) func() map[string][]string {
	t.Helper()
	token := u.withToken(t, "theirs", "tag", time.Now().Add(time.Hour))
	got, stop := map[string][]string{}, make(chan struct{})
	var visitors sync.WaitGroup
	visitors.Go(func() {
		for {
			for _, address := range addresses {
				host, path, _ := strings.Cut(address, "/")
				answer := u.felt(host, "/"+path, token)
				if !slices.Contains(got[address], answer) {
					got[address] = append(got[address], answer)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(visitInterval):
			}
		}
	})
	return func() map[string][]string {
		close(stop)
		visitors.Wait()
		return got
	}
}

// felt is what a visitor gets, and what the origin met.
func (u *tunnels) felt(host, path string, with func(*http.Request)) string {
	got, err := u.visit(host, path, with)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s %s %s %s", got.status, got.met.Origin, got.met.Host, got.met.Protocol, got.met.ServerName)
}
