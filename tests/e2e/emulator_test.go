package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// emulator is Cloudflare on loopback, with what goes wrong there.
type emulator struct{ *harness.Emulator }

func startEmulator(t *testing.T) *emulator {
	t.Helper()
	return &emulator{harness.StartEmulator(t)}
}

// call makes a call to Cloudflare's API, and decodes the result where it is wanted.
func (e *emulator) call(t *testing.T, method, path string, body, result any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodGet {
		text = nil
	}
	request, err := http.NewRequest(method, e.BaseURL+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+e.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := struct {
		Success bool `json:"success"`
		Errors  any  `json:"errors"`
		Result  any  `json:"result"`
	}{Result: result}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || !answer.Success {
		t.Fatalf("%s %s: %s %v %v", method, path, response.Status, answer.Errors, err)
	}
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
		e.Ask(t, "POST", "/faults", body, nil)
	}
	for nth := fault.from; fault.from > 0 && nth < fault.from+faultyCalls; nth++ {
		body["nth"] = nth
		e.Ask(t, "POST", "/faults", body, nil)
	}
}

// lift ends all faults; calls that hang lose their connections.
func (e *emulator) lift(t *testing.T) {
	t.Helper()
	e.Ask(t, "DELETE", "/faults", nil, nil)
}

// watch has the host visited from now on. What it returns says what visitors got, one after another and each only once in
// a row, in whatever connector's way: the emulator looks at every change, however short.
func (e *emulator) watch(t *testing.T, host string) func() []string {
	t.Helper()
	watched := e.watchAll(t, host)
	return func() []string {
		t.Helper()
		return watched()[host]
	}
}

// watchAll is watch for several hosts, and forgets those that were watched before.
func (e *emulator) watchAll(t *testing.T, hosts ...string) func() map[string][]string {
	t.Helper()
	var urls []string
	for _, host := range hosts {
		urls = append(urls, "https://"+host+"/")
	}
	e.Ask(t, "POST", "/watch", map[string]any{"urls": urls}, nil)
	return func() map[string][]string {
		t.Helper()
		var watched []struct {
			Changes []struct {
				Got []visit `json:"got"`
			} `json:"changes"`
		}
		e.Ask(t, "GET", "/watched", nil, &watched)
		all := map[string][]string{}
		for index, host := range hosts {
			var seen []string
			for _, change := range watched[index].Changes {
				var got []string
				for _, one := range change.Got {
					got = append(got, one.String())
				}
				if now := strings.Join(got, " or "); len(seen) == 0 || now != seen[len(seen)-1] {
					seen = append(seen, now)
				}
			}
			all[host] = seen
		}
		return all
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
	e.Ask(t, "POST", "/connectors", map[string]any{"tunnel": tunnel.ID, "connectors": len(configurations)}, nil)
	e.Ask(t, "POST", "/delays", map[string]any{
		"tunnel": tunnel.ID, "configurations_ms": milliseconds, "records_ms": records.Milliseconds(),
	}, nil)
}

// passTime puts the emulator's clock ahead: what is on its way arrives.
func (e *emulator) passTime(t *testing.T, by time.Duration) {
	t.Helper()
	e.Ask(t, "POST", "/clock", map[string]any{"advance_seconds": int64(by.Seconds())}, nil)
}

// tunnelOfOthers is a tunnel that others configured by hand, in a zone where they have records: some that lead to the
// tunnel, and some that have nothing to do with it.
func (e *emulator) tunnelOfOthers(t *testing.T, name string) tunnel {
	t.Helper()
	made := e.TunnelNeverConfigured(t, name)
	// Fields that no document knows, an unusual order of keys, rules that overlap, and one without a hostname.
	e.AskRaw(t, "POST", "/configurations", []byte(`{"tunnel": "`+made.ID+`", "config": {
		"warp-routing": {"enabled": true},
		"ingress": [
			{"service": "http://legacy:8080", "hostname": "legacy.example.com", "originRequest": {"noTLSVerify": true, "x-unknown": 1.50}},
			{"hostname": "Mixed.Example.com", "path": "^/private", "service": "http://mixed-private:80"},
			{"hostname": "mixed.example.com", "service": "http://mixed:80", "x-note": "kept \u00e4s it is"},
			{"path": "^/\\.well-known/", "service": "http://well-known:80"},
			{"hostname": "*.example.com", "service": "http://everything-else:80"},
			{"service": "http_status:418"}
		]}}`), nil)
	e.Ask(t, "POST", "/records", map[string]any{
		"zone": harness.ZoneName,
		"posts": []map[string]any{
			{"type": "A", "name": "www", "content": "192.0.2.1", "ttl": 300, "comment": "the old server"},
			{"type": "MX", "name": "@", "content": "mail.example.net", "priority": 10, "ttl": 1},
			{"type": "TXT", "name": "@", "content": `"v=spf1 -all"`, "ttl": 1},
			{"type": "TXT", "name": "cname-docs", "content": `"heritage=external-dns,external-dns/owner=others"`, "ttl": 1},
			{"type": "CNAME", "name": "docs", "content": "docs.example.net", "ttl": 1},
			{"type": "CNAME", "name": "legacy", "content": made.Hostname(), "proxied": true, "ttl": 1},
			{"type": "CNAME", "name": "mixed", "content": made.Hostname(), "proxied": true, "ttl": 1, "comment": "by hand"},
			{"type": "CNAME", "name": "*", "content": made.Hostname(), "proxied": true, "ttl": 1},
		},
	}, nil)
	return made
}
