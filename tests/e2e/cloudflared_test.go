package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/e2e/edge"
	"external-dns-cloudflare-tunnel-webhook/harness"
)

// cloudflaredVariable names the binary of a real cloudflared.
const cloudflaredVariable = "CLOUDFLARED"

// tunnels is what stands between a visitor and an origin: the edge, and a real cloudflared for each tunnel.
type tunnels struct {
	*edge.Edge
	cloudflare  *emulator
	visitors    http.Client
	cloudflared []*harness.Process
	replicas    map[string]int // how many of them each tunnel has, by its id
	// What is in a document that cloudflared may refuse; empty for none.
	refusedFor string
}

// connectTunnels runs a cloudflared for each tunnel, as often as it is named, and awaits that it has the configuration that stands
// at the emulator.
func connectTunnels(t *testing.T, cloudflare *emulator, connected ...tunnel) *tunnels {
	t.Helper()
	return connectTrusting(t, cloudflare, nil, connected...)
}

// connectTrusting is connectTunnels, with authorities of origins that cloudflared trusts without an option.
func connectTrusting(t *testing.T, cloudflare *emulator, authorities []byte, connected ...tunnel) *tunnels {
	t.Helper()
	binary := os.Getenv(cloudflaredVariable)
	if binary == "" {
		t.Skipf("SKIPPED: %s names no binary of cloudflared", cloudflaredVariable)
	}
	said := &journal{}
	made, err := edge.Start(followed{cloudflare.Emulator}, said.add)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		made.Close()
		if t.Failed() {
			t.Logf("---- what the edge said\n%s", said)
		}
	})
	opened := &tunnels{Edge: made, cloudflare: cloudflare, replicas: map[string]int{}}
	opened.takeVisitors(t)
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, append(made.Certificate(), authorities...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, one := range connected {
		opened.replicas[one.ID]++
		opened.cloudflared = append(opened.cloudflared, harness.Start(t, "cloudflared", binary,
			// Its origins are on loopback, which Go never asks a proxy for.
			harness.BareEnvironment("HTTPS_PROXY="+made.Proxy(), "SSL_CERT_FILE="+authority),
			"tunnel", "--no-autoupdate", "--no-prechecks", "--edge="+made.Address(), "--edge-ip-version=4", "--protocol=http2",
			"--cacert="+authority, "--ha-connections=1", "--grace-period=1s", "--metrics=127.0.0.1:"+harness.FreePort(t),
			"run", "--token="+cloudflare.runToken(t, one)))
	}
	opened.arrives(t)
	t.Cleanup(func() { opened.haveTakenAll(t) })
	return opened
}

// journal is what the edge says while it runs, and may go on to say when its test has ended.
type journal struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (j *journal) add(format string, arguments ...any) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	fmt.Fprintf(&j.text, format+"\n", arguments...)
}

func (j *journal) String() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.String()
}

// followed is the emulator as the edge follows it.
type followed struct{ *harness.Emulator }

func (f followed) State() (state edge.State, err error) {
	err = f.Try("GET", "/state", nil, &state)
	return state, err
}

// Applied lets the emulator tell the program what the connectors have in force, in place of its own.
func (f followed) Applied(tunnel string, version, connectors int) error {
	body := fmt.Sprintf(`{"tunnel": %q, "connectors": %d, "lagging_at": %d}`, tunnel, min(connectors, 1), version)
	return f.Try("POST", "/connectors", []byte(body), nil)
}

// runToken asks for a tunnel's token as `cloudflared` is run with it.
func (e *emulator) runToken(t *testing.T, tunnel tunnel) (token string) {
	t.Helper()
	e.call(t, "GET", fmt.Sprintf("/accounts/%s/cfd_tunnel/%s/token", e.Account, tunnel.ID), nil, &token)
	return token
}

// arrives awaits that everything that stands at the emulator is where visitors meet it.
func (u *tunnels) arrives(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "everything has come to the edge and to cloudflared", func() error {
		for _, process := range u.cloudflared {
			process.Alive(t)
		}
		for id, wanted := range u.replicas {
			if found := u.Connectors(id); found != wanted {
				return fmt.Errorf("%d connectors of tunnel %s", found, id)
			}
		}
		return u.Lags()
	})
}

// haveTakenAll checks that cloudflared has in force what it was given. Of a tunnel that was never configured that is `null`,
// which it refuses.
func (u *tunnels) haveTakenAll(t *testing.T) {
	t.Helper()
	for _, push := range u.Pushes() {
		isExpected := push.Tunnel.Version == 0 || u.refusedFor != "" && strings.Contains(string(push.Tunnel.Config), u.refusedFor)
		if push.IsRefused() && !isExpected {
			t.Errorf("cloudflared stays at version %d, refusing %d: %s", push.Applied, push.Tunnel.Version, push.Tunnel.Config)
		}
	}
}

// takeVisitors makes the client that finds every host at the edge.
func (u *tunnels) takeVisitors(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(u.Edge)
	t.Cleanup(server.Close)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
		MaxIdleConnsPerHost: 64,
	}
	t.Cleanup(transport.CloseIdleConnections)
	u.visitors = http.Client{
		Transport:     transport,
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is what a visitor gets.
type answer struct {
	status int
	text   string
	header http.Header
	met    met // what the origin met, where one of the test answered
}

// met is what an origin of a test tells of a request.
type met struct {
	Origin           string // the service that leads to it
	Host             string
	Path             string
	Protocol         string
	ServerName       string // by which TLS was asked for
	ContentLength    int64
	TransferEncoding []string
	Connection       string // the client's address
	HasAssertion     bool
}

// String is in the words of the emulator, without the tunnel.
func (a answer) String() string {
	if a.met.Origin != "" {
		return a.met.Origin
	}
	if a.text != "" {
		return a.text
	}
	return fmt.Sprintf("http_status:%d", a.status)
}

// visit asks for a path of a host, which may have escapes.
func (u *tunnels) visit(host, path string, with ...func(*http.Request)) (answer, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return answer{}, err
	}
	for _, change := range with {
		change(request)
	}
	response, err := u.visitors.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: response.StatusCode, text: strings.TrimSpace(string(text)), header: response.Header}
	if response.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(text, &got.met)
	}
	return got, err
}

// gets checks what a visitor gets.
func (u *tunnels) gets(t *testing.T, host, path, wanted string, with ...func(*http.Request)) answer {
	t.Helper()
	got, err := u.visit(host, path, with...)
	if err != nil {
		t.Fatalf("a visitor of %s%s: %v", host, path, err)
	}
	if got.String() != wanted {
		t.Errorf("a visitor of %s%s gets %d %s, not %s", host, path, got.status, got, wanted)
	}
	return got
}
