package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// program is the webhook under test.
type program struct {
	*process
	address string // of the API
}

// startProgram runs the program for these tunnels, with every other setting at its default but for the listeners.
func startProgram(t *testing.T, cloudflare *emulator, tunnel string, settings ...string) *program {
	t.Helper()
	port, observationPort := freePort(t), freePort(t)
	environment := bareEnvironment(append([]string{
		"CF_API_TOKEN=" + cloudflare.token,
		"CF_API_BASE_URL=" + cloudflare.baseURL,
		"CF_TUNNEL_ID=" + tunnel,
		"SERVER_HOST=127.0.0.1",
		"SERVER_PORT=" + port,
		"METRICS_HOST=127.0.0.1",
		"METRICS_PORT=" + observationPort,
		"LOG_LEVEL=debug",
	}, settings...)...)
	child := start(t, "program", webhookBinary, environment)
	client := http.Client{Timeout: 5 * time.Second}
	eventually(t, "the program is ready", func() error {
		child.alive(t)
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
	return &program{process: child, address: "127.0.0.1:" + port}
}

// tells says whether a line of its log has all of these texts.
func (p *program) tells(texts ...string) bool { return p.lines(texts...) > 0 }

// lines counts the lines of its log that have all of these texts.
func (p *program) lines(texts ...string) (count int) {
	for line := range strings.Lines(p.output.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			count++
		}
	}
	return count
}
