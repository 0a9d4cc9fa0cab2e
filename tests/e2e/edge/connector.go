package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// The kind of a request to cloudflared that is not a visitor's.
	upgradeHeader       = "Cf-Cloudflared-Proxy-Connection-Upgrade"
	controlStream       = "control-stream"
	updateConfiguration = "update-configuration"
	// Where cloudflared packs what an origin answers beside the status and the body.
	originHeaders = "Cf-Cloudflared-Response-Headers"
	// cloudflared takes a configuration within milliseconds.
	pushPatience = 20 * time.Second
)

// connector is one connection of a cloudflared, which has registered for a tunnel.
type connector struct {
	tunnel     string
	connection *http2.ClientConn

	// Of the one goroutine that follows the emulator.
	configurations *way[Tunnel]

	mutex   sync.Mutex
	pushing bool
	pushed  int // the version that was pushed last
	applied int // the version in force
}

// connect awaits that the cloudflared that dialled registers, tells it, and returns when the control stream has ended.
func connect(ctx context.Context, dialled *tls.Conn, registered func(*connector), gone func(*connector)) error {
	client, err := (&http2.Transport{}).NewClientConn(dialled)
	if err != nil {
		return err
	}
	answers, writer := io.Pipe()
	defer writer.Close()
	// The request lasts as long as the control stream.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://edge/", answers)
	if err != nil {
		return err
	}
	request.Header.Set(upgradeHeader, controlStream)
	response, err := client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	var connected *connector
	defer func() {
		if connected != nil {
			gone(connected)
		}
	}()
	var connection [16]byte
	if _, err := rand.Read(connection[:]); err != nil {
		return err
	}
	for {
		segment, err := readMessage(response.Body)
		if err != nil {
			return err
		}
		asked, err := parseQuestion(segment)
		if err != nil {
			return err
		}
		isCall := asked.kind == callMessage
		if isCall && asked.method == unregisterConnection && connected != nil {
			gone(connected) // before it is told that it may go
			connected = nil
		}
		answer, err := answerTo(asked, connection)
		if err != nil {
			return err
		}
		if len(answer) == 0 {
			continue
		}
		if _, err := writer.Write(answer); err != nil {
			return err
		}
		if isCall && asked.method == registerConnection {
			connected = &connector{tunnel: hyphenated(asked.tunnel), connection: client, pushed: -1, applied: -1}
			registered(connected)
		}
	}
}

// hyphenated is an id as Cloudflare writes it.
func hyphenated(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// push gives a configuration to cloudflared and says which version is in force afterwards.
func (c *connector) push(configuration Tunnel) (applied int, err error) {
	body, err := json.Marshal(map[string]any{"version": configuration.Version, "config": configuration.Config})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pushPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://edge/", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set(upgradeHeader, updateConfiguration)
	response, err := c.connection.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Applied *int `json:"lastAppliedVersion"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("cloudflared answers a configuration: %w", err)
	}
	if answer.Applied == nil {
		return 0, fmt.Errorf("cloudflared answers a configuration %s without a version", response.Status)
	}
	return *answer.Applied, nil
}

// serve hands a visitor's request to cloudflared, and its answer to the visitor.
func (c *connector) serve(writer http.ResponseWriter, visitor *http.Request, assertion string) error {
	request := visitor.Clone(visitor.Context())
	request.RequestURI = ""
	// Whether Cloudflare puts a host into lower case is not known. Browsers do.
	request.Host = strings.ToLower(visitor.Host)
	request.URL.Scheme, request.URL.Host = "https", request.Host
	for _, header := range []string{upgradeHeader, "Connection", "Keep-Alive", "Te", "Transfer-Encoding", "Upgrade"} {
		request.Header.Del(header)
	}
	request.Header.Set("X-Forwarded-Proto", "https")
	if host, _, err := net.SplitHostPort(visitor.RemoteAddr); err == nil {
		request.Header.Set("Cf-Connecting-Ip", host)
	}
	if assertion != "" {
		request.Header.Set(assertionHeader, assertion)
	}
	response, err := c.connection.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	headers, err := unpack(response.Header.Get(originHeaders))
	if err != nil {
		return err
	}
	for name, values := range headers {
		writer.Header()[name] = values
	}
	writer.WriteHeader(response.StatusCode)
	_, err = io.Copy(writer, response.Body)
	return err
}

// unpack reads headers as cloudflared packs them: name and value in base64, with a colon between them, and semicolons between
// the headers.
func unpack(packed string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(packed, ";") {
		if pair == "" {
			continue
		}
		encodedName, encodedValue, found := strings.Cut(pair, ":")
		name, nameError := base64.RawStdEncoding.DecodeString(encodedName)
		value, valueError := base64.RawStdEncoding.DecodeString(encodedValue)
		if !found || nameError != nil || valueError != nil {
			return nil, fmt.Errorf("cloudflared packs a header as %q", pair)
		}
		headers.Add(string(name), string(value))
	}
	return headers, nil
}
