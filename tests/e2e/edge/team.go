package edge

import (
	"bufio"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// What every name of a team ends with.
	teamSuffix = ".cloudflareaccess.com"
	// Where a token of Access stands in a request.
	assertionHeader = "Cf-Access-Jwt-Assertion"
	keyID           = "the-key-of-the-edge"
	tokenLife       = time.Hour
)

// Token is a token of Access as it is given to a visitor with a login, for an application's audience.
func (e *Edge) Token(team, audience string, expires time.Time) (string, error) {
	part := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // text, numbers and lists of text
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	begun := expires.Add(-tokenLife).Unix()
	text := part(map[string]string{"alg": "RS256", "kid": keyID, "typ": "JWT"}) + "." + part(map[string]any{
		"iss": "https://" + team + teamSuffix, "aud": []string{audience}, "type": "app", "sub": "visitor",
		"email": "visitor@example.com", "iat": begun, "nbf": begun, "exp": expires.Unix(),
	})
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, e.key, crypto.SHA256, digest[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// keys is what a team publishes for programs that check its tokens.
func (e *Edge) keys() http.Handler {
	encode := base64.RawURLEncoding.EncodeToString
	public := e.key.PublicKey
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cdn-cgi/access/certs", func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(map[string]any{"keys": []map[string]string{{
			"kid": keyID, "kty": "RSA", "alg": "RS256", "use": "sig",
			"n": encode(public.N.Bytes()), "e": encode(big.NewInt(int64(public.E)).Bytes()),
		}}})
	})
	return mux
}

// proxy answers CONNECT, and is then what cloudflared asked for, if that is a team. cloudflared finds it by HTTPS_PROXY.
func (e *Edge) proxy(connection net.Conn) {
	defer connection.Close()
	request, err := http.ReadRequest(bufio.NewReader(connection))
	if err != nil {
		return
	}
	if host, _, _ := net.SplitHostPort(request.Host); request.Method != http.MethodConnect || !strings.HasSuffix(host, teamSuffix) {
		_, _ = fmt.Fprintf(connection, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	if _, err := fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	once := &onceListener{connection: tls.Server(connection, e.tls), closed: make(chan struct{})}
	server := &http.Server{Handler: e.keys(), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			_ = once.Close()
		}
	}}
	_ = server.Serve(once)
}

// onceListener accepts one connection, which is there already, and ends with it.
type onceListener struct {
	connection net.Conn
	accepted   bool
	closed     chan struct{}
}

func (o *onceListener) Accept() (net.Conn, error) {
	if !o.accepted {
		o.accepted = true
		return o.connection, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *onceListener) Close() error {
	select {
	case <-o.closed:
	default:
		close(o.closed)
	}
	return nil
}

func (o *onceListener) Addr() net.Addr { return o.connection.LocalAddr() }
