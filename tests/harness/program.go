package harness

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Program is the webhook under test.
type Program struct {
	*Process
	Address string // of the API
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
	port, observationPort := FreePort(t), FreePort(t)
	environment = append([]string{
		"CF_API_BASE_URL=" + cloudflare.BaseURL,
		"SERVER_HOST=127.0.0.1",
		"SERVER_PORT=" + port,
		"METRICS_HOST=127.0.0.1",
		"METRICS_PORT=" + observationPort,
		"LOG_LEVEL=debug",
	}, environment...)
	child := Start(t, "program", webhookBinary, BareEnvironment(environment...), arguments...)
	client := http.Client{Timeout: 5 * time.Second}
	Eventually(t, "the program is ready", func() error {
		child.Alive(t)
		answer, err := client.Get("http://127.0.0.1:" + observationPort + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", answer.Status)
		}
		return nil
	})
	return &Program{Process: child, Address: "127.0.0.1:" + port}
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
