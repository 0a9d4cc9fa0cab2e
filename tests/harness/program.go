package harness

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Program is the webhook under test.
type Program struct {
	*Process
	Address     string // of the API
	observation string // where health and metrics are
	cloudflare  *Emulator
	environment []string
}

// StartProgram runs the program for these tunnels, with every other setting at its default but for the listeners.
func StartProgram(t *testing.T, cloudflare *Emulator, tunnel string, settings ...string) *Program {
	t.Helper()
	environment := append([]string{"CF_API_TOKEN=" + cloudflare.Token, "CF_TUNNEL_ID=" + tunnel}, settings...)
	return StartProgramAs(t, cloudflare, environment)
}

// StartProgramAs runs the program with these variables and arguments. Where Cloudflare is, the listeners and the level of
// the log are the test's.
func StartProgramAs(t *testing.T, cloudflare *Emulator, environment []string, arguments ...string) *Program {
	t.Helper()
	started := LaunchProgramAs(t, cloudflare, environment, arguments...)
	started.AwaitReady(t)
	return started
}

// LaunchProgramAs is StartProgramAs for a program that has no reason to be ready yet. It awaits that it is alive.
func LaunchProgramAs(t *testing.T, cloudflare *Emulator, environment []string, arguments ...string) *Program {
	t.Helper()
	port, observationPort := FreePort(t), FreePort(t)
	environment = append([]string{
		"SERVER_HOST=127.0.0.1",
		"SERVER_PORT=" + port,
		"METRICS_HOST=127.0.0.1",
		"METRICS_PORT=" + observationPort,
	}, environment...)
	launched := &Program{
		Process:     RunProgram(t, cloudflare, environment, arguments...),
		Address:     "127.0.0.1:" + port,
		observation: "http://127.0.0.1:" + observationPort,
		cloudflare:  cloudflare,
		environment: environment,
	}
	Eventually(t, "the program is alive", func() error {
		launched.Alive(t)
		return launched.Answers("/healthz")
	})
	return launched
}

// RunProgram runs any of the program's commands.
func RunProgram(t *testing.T, cloudflare *Emulator, environment []string, arguments ...string) *Process {
	t.Helper()
	environment = append([]string{"CF_API_BASE_URL=" + cloudflare.BaseURL, "LOG_LEVEL=debug"}, environment...)
	return Start(t, "program", webhookBinary, BareEnvironment(environment...), arguments...)
}

// Exec runs a command with the variables of the program at work, as `kubectl exec` does in its container.
func (p *Program) Exec(t *testing.T, arguments ...string) *Process {
	t.Helper()
	return RunProgram(t, p.cloudflare, p.environment, arguments...)
}

// AwaitReady awaits that the program can serve ExternalDNS.
func (p *Program) AwaitReady(t *testing.T) {
	t.Helper()
	Eventually(t, "the program is ready", func() error {
		p.Alive(t)
		return p.Answers("/readyz")
	})
}

// Answers says why a path of its observation port is not answered 200.
func (p *Program) Answers(path string) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(p.observation + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return nil
}

// MustMetric reads one number. The name includes the labels, where it has any.
func (p *Program) MustMetric(t *testing.T, name string) float64 {
	t.Helper()
	value, err := metric(p.observation+"/metrics", name)
	if err != nil {
		p.Alive(t)
		t.Fatal(err)
	}
	return value
}

// requestsMetric counts what the API port answered, by route and status.
const requestsMetric = "cloudflare_tunnel_webhook_requests_total"

var statusLabel = regexp.MustCompile(`status="([0-9]+)"`)

// Failures counts the API port's answers that were no success, by their status.
func (p *Program) Failures(t *testing.T) map[int]float64 {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(p.observation + "/metrics")
	if err != nil {
		p.Alive(t)
		t.Fatal(err)
	}
	defer answer.Body.Close()
	failures, answers := map[int]float64{}, 0.0
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		line, found := strings.CutPrefix(lines.Text(), requestsMetric+"{")
		if !found {
			continue
		}
		labels, value, _ := strings.Cut(line, "} ")
		count, err := strconv.ParseFloat(value, 64)
		label := statusLabel.FindStringSubmatch(labels)
		if err != nil || label == nil {
			t.Fatalf("a line of %s is %q", requestsMetric, line)
		}
		answers += count
		if status, _ := strconv.Atoi(label[1]); status >= http.StatusMultipleChoices && count > 0 {
			failures[status] += count
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if answers == 0 {
		t.Fatalf("%s counts no answer at all", requestsMetric)
	}
	return failures
}

// Tells says whether a line of its log has all of these texts.
func (p *Program) Tells(texts ...string) bool { return p.Lines(texts...) > 0 }

// Lines counts the lines of its log that have all of these texts.
func (p *Program) Lines(texts ...string) (count int) {
	for line := range strings.Lines(p.output.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			count++
		}
	}
	return count
}
