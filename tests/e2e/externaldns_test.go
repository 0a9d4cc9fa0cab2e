package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// How often ExternalDNS asks.
const interval = time.Second

// So many loops are looked at that ask for what is refused.
const askingLoops = 3

// registry is where ExternalDNS believes ownership to be kept.
type registry string

const (
	txt  registry = "txt"
	noop registry = "noop"
	crd  registry = "crd"
)

// externalDNS is the real ExternalDNS, and the source it reads.
type externalDNS struct {
	*harness.ExternalDNS
	source *connector
}

func startExternalDNS(t *testing.T, invocation invocation, source *connector, program *harness.Program) *externalDNS {
	t.Helper()
	arguments := append([]string{
		"--source=connector",
		"--connector-source-server=" + source.address,
		"--provider=webhook",
		"--webhook-provider-url=http://" + program.Address,
		"--registry=" + string(invocation.registry),
		"--policy=sync",
		"--interval=" + interval.String(),
		"--log-level=debug",
	}, invocation.flags...)
	return &externalDNS{ExternalDNS: harness.StartExternalDNS(t, invocation.binary, arguments...), source: source}
}

// awaitLoops returns after so many more loops have read the present endpoints.
func (e *externalDNS) awaitLoops(t *testing.T, loops int) {
	t.Helper()
	wanted := e.source.servedSinceSet() + loops
	harness.Eventually(t, fmt.Sprintf("external-dns looks at its sources %d times", loops), func() error {
		e.Alive(t)
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
	before := e.MustMetric(t, harness.NoOpRuns)
	harness.Eventually(t, "external-dns finds all records up to date", func() error {
		e.Alive(t)
		if now := e.MustMetric(t, harness.NoOpRuns); now <= before {
			return fmt.Errorf("%s is still %v", harness.NoOpRuns, now)
		}
		return nil
	})
}

// staysQuiet checks that further loops ask for no change and that nothing is written.
func (e *externalDNS) staysQuiet(t *testing.T, cloudflare *emulator) {
	t.Helper()
	e.StaysQuiet(t, cloudflare.Emulator)
}

// isRefused checks that ExternalDNS goes on although something it asks for is refused in every loop: that is no failure
// and costs no write.
func (e *externalDNS) isRefused(t *testing.T, cloudflare *emulator) {
	t.Helper()
	e.awaitLoops(t, 2)
	writes, asked := cloudflare.Writes(t), e.MustMetric(t, harness.ApplyCalls)
	e.awaitLoops(t, askingLoops)
	if now := e.MustMetric(t, harness.ApplyCalls); now == asked {
		t.Errorf("external-dns no longer asks for what is refused")
	}
	if now := cloudflare.Writes(t); len(now) != len(writes) {
		t.Errorf("written for what is refused: %v", now[len(writes):])
	}
	if failures := e.MustMetric(t, harness.SoftErrors); failures != 0 {
		t.Errorf("a refusal was answered as a failure: %v in a row", failures)
	}
}

// answered503 checks that the program answered so many requests 503 since its start, and no request with another failure.
func answered503(t *testing.T, program *harness.Program, requests float64) {
	t.Helper()
	if failures := program.Failures(t); failures[http.StatusServiceUnavailable] < requests || len(failures) != 1 {
		t.Errorf("the failures by their status are %v, not %v or more of 503", failures, requests)
	}
}

// failsSoftly awaits so many loops in a row that failed without ending ExternalDNS.
func (e *externalDNS) failsSoftly(t *testing.T, loops float64) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%v loops in a row fail softly", loops), func() error {
		e.Alive(t)
		if now := e.MustMetric(t, harness.SoftErrors); now < loops {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
}
