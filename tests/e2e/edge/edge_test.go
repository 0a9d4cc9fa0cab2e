package edge

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// pretended is an emulator and a connector that are not there: it says what a test sets, and plays the recorded conversation.
type pretended struct {
	t *testing.T

	mutex   sync.Mutex
	state   State
	applied int // what the edge tells the emulator
	pushed  []string
	refuses bool
	ends    chan struct{}
}

func (p *pretended) State() (State, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state, nil
}

func (p *pretended) Applied(tunnel string, version, connectors int) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if tunnel != recordedTunnel || connectors != 1 {
		p.t.Errorf("%d connectors of tunnel %s", connectors, tunnel)
	}
	p.applied = version
	return nil
}

func (p *pretended) stand(version int, config string, records ...Record) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.state = State{
		Zones:   []Zone{{Name: "example.com", Records: records}},
		Tunnels: []Tunnel{{ID: recordedTunnel, Version: version, Config: json.RawMessage(config)}},
	}
}

// ServeHTTP is the connector's side of the edge's requests.
func (p *pretended) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	switch request.Header.Get(upgradeHeader) {
	case controlStream:
		for index, said := range []string{recordedBootstrap, recordedRegistration, recordedFinish, recordedUnregistration} {
			if index == 3 {
				<-p.ends
			}
			_, _ = writer.Write(decoded(p.t, said))
			writer.(http.Flusher).Flush()
			if said != recordedFinish {
				if _, err := readMessage(request.Body); err != nil {
					p.t.Errorf("the answer to message %d: %v", index, err)
				}
			}
		}
	case updateConfiguration:
		var update struct {
			Version int             `json:"version"`
			Config  json.RawMessage `json:"config"`
		}
		if err := json.NewDecoder(request.Body).Decode(&update); err != nil {
			p.t.Error(err)
		}
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.pushed = append(p.pushed, fmt.Sprintf("%d %s", update.Version, update.Config))
		if p.refuses {
			update.Version = 1
		}
		_, _ = fmt.Fprintf(writer, `{"lastAppliedVersion":%d,"err":null}`, update.Version)
	default:
		encode := base64.RawStdEncoding.EncodeToString
		writer.Header().Set(originHeaders, encode([]byte("X-Origin"))+":"+encode([]byte("one"))+";"+
			encode([]byte("X-Origin"))+":"+encode([]byte("two; three")))
		// An answer from 300 on ends what is still to be sent of the question.
		body, _ := io.ReadAll(request.Body)
		writer.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(writer, "%s %s %s %s", request.Host, request.URL, body, request.Header.Get(assertionHeader))
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func TestAConnectorGetsConfigurationsAndVisitors(t *testing.T) {
	led := Record{Name: "web.example.com", Type: "CNAME", Content: recordedTunnel + tunnelSuffix, Proxied: true}
	other := &pretended{t: t, ends: make(chan struct{})}
	other.stand(1, `{"a": 1}`, led)
	edge, err := Start(other, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	visit := func(host string, change ...func(*http.Request)) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/path?query", strings.NewReader("body"))
		request.Host = host
		for _, one := range change {
			one(request)
		}
		recorder := httptest.NewRecorder()
		edge.ServeHTTP(recorder, request)
		return recorder
	}
	if answer := visit("web.example.com"); answer.Code != statusOfEdge || strings.TrimSpace(answer.Body.String()) != "error 1033" {
		t.Errorf("without a connector: %d %s", answer.Code, answer.Body)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(edge.Certificate())
	dialled, err := tls.Dial("tcp", edge.Address(), &tls.Config{RootCAs: roots, ServerName: "h2.cftunnel.com"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		(&http2.Server{}).ServeConn(dialled, &http2.ServeConnOpts{Handler: other})
	}()
	arrived := func() bool { return edge.Connectors(recordedTunnel) == 1 && edge.Lags() == nil }
	eventually(t, "the connector has the configuration", arrived)

	answer := visit("Web.Example.com")
	met := strings.TrimSpace(answer.Body.String())
	if answer.Code != http.StatusTeapot || met != "web.example.com /path?query body" {
		t.Errorf("a visitor gets %d %s", answer.Code, answer.Body)
	}
	if headers := answer.Header()["X-Origin"]; len(headers) != 2 || headers[1] != "two; three" {
		t.Errorf("the origin's headers are %q", headers)
	}

	edge.SetDelays(Delays{Configurations: time.Hour, Records: time.Hour})
	other.stand(2, `{"a": 2}`)
	edge.look(other.state, time.Now())
	if edge.Lags() == nil {
		t.Error("what has changed is there at once")
	}
	edge.mutex.Lock()
	if version := edge.connectors[0].configurations.inForce.Version; version != 1 {
		t.Errorf("version %d is to be pushed before its time", version)
	}
	edge.mutex.Unlock()
	if answer := visit("web.example.com"); answer.Code != http.StatusTeapot {
		t.Errorf("a record is gone before its time: %d %s", answer.Code, answer.Body)
	}
	edge.look(other.state, time.Now().Add(time.Hour))
	eventually(t, "it has arrived", arrived)
	if answer := visit("web.example.com"); strings.TrimSpace(answer.Body.String()) != "NXDOMAIN" {
		t.Errorf("without a record: %d %s", answer.Code, answer.Body)
	}

	edge.SetDelays(Delays{})
	other.mutex.Lock()
	other.refuses = true
	other.mutex.Unlock()
	other.stand(3, `{"a": 3}`, led)
	eventually(t, "it has arrived", arrived)
	pushes := edge.Pushes()
	if len(pushes) != 3 || pushes[0].IsRefused() || pushes[1].IsRefused() || !pushes[2].IsRefused() {
		t.Errorf("the pushes are %+v", pushes)
	}
	eventually(t, "the emulator is told of the version in force", func() bool {
		other.mutex.Lock()
		defer other.mutex.Unlock()
		return other.applied == 1
	})
	edge.look(other.state, time.Now()) // what was refused is not pushed again

	close(other.ends)
	eventually(t, "the connector has gone", func() bool { return edge.Connectors(recordedTunnel) == 0 })
	edge.Close()
	<-served
	if wanted := []string{`1 {"a":1}`, `2 {"a":2}`, `3 {"a":3}`}; !slices.Equal(other.pushed, wanted) {
		t.Errorf("the connector got %q", other.pushed)
	}
}

// cloudflared fetches a team's keys through the proxy that it is given, and only a team's.
func TestATeamPublishesTheKeyThatItsTokensAreSignedWith(t *testing.T) {
	other := &pretended{t: t}
	other.stand(0, "null")
	edge, err := Start(other, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer edge.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(edge.Certificate())
	client := proxiedClient(t, edge, roots)
	response, err := client.Get("https://my-team.cloudflareaccess.com/cdn-cgi/access/certs")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var published struct {
		Keys []struct {
			N string `json:"n"`
		} `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&published); err != nil {
		t.Fatal(err)
	}
	modulus := base64.RawURLEncoding.EncodeToString(edge.key.N.Bytes())
	if len(published.Keys) != 1 || published.Keys[0].N != modulus {
		t.Errorf("the keys are %+v", published)
	}
	if _, err := client.Get("https://elsewhere.test/"); err == nil {
		t.Error("the proxy leads elsewhere")
	}
	token, err := edge.Token("my-team", "first", time.Now().Add(time.Hour))
	if err != nil || strings.Count(token, ".") != 2 {
		t.Errorf("the token is %q %v", token, err)
	}
}

func proxiedClient(t *testing.T, edge *Edge, roots *x509.CertPool) *http.Client {
	t.Helper()
	address, err := url.Parse(edge.Proxy())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(address), TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}
