package harness

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Metrics of ExternalDNS.
const (
	NoOpRuns   = "external_dns_controller_no_op_runs_total"
	SoftErrors = "external_dns_controller_consecutive_soft_errors"
	ApplyCalls = "external_dns_webhook_provider_applychanges_requests_total"
)

// So many loops without a change in a row make a fixed point.
const quietLoops = 3

// ExternalDNS is the real one.
type ExternalDNS struct {
	*Process
	metrics string
}

// LaunchExternalDNS runs it with these arguments; where it shows its metrics is added. It may end at once.
func LaunchExternalDNS(t *testing.T, binary string, arguments ...string) *ExternalDNS {
	t.Helper()
	return launchExternalDNS(t, nil, binary, arguments...)
}

func launchExternalDNS(t *testing.T, variables []string, binary string, arguments ...string) *ExternalDNS {
	t.Helper()
	address := "127.0.0.1:" + FreePort(t)
	child := Start(t, "external-dns", binary, BareEnvironment(variables...), append(arguments, "--metrics-address="+address)...)
	return &ExternalDNS{Process: child, metrics: "http://" + address + "/metrics"}
}

// StartExternalDNS is LaunchExternalDNS for one that has to run.
func StartExternalDNS(t *testing.T, binary string, arguments ...string) *ExternalDNS {
	t.Helper()
	return StartExternalDNSIn(t, nil, binary, arguments...)
}

// StartExternalDNSIn is StartExternalDNS with variables in its environment.
func StartExternalDNSIn(t *testing.T, variables []string, binary string, arguments ...string) *ExternalDNS {
	t.Helper()
	started := launchExternalDNS(t, variables, binary, arguments...)
	Eventually(t, "external-dns shows its metrics", func() error {
		started.Alive(t)
		_, err := started.Metric(NoOpRuns)
		return err
	})
	return started
}

// Metric reads one number. The name includes the labels, where it has any.
func (e *ExternalDNS) Metric(name string) (float64, error) { return metric(e.metrics, name) }

// metric reads one number of those that stand at an address.
func metric(address, name string) (float64, error) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(address)
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

func (e *ExternalDNS) MustMetric(t *testing.T, name string) float64 {
	t.Helper()
	value, err := e.Metric(name)
	if err != nil {
		e.Alive(t)
		t.Fatal(err)
	}
	return value
}

// StaysQuiet checks that several further loops ask for no change, and that nothing is written at Cloudflare meanwhile.
func (e *ExternalDNS) StaysQuiet(t *testing.T, cloudflare *Emulator) {
	t.Helper()
	noOps, applies, writes := e.MustMetric(t, NoOpRuns), e.MustMetric(t, ApplyCalls), cloudflare.Writes(t)
	Eventually(t, "external-dns goes on looping", func() error {
		e.Alive(t)
		if now := e.MustMetric(t, NoOpRuns); now < noOps+quietLoops {
			return fmt.Errorf("%v of %d quiet loops", now-noOps, quietLoops)
		}
		return nil
	})
	if now := e.MustMetric(t, ApplyCalls); now != applies {
		t.Errorf("external-dns asked for %v more changes after its fixed point", now-applies)
	}
	if now := cloudflare.Writes(t); len(now) != len(writes) {
		t.Errorf("written after the fixed point: %v", now[len(writes):])
	}
}
