package harness

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// APIServer is Kubernetes' own with its etcd, with RBAC, service accounts and PodSecurity, and nothing else of a
// cluster: what controllers would write, the test writes.
type APIServer struct {
	*Process
	url       string
	directory string
	client    http.Client
}

const (
	// The token of the user that may do everything.
	administrator = "administrator-of-the-test"
	// On two cores that others use too.
	startPatience = 3 * time.Minute
)

func StartAPIServer(t *testing.T) *APIServer {
	t.Helper()
	directory, port := t.TempDir(), FreePort(t)
	write := func(name string, text []byte) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	keyFile := write("service-accounts.pem", pem.EncodeToMemory(&block))

	etcd := "http://127.0.0.1:" + FreePort(t)
	peer := "http://127.0.0.1:" + FreePort(t) // without a second etcd
	Start(t, "etcd", etcdBinary, BareEnvironment(), "--data-dir="+filepath.Join(directory, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--log-level=error",
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	server := &APIServer{
		Process: Start(t, "kube-apiserver", apiServerBinary, BareEnvironment(),
			"--etcd-servers="+etcd,
			"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+filepath.Join(directory, "certificates"),
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=10.96.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file="+keyFile, "--service-account-signing-key-file="+keyFile,
			"--authorization-mode=RBAC",
			"--token-auth-file="+write("tokens.csv", []byte(administrator+`,admin,admin,"system:masters"`+"\n"))),
		url:       "https://127.0.0.1:" + port,
		directory: directory,
		// Its certificate is made anew in each test.
		client: http.Client{
			Timeout:   30 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		},
	}
	t.Cleanup(server.client.CloseIdleConnections)
	EventuallyWithin(t, startPatience, "the API server is ready", func() error {
		server.Alive(t)
		_, err := server.Try("GET", "/readyz", nil)
		return err
	})
	return server
}

// Try makes a call as the administrator. An answer of 400 and above is an error.
func (s *APIServer) Try(method, path string, body []byte) ([]byte, error) {
	return s.TryAs(administrator, method, path, "application/yaml", body)
}

// TryAs makes a call with a token.
func (s *APIServer) TryAs(token, method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("API server: %s %s: %s: %s", method, path, answer.Status, text)
	}
	return text, nil
}

// Patch changes an object as the administrator, by the kind of patch that the content type names.
func (s *APIServer) Patch(path, contentType string, body []byte) ([]byte, error) {
	return s.TryAs(administrator, http.MethodPatch, path, contentType, body)
}

// Kubeconfig is a file with which a client is the administrator.
func (s *APIServer) Kubeconfig(t *testing.T) string {
	t.Helper()
	return s.KubeconfigOf(t, administrator, "default")
}

// KubeconfigOf is a file with which a client is the user that the token names, in a namespace.
func (s *APIServer) KubeconfigOf(t *testing.T, token, namespace string) string {
	t.Helper()
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: %q}}]
current-context: test
`, s.url, token, namespace)
	file, err := os.CreateTemp(s.directory, "kubeconfig-*")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(config); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}
