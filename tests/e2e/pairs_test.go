package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// Two routes of one hostname below one Gateway, as an app has them whose http requests are redirected to https, and a login on
// one of them. ExternalDNS merges the two, and keeps what one of them says, in each loop anew:
// https://github.com/kubernetes-sigs/external-dns/issues/6632

const (
	// So many hostnames make it certain that one of the merged pairs begins open.
	pairs       = 30
	pairService = "http://gateway.shop.svc:80"
	// So many loops are looked at once all hostnames are published.
	pairLoops = 6
	// The applications of thirty hostnames take several loops.
	pairPatience = 2 * time.Minute

	adjustCalls = "external_dns_webhook_provider_adjustendpoints_requests_total"

	staffOnly = theirPrefix + "webhook-access-policy: staff"
)

// pair is the annotations of each of two routes, and the webhook's settings.
type pair struct {
	app, redirect string
	settings      []string
	told          bool // that one of the two does not count
}

func TestALoginOnOneOfTwoRoutesOfAHostname(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	server.definesGateways(t)
	t.Run("is lost at first where ExternalDNS merges the two", func(t *testing.T) {
		t.Parallel()
		begun := pair{app: staffOnly}.begins(t, server)
		harness.EventuallyWithin(t, pairPatience, "a hostname is open", func() error {
			begun.ours.Alive(t)
			if len(begun.opened(t)) == 0 {
				return errors.New("none is")
			}
			return nil
		})
		t.Logf("%d of %d hostnames began open", len(begun.opened(t)), pairs)
	})
	for name, way := range map[string]pair{
		"holds where both have it":             {app: staffOnly, redirect: staffOnly},
		"holds where the redirect is left out": {app: staffOnly, redirect: otherController},
		"holds where it is the default":        {app: staffOnly, settings: []string{"DEFAULT_ACCESS_POLICY=staff"}},
		"holds with a set-identifier each": {
			app: staffOnly + ", " + theirPrefix + "set-identifier: app", redirect: theirPrefix + "set-identifier: redirect",
			told: true,
		},
		"holds with a set-identifier each, where the redirect says no": {
			app:      staffOnly + ", " + theirPrefix + "set-identifier: app",
			redirect: theirPrefix + `webhook-tunnel: "false", ` + theirPrefix + "set-identifier: redirect",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way.begins(t, server).staysClosed(t)
		})
	}
}

// paired is thirty hostnames with a pair each, in one start.
type paired struct {
	cloudflare *emulator
	program    *harness.Program
	ours       *harness.ExternalDNS
	hosts      []string
	watched    func() map[string][]string
	told       bool
}

// begins has all objects there before ExternalDNS starts. Of half of the hostnames the app's name is the first, of the other
// half the redirect's.
func (p pair) begins(t *testing.T, server *apiServer) *paired {
	t.Helper()
	made := &paired{cloudflare: startEmulator(t), told: p.told}
	made.cloudflare.SetUpAccess(t)
	tunnel := made.cloudflare.TunnelNeverConfigured(t, "pairs")
	namespace := server.makesNamespace(t)
	server.makesGateway(t, namespace, theirPrefix, pairService)
	for number := range pairs {
		host := fmt.Sprintf("pair-%d.example.com", number)
		first, second := p.app, p.redirect
		if number%2 == 1 {
			first, second = second, first
		}
		server.makesRoute(t, namespace, fmt.Sprintf("pair-%d-a", number), host, first)
		server.makesRoute(t, namespace, fmt.Sprintf("pair-%d-b", number), host, second)
		made.hosts = append(made.hosts, host)
	}
	made.watched = made.cloudflare.watchAll(t, made.hosts...)
	// Only warnings: all of them are kept.
	made.program = harness.StartProgram(t, made.cloudflare.Emulator, tunnel.ID, append(p.settings, "LOG_LEVEL=warn")...)
	made.ours = harness.StartExternalDNS(t, externalDNSBinary,
		"--kubeconfig="+server.Kubeconfig(t), "--namespace="+namespace, "--gateway-namespace="+namespace, "--source=gateway-httproute",
		"--policy=sync", "--registry=noop", "--interval="+interval.String(),
		"--provider=webhook", "--webhook-provider-url=http://"+made.program.Address)
	return made
}

// opened are the hostnames where a visitor without a login reached the service at any time.
func (p *paired) opened(t *testing.T) (open []string) {
	t.Helper()
	for host, seen := range p.watched() {
		if strings.Contains(strings.Join(seen, " "), pairService) {
			open = append(open, host)
		}
	}
	slices.Sort(open)
	return open
}

// wasNeverOpen ends a test in which one was.
func (p *paired) wasNeverOpen(t *testing.T) {
	t.Helper()
	if open := p.opened(t); len(open) > 0 {
		t.Fatalf("%d hostnames are or were open: %v", len(open), open)
	}
}

// staysClosed checks that no hostname is open while all are published, and in the loops that follow, and that no warning is about
// one of them.
func (p *paired) staysClosed(t *testing.T) {
	t.Helper()
	harness.EventuallyWithin(t, pairPatience, "every hostname is published behind the login", func() error {
		p.ours.Alive(t)
		p.wasNeverOpen(t)
		for host, seen := range p.watched() {
			if last := seen[len(seen)-1]; !strings.HasPrefix(last, "turned away by application ") {
				return fmt.Errorf("a visitor of %s gets %s", host, last)
			}
		}
		return nil
	})
	looked := p.ours.MustMetric(t, adjustCalls) + pairLoops
	harness.EventuallyWithin(t, pairPatience, fmt.Sprintf("%d more loops", pairLoops), func() error {
		p.ours.Alive(t)
		if now := p.ours.MustMetric(t, adjustCalls); now < looked {
			return fmt.Errorf("%v of %v", now, looked)
		}
		return nil
	})
	p.wasNeverOpen(t)
	for line := range strings.Lines(p.program.Output(t)) {
		// A rule with a login comes a loop after its application.
		if strings.Contains(line, "pair-") && !p.told && !strings.Contains(line, "refused=waiting") {
			t.Errorf("warned although the objects are right: %s", line)
		}
	}
}
