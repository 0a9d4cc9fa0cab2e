package e2e

import (
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// option is one that an origin or its visitor can feel.
type option struct {
	name       string
	service    string
	properties []property
	wanted     int // the status that a visitor gets
	feels      func(answer) bool
}

func any200(answer) bool { return true }

// Each option does at the real cloudflared what it says.
func TestCloudflaredTalksToAnOriginAsItsOptionsSay(t *testing.T) {
	t.Parallel()
	plain := startOrigin(t)
	secure := startOriginWith(t, func(server *httptest.Server) { server.StartTLS() })
	modern := startOriginWith(t, func(server *httptest.Server) { server.EnableHTTP2 = true; server.StartTLS() })
	authority := filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	trusting, unverified := property{"origin-ca-pool", authority}, property{"origin-no-tls-verify", "true"}
	host := func(wanted string) func(answer) bool {
		return func(got answer) bool { return got.met.Host == wanted }
	}
	serverName := func(wanted string) func(answer) bool {
		return func(got answer) bool { return got.met.ServerName == wanted }
	}
	protocol := func(wanted string) func(answer) bool {
		return func(got answer) bool { return got.met.Protocol == wanted }
	}
	options := []option{
		{"no-option", plain, nil, 200, func(got answer) bool {
			return got.met.Host == "no-option.example.com" && got.met.Protocol == "HTTP/1.1"
		}},
		{"host-header", plain, []property{{"origin-http-host-header", "inside.test"}}, 200, host("inside.test")},
		{"verified", secure.URL, nil, 502, any200},
		{"unverified", secure.URL, []property{unverified}, 200, serverName("")},
		{"trusted", secure.URL, []property{trusting}, 200, any200},
		{"named", secure.URL, []property{trusting, {"origin-server-name", "example.com"}}, 200, serverName("example.com")},
		{"misnamed", secure.URL, []property{trusting, {"origin-server-name", "other.test"}}, 502, any200},
		{"matched", secure.URL, []property{unverified, {"origin-match-sni-to-host", "true"}}, 200, serverName("matched.example.com")},
		{"http1", modern.URL, []property{unverified}, 200, protocol("HTTP/1.1")},
		{"http2", modern.URL, []property{unverified, {"origin-http2-origin", "true"}}, 200, protocol("HTTP/2.0")},
		{"unix", "unix:" + startOriginAtSocket(t, false), nil, 200, any200},
		{"unix-tls", "unix+tls:" + startOriginAtSocket(t, true), []property{unverified}, 200, any200},
		{"hello", "hello_world", nil, 200, func(got answer) bool { return strings.Contains(got.text, "Congrats") }},
		{"teapot", "http_status:418", nil, 418, any200},
		{"harmless", plain, []property{{"origin-no-happy-eyeballs", "true"}, {"origin-tcp-keep-alive", "10s"},
			{"origin-keep-alive-connections", "1"}, {"origin-keep-alive-timeout", "1m"}, {"origin-proxy-address", "127.0.0.1"},
			{"origin-proxy-port", "0"}}, 200, any200},
	}

	cloudflare := startEmulator(t)
	home := cloudflare.TunnelNeverConfigured(t, "home")
	open := connectTunnels(t, cloudflare, home)
	pod := deployWith(t, invocation{registry: noop}, cloudflare, home.ID, "ORIGIN_CA_POOLS="+authority)
	lingering := startLingering(t)
	endpoints := []*endpoint.Endpoint{
		published("chunked.example.com", plain),
		published("whole.example.com", plain, property{"origin-disable-chunked-encoding", "true"}),
		published("mute.example.com", "https://"+startMute(t), property{"origin-tls-timeout", "1s"}),
		published("full.example.com", "http://"+startFull(t), property{"origin-connect-timeout", "1s"}),
		published("lingering.example.com", lingering.URL, property{"origin-keep-alive-timeout", "1s"}),
	}
	for _, one := range options {
		endpoints = append(endpoints, published(one.name+".example.com", one.service, one.properties...))
	}
	pod.source.set(endpoints...)
	pod.settles(t)
	open.arrives(t)

	for _, one := range options {
		t.Run(one.name, func(t *testing.T) {
			got, err := open.visit(one.name+".example.com", "/")
			if err != nil {
				t.Fatal(err)
			}
			if got.status != one.wanted || !one.feels(got) {
				t.Errorf("a visitor gets %d %s, and the origin met %+v", got.status, got, got.met)
			}
		})
	}
	t.Run("a body of unknown length", func(t *testing.T) {
		streamed := func(request *http.Request) {
			request.Method, request.Body, request.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader("four")), -1
		}
		for host, isChunked := range map[string]bool{"chunked.example.com": true, "whole.example.com": false} {
			got, err := open.visit(host, "/", streamed)
			if err != nil {
				t.Fatal(err)
			}
			if got.met.Origin != plain || slices.Contains(got.met.TransferEncoding, "chunked") != isChunked {
				t.Errorf("%s: %d %s, and the origin met %+v", host, got.status, got, got.met)
			}
		}
	})
	t.Run("times after which an origin is given up", func(t *testing.T) {
		for _, host := range []string{"mute.example.com", "full.example.com"} {
			begun := time.Now()
			got, err := open.visit(host, "/")
			if err != nil {
				t.Fatal(err)
			}
			// cloudflared's own are 10 s and 30 s.
			if lasted := time.Since(begun); got.status != 502 || lasted < time.Second || lasted > 8*time.Second {
				t.Errorf("%s: %d after %s", host, got.status, lasted)
			}
		}
	})
	t.Run("the time after which an idle connection is closed", func(t *testing.T) {
		open.gets(t, "lingering.example.com", "/", lingering.URL)
		// cloudflared's own is 90 s.
		harness.EventuallyWithin(t, 20*time.Second, "the connection is closed", func() error {
			select {
			case <-lingering.closed:
				return nil
			default:
				return errors.New("it is kept")
			}
		})
	})
}

// startOriginAtSocket runs an origin at a path.
func startOriginAtSocket(t *testing.T, secure bool) (path string) {
	t.Helper()
	// The path of a socket has room for 107 bytes.
	folder, err := os.MkdirTemp("", "origin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path = filepath.Join(folder, "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: tell(path)}}
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return path
}

// lingering is an origin that sees when its first connection is closed, which it never does itself.
type lingering struct {
	*httptest.Server
	closed chan struct{}
}

func startLingering(t *testing.T) lingering {
	t.Helper()
	closed := make(chan struct{}, 1)
	server := startOriginWith(t, func(server *httptest.Server) {
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				select {
				case closed <- struct{}{}:
				default:
				}
			}
		}
		server.Start()
	})
	return lingering{server, closed}
}

// startMute listens, takes connections and says nothing.
func startMute(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	// What is not accepted waits in the kernel, connected.
	return listener.Addr().String()
}

// startFull is an address where no client is refused and none gets in: as many wait there as have room.
func startFull(t *testing.T) (address string) {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	port := harness.FreePort(t)
	var number int
	for _, digit := range port {
		number = 10*number + int(digit-'0')
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	address = net.JoinHostPort("127.0.0.1", port)
	for range 8 {
		connection, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
	t.Fatalf("%s is never full", address)
	return ""
}
