package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Emulator is Cloudflare on loopback. The test looks into it and plays other writers through its control endpoints,
// which neither count as calls nor suffer faults. `cloudflare-emulator --help` describes them.
type Emulator struct {
	*Process
	BaseURL string
	Token   string
	Account string
	control string
}

// StartEmulator starts it with what its binary sets up by itself: among others the zone example.com with a foreign
// record, and the tunnel `shop`, which was never configured. Arguments may change that.
func StartEmulator(t *testing.T, arguments ...string) *Emulator {
	t.Helper()
	child := Start(t, "emulator", emulatorBinary, BareEnvironment(), arguments...)
	var ready struct {
		BaseURL    string `json:"base_url"`
		ControlURL string `json:"control_url"`
		Token      string `json:"token"`
		Account    string `json:"account_id"`
	}
	Eventually(t, "the emulator says where it listens", func() error {
		child.Alive(t)
		line, _, complete := strings.Cut(child.output.String(), "\n")
		if !complete {
			return fmt.Errorf("it said %q", line)
		}
		return json.Unmarshal([]byte(line), &ready)
	})
	return &Emulator{Process: child, BaseURL: ready.BaseURL, Token: ready.Token, Account: ready.Account, control: ready.ControlURL}
}

// Ask makes a call of a control endpoint and decodes the answer, where an answer is wanted.
func (e *Emulator) Ask(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	e.AskRaw(t, method, path, text, answer)
}

func (e *Emulator) AskRaw(t *testing.T, method, path string, body []byte, answer any) {
	t.Helper()
	if err := e.Try(method, path, body, answer); err != nil {
		e.Alive(t)
		t.Fatal(err)
	}
}

// Try says what went wrong in place of ending the test.
func (e *Emulator) Try(method, path string, body []byte, answer any) error {
	request, err := http.NewRequest(method, e.control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("emulator: %s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("emulator: %s %s: %v in %s", method, path, err, text)
	}
	return nil
}

// State is all that the emulator holds.
func (e *Emulator) State(t *testing.T) (state struct {
	Zones []struct {
		Name    string          `json:"name"`
		Records json.RawMessage `json:"records"`
	} `json:"zones"`
	Tunnels []struct {
		ID     string          `json:"id"`
		Name   string          `json:"name"`
		Config json.RawMessage `json:"config"`
	} `json:"tunnels"`
}) {
	t.Helper()
	e.Ask(t, "GET", "/state", nil, &state)
	return state
}

// Call is one that reached the emulator. Status is 0 where there was no answer.
type Call struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Status int    `json:"status"`
	Body   string `json:"body"`
}

func (c Call) String() string {
	return fmt.Sprintf("%s %s -> %d %s", c.Method, c.Path, c.Status, c.Body)
}

// Calls is every call since the start, oldest first.
func (e *Emulator) Calls(t *testing.T) (calls []Call) {
	t.Helper()
	e.Ask(t, "GET", "/calls", nil, &calls)
	return calls
}

// Writes is every call that asked for a change, answered or not.
func (e *Emulator) Writes(t *testing.T) (writes []Call) {
	t.Helper()
	for _, call := range e.Calls(t) {
		if call.Method != http.MethodGet {
			writes = append(writes, call)
		}
	}
	return writes
}

// SetUpAccess gives the account a team and the reusable policies staff and on-call.
func (e *Emulator) SetUpAccess(t *testing.T) {
	t.Helper()
	e.Ask(t, "POST", "/access", map[string]any{"team": "my-team"}, nil)
	for _, name := range []string{"staff", "on-call"} {
		include := []any{map[string]any{"email_domain": map[string]any{"domain": "example.com"}}}
		e.Ask(t, "POST", "/policies", map[string]any{"name": name, "decision": "allow", "include": include}, nil)
	}
}

// Visit is what a visitor gets.
type Visit struct {
	Text    string `json:"text"`
	Tunnel  string `json:"tunnel"`
	Service string `json:"service"`
	// The status with which cloudflared refuses a visitor without a login at Cloudflare Access.
	Refused int `json:"refused"`
}

// String says the service of a tunnel's rule, or what is in the way.
func (v Visit) String() string {
	if v.Tunnel == "" {
		return v.Text
	}
	if v.Refused != 0 {
		return fmt.Sprintf("%d through %s", v.Refused, v.Tunnel)
	}
	return v.Service + " through " + v.Tunnel
}

// Visit says what a visitor of the host gets.
func (e *Emulator) Visit(t *testing.T, host, path string) string {
	t.Helper()
	var seen Visit
	e.Ask(t, "POST", "/visit", map[string]string{"host": host, "path": path}, &seen)
	return seen.String()
}

// Secrets is every secret and tunnel token that a tunnel has or had.
func (e *Emulator) Secrets(t *testing.T) (secrets []string) {
	t.Helper()
	e.Ask(t, "GET", "/secrets", nil, &secrets)
	return secrets
}

// Connect plays a cloudflared that is started with a tunnel token: one more connector of the tunnel that it is for.
func (e *Emulator) Connect(token string) (Tunnel, error) {
	body, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		return Tunnel{}, err
	}
	var connected struct {
		ID string `json:"id"`
	}
	err = e.Try("POST", "/run", body, &connected)
	return Tunnel{connected.ID}, err
}

// SetConnectors says how many replicas of cloudflared the tunnel has.
func (e *Emulator) SetConnectors(t *testing.T, tunnel Tunnel, count int) {
	t.Helper()
	e.Ask(t, "POST", "/connectors", map[string]any{"tunnel": tunnel.ID, "connectors": count}, nil)
}

// TunnelNeverConfigured is a fresh tunnel.
func (e *Emulator) TunnelNeverConfigured(t *testing.T, name string) Tunnel {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	e.Ask(t, "POST", "/tunnels", map[string]string{"name": name}, &made)
	return Tunnel{made.ID}
}

// TunnelNamed is a tunnel that was there from the start.
func (e *Emulator) TunnelNamed(t *testing.T, name string) Tunnel {
	t.Helper()
	for _, held := range e.State(t).Tunnels {
		if held.Name == name {
			return Tunnel{held.ID}
		}
	}
	t.Fatalf("there is no tunnel %s", name)
	return Tunnel{}
}
