package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"
)

// emulator is Cloudflare on loopback. The test looks into it and plays other writers through its control endpoints,
// which neither count as calls nor suffer faults. `cloudflare-emulator --help` describes them.
type emulator struct {
	*process
	baseURL string
	token   string
	control string
}

// startEmulator starts it with what its binary sets up by itself: among others the zone example.com with a record of
// somebody else's, and the tunnel `shop`, which was never configured.
func startEmulator(t *testing.T) *emulator {
	t.Helper()
	child := start(t, "emulator", emulatorBinary, bareEnvironment())
	var ready struct {
		BaseURL    string `json:"base_url"`
		ControlURL string `json:"control_url"`
		Token      string `json:"token"`
	}
	eventually(t, "the emulator says where it listens", func() error {
		child.alive(t)
		line, _, complete := strings.Cut(child.output.String(), "\n")
		if !complete {
			return fmt.Errorf("it said %q", line)
		}
		return json.Unmarshal([]byte(line), &ready)
	})
	return &emulator{process: child, baseURL: ready.BaseURL, token: ready.Token, control: ready.ControlURL}
}

// ask makes a call of a control endpoint and decodes the answer, where an answer is wanted.
func (e *emulator) ask(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	e.askRaw(t, method, path, text, answer)
}

func (e *emulator) askRaw(t *testing.T, method, path string, body []byte, answer any) {
	t.Helper()
	if err := e.try(method, path, body, answer); err != nil {
		e.alive(t)
		t.Fatal(err)
	}
}

