package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// How often ExternalDNS asks.
	interval = time.Second
	// So many loops without a change in a row make a fixed point.
	quietLoops = 3
	noOpRuns   = "external_dns_controller_no_op_runs_total"
	softErrors = "external_dns_controller_consecutive_soft_errors"
	applyCalls = "external_dns_webhook_provider_applychanges_requests_total"
)

// registry is where ExternalDNS believes ownership to be kept.
type registry string

const (
	txt  registry = "txt"
	noop registry = "noop"
	crd  registry = "crd"
)

// externalDNS is the real ExternalDNS, and the source it reads.
type externalDNS struct {
	*process
	source  *connector
	metrics string
}

func startExternalDNS(t *testing.T, invocation invocation, source *connector, program *program) *externalDNS {
	t.Helper()
	metrics := "127.0.0.1:" + freePort(t)
	arguments := append([]string{
		"--source=connector",
		"--connector-source-server=" + source.address,
		"--provider=webhook",
		"--webhook-provider-url=http://" + program.address,
		"--registry=" + string(invocation.registry),
		"--policy=sync",
		"--interval=" + interval.String(),
		"--metrics-address=" + metrics,
		"--log-level=debug",
	}, invocation.flags...)
	child := start(t, "external-dns", invocation.binary, bareEnvironment(), arguments...)
	dns := &externalDNS{process: child, source: source, metrics: "http://" + metrics + "/metrics"}
	eventually(t, "external-dns shows its metrics", func() error {
		dns.alive(t)
		_, err := dns.metric(noOpRuns)
		return err
	})
	return dns
}

// metric reads one number. The name includes the labels, where it has any.
func (e *externalDNS) metric(name string) (float64, error) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(e.metrics)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		line, found := strings.CutPrefix(lines.Text(), name)
		if found && strings.HasPrefix(line, "{") {
			// Some versions add labels of the process to every metric.
			_, line, found = strings.Cut(line, "}")
		}
		if value, blank := strings.CutPrefix(line, " "); found && blank {
			return strconv.ParseFloat(value, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("no metric %s", name)
}

func (e *externalDNS) mustMetric(t *testing.T, name string) float64 {
	t.Helper()
	value, err := e.metric(name)
	if err != nil {
		e.alive(t)
		t.Fatal(err)
	}
	return value
}

// awaitLoops returns after so many more loops have read the present endpoints.
func (e *externalDNS) awaitLoops(t *testing.T, loops int) {
	t.Helper()
	wanted := e.source.servedSinceSet() + loops
	eventually(t, fmt.Sprintf("external-dns looks at its sources %d times", loops), func() error {
		e.alive(t)
		if served := e.source.servedSinceSet(); served < wanted {
			return fmt.Errorf("%d of %d", served, wanted)
		}
		return nil
	})
}

// settle awaits the fixed point of the present endpoints and sees it last.
func (e *externalDNS) settle(t *testing.T, cloudflare *emulator) {
	t.Helper()
	e.reachesFixedPoint(t)
	e.staysQuiet(t, cloudflare)
}

// reachesFixedPoint awaits a loop over the present endpoints that finds nothing to do.
func (e *externalDNS) reachesFixedPoint(t *testing.T) {
	t.Helper()
	// A loop counts itself at its end, and the loop before this one has ended when the sources are read again: so
	// what is counted from here on has seen the present endpoints.
	e.awaitLoops(t, 1)
	before := e.mustMetric(t, noOpRuns)
	eventually(t, "external-dns finds all records up to date", func() error {
		e.alive(t)
		if now := e.mustMetric(t, noOpRuns); now <= before {
			return fmt.Errorf("%s is still %v", noOpRuns, now)
		}
		return nil
	})
}

// staysQuiet checks that several further loops ask for no change, and that nothing is written at Cloudflare meanwhile.
func (e *externalDNS) staysQuiet(t *testing.T, cloudflare *emulator) {
	t.Helper()
	noOps, applies, writes := e.mustMetric(t, noOpRuns), e.mustMetric(t, applyCalls), cloudflare.writes(t)
	eventually(t, "external-dns goes on looping", func() error {
		e.alive(t)
		if now := e.mustMetric(t, noOpRuns); now < noOps+quietLoops {
			return fmt.Errorf("%v of %d quiet loops", now-noOps, quietLoops)
		}
		return nil
	})
	if now := e.mustMetric(t, applyCalls); now != applies {
		t.Errorf("external-dns asked for %v more changes after its fixed point", now-applies)
	}
	if now := cloudflare.writes(t); len(now) != len(writes) {
		t.Errorf("written after the fixed point: %v", now[len(writes):])
	}
}

// isRefused checks that ExternalDNS goes on although something it asks for is refused in every loop: that is no failure
// and costs no write.
func (e *externalDNS) isRefused(t *testing.T, cloudflare *emulator) {
	t.Helper()
	e.awaitLoops(t, 2)
	writes, asked := cloudflare.writes(t), e.mustMetric(t, applyCalls)
	e.awaitLoops(t, quietLoops)
	if now := e.mustMetric(t, applyCalls); now == asked {
		t.Errorf("external-dns no longer asks for what is refused")
	}
	if now := cloudflare.writes(t); len(now) != len(writes) {
		t.Errorf("written for what is refused: %v", now[len(writes):])
	}
	if failures := e.mustMetric(t, softErrors); failures != 0 {
		t.Errorf("a refusal was answered as a failure: %v in a row", failures)
	}
}

// failsSoftly awaits so many loops in a row that failed without ending ExternalDNS.
func (e *externalDNS) failsSoftly(t *testing.T, loops float64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v loops in a row fail softly", loops), func() error {
		e.alive(t)
		if now := e.mustMetric(t, softErrors); now < loops {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
}