// try says what went wrong in place of ending the test.
func (e *emulator) try(method, path string, body []byte, answer any) error {
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

// state is all that the emulator holds.
func (e *emulator) state(t *testing.T) (state struct {
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
	e.ask(t, "GET", "/state", nil, &state)
	return state
}

// call is one that reached the emulator. Status is 0 where there was no answer.
type call struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Status int    `json:"status"`
	Body   string `json:"body"`
}

func (c call) String() string {
	return fmt.Sprintf("%s %s -> %d %s", c.Method, c.Path, c.Status, c.Body)
}

// calls is every call since the start, oldest first.
func (e *emulator) calls(t *testing.T) (calls []call) {
	t.Helper()
	e.ask(t, "GET", "/calls", nil, &calls)
	return calls
}

// writes is every call that asked for a change, answered or not.
func (e *emulator) writes(t *testing.T) (writes []call) {
	t.Helper()
	for _, call := range e.calls(t) {
		if call.Method != http.MethodGet {
			writes = append(writes, call)
		}
	}
	return writes
}

// fault is what goes wrong with matching calls: all of them, only the first, or all from one on.
type fault struct {
	method string // "" is any
	path   string // "*" stands for one segment, "**" at the end for any number
	what   any    // as the control endpoint takes it
	once   bool
	from   int // from this matching call on, counted from 1; 0 is 1
}

// faultyCalls is how many calls a fault hits that does not begin with the first: more than a test lets happen.
const faultyCalls = 100

// meets says whether the fault is for this call. Only the last segment of its path is looked at.
func (f fault) meets(call call) bool {
	return (f.method == "" || f.method == call.Method) && path.Base(f.path) == path.Base(call.Path)
}

// inject arms a fault. Of several that meet a call the one armed first acts.
func (e *emulator) inject(t *testing.T, fault fault) {
	t.Helper()
	body := map[string]any{"path": fault.path, "fault": fault.what}
	if fault.method != "" {
		body["method"] = fault.method
	}
	if fault.once {
		body["nth"] = 1
	}
	if fault.from == 0 {
		e.ask(t, "POST", "/faults", body, nil)
	}
	for nth := fault.from; fault.from > 0 && nth < fault.from+faultyCalls; nth++ {
		body["nth"] = nth
		e.ask(t, "POST", "/faults", body, nil)
	}
}

// lift ends all faults; calls that hang lose their connections.
func (e *emulator) lift(t *testing.T) {
	t.Helper()
	e.ask(t, "DELETE", "/faults", nil, nil)
}

// visit is what a visitor gets.
type visit struct {
	Text    string `json:"text"`
	Tunnel  string `json:"tunnel"`
	Service string `json:"service"`
}

// String says the service of a tunnel's rule, or what is in the way.
func (v visit) String() string {
	if v.Tunnel == "" {
		return v.Text
	}
	return v.Service + " through " + v.Tunnel
}

// visit says what a visitor of the host gets.
func (e *emulator) visit(t *testing.T, host, path string) string {
	t.Helper()
	var seen visit
	e.ask(t, "POST", "/visit", map[string]string{"host": host, "path": path}, &seen)
	return seen.String()
}

// watch has the host visited from now on. What it returns says what visitors got, one after another and each only once in
// a row, in whatever connector's way: the emulator looks at every change, however short.
func (e *emulator) watch(t *testing.T, host string) func() []string {
	t.Helper()
	e.ask(t, "POST", "/watch", map[string]any{"urls": []string{"https://" + host + "/"}}, nil)
	return func() (seen []string) {
		t.Helper()
		var watched []struct {
			Changes []struct {
				Got []visit `json:"got"`
			} `json:"changes"`
		}
		e.ask(t, "GET", "/watched", nil, &watched)
		for _, change := range watched[0].Changes {
			var got []string
			for _, one := range change.Got {
				got = append(got, one.String())
			}
			if now := strings.Join(got, " or "); len(seen) == 0 || now != seen[len(seen)-1] {
				seen = append(seen, now)
			}
		}
		return seen
	}
}

// delay lets what is written from now on take its time to each of the tunnel's connectors, of which there are as many, and
// to the resolvers.
func (e *emulator) delay(t *testing.T, tunnel tunnel, records time.Duration, configurations ...time.Duration) {
	t.Helper()
	var milliseconds []int64
	for _, one := range configurations {
		milliseconds = append(milliseconds, one.Milliseconds())
	}
	e.ask(t, "POST", "/connectors", map[string]any{"tunnel": tunnel.id, "connectors": len(configurations)}, nil)
	e.ask(t, "POST", "/delays", map[string]any{
		"tunnel": tunnel.id, "configurations_ms": milliseconds, "records_ms": records.Milliseconds(),
	}, nil)
}

// passTime puts the emulator's clock ahead: what is on its way arrives.
func (e *emulator) passTime(t *testing.T, by time.Duration) {
	t.Helper()
	e.ask(t, "POST", "/clock", map[string]any{"advance_seconds": int64(by.Seconds())}, nil)
}

// tunnelNeverConfigured is a fresh tunnel.
func (e *emulator) tunnelNeverConfigured(t *testing.T, name string) tunnel {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	e.ask(t, "POST", "/tunnels", map[string]string{"name": name}, &made)
	return tunnel{made.ID}
}

// tunnelNamed is a tunnel that was there from the start.
func (e *emulator) tunnelNamed(t *testing.T, name string) tunnel {
	t.Helper()
	for _, held := range e.state(t).Tunnels {
		if held.Name == name {
			return tunnel{held.ID}
		}
	}
	t.Fatalf("there is no tunnel %s", name)
	return tunnel{}
}

// tunnelOfOthers is a tunnel that others configured by hand, in a zone where they have records: some that lead to the
// tunnel, and some that have nothing to do with it.
func (e *emulator) tunnelOfOthers(t *testing.T, name string) tunnel {
	t.Helper()
	made := e.tunnelNeverConfigured(t, name)
	// Fields that no document knows, an unusual order of keys, rules that overlap, and one without a hostname.
	e.askRaw(t, "POST", "/configurations", []byte(`{"tunnel": "`+made.id+`", "config": {
		"warp-routing": {"enabled": true},
		"ingress": [
			{"service": "http://legacy:8080", "hostname": "legacy.example.com", "originRequest": {"noTLSVerify": true, "x-unknown": 1.50}},
			{"hostname": "Mixed.Example.com", "path": "^/private", "service": "http://mixed-private:80"},
			{"hostname": "mixed.example.com", "service": "http://mixed:80", "x-note": "kept \u00e4s it is"},
			{"path": "^/\\.well-known/", "service": "http://well-known:80"},
			{"hostname": "*.example.com", "service": "http://everything-else:80"},
			{"service": "http_status:418"}
		]}}`), nil)
	e.ask(t, "POST", "/records", map[string]any{
		"zone": zoneName,
		"posts": []map[string]any{
			{"type": "A", "name": "www", "content": "192.0.2.1", "ttl": 300, "comment": "the old server"},
			{"type": "MX", "name": "@", "content": "mail.example.net", "priority": 10, "ttl": 1},
			{"type": "TXT", "name": "@", "content": `"v=spf1 -all"`, "ttl": 1},
			{"type": "TXT", "name": "cname-docs", "content": `"heritage=external-dns,external-dns/owner=somebody"`, "ttl": 1},
			{"type": "CNAME", "name": "docs", "content": "docs.example.net", "ttl": 1},
			{"type": "CNAME", "name": "legacy", "content": made.hostname(), "proxied": true, "ttl": 1},
			{"type": "CNAME", "name": "mixed", "content": made.hostname(), "proxied": true, "ttl": 1, "comment": "by hand"},
			{"type": "CNAME", "name": "*", "content": made.hostname(), "proxied": true, "ttl": 1},
		},
	}, nil)
	return made
}
