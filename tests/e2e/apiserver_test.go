package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// apiServer is Kubernetes' own, for custom resources alone, with the DNSRecord that ExternalDNS's registry crd keeps.
type apiServer struct {
	*process
	url        string
	kubeconfig string
	client     http.Client
}

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	dnsRecordsPath  = "/apis/externaldns.k8s.io/v1alpha1/namespaces/default/dnsrecords"
)

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	directory, port := t.TempDir(), freePort(t)
	child := start(t, "API server", apiServerBinary, bareEnvironment(),
		"--directory="+directory, "--port="+port, "--etcd-port="+freePort(t))
	server := &apiServer{
		process:    child,
		url:        "https://127.0.0.1:" + port,
		kubeconfig: filepath.Join(directory, "kubeconfig"),
		client: http.Client{
			Timeout: 10 * time.Second,
			// Its certificate is made anew in each test.
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		},
	}
	t.Cleanup(server.client.CloseIdleConnections)
	eventually(t, "the API server is ready", func() error {
		child.alive(t)
		_, err := server.try("GET", "/readyz", nil)
		return err
	})
	if _, err := server.try("POST", definitionsPath, dnsRecordDefinition(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server serves DNSRecords", func() error {
		_, err := server.try("GET", dnsRecordsPath, nil)
		return err
	})
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
contexts: [{name: test, context: {cluster: test, user: ""}}]
current-context: test
`, server.url)
	if err := os.WriteFile(server.kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return server
}

// dnsRecordDefinition is what the release of ExternalDNS brings along.
func dnsRecordDefinition(t *testing.T) []byte {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/external-dns").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(module)), "config/crd/standard/dnsrecords.externaldns.k8s.io.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s *apiServer) try(method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/yaml")
	request.Header.Set("Accept", "application/json")
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

// invocation is how ExternalDNS is run with its registry here.
func (s *apiServer) invocation() invocation {
	return invocation{registry: crd, flags: []string{"--kubeconfig=" + s.kubeconfig}}
}

// dnsRecords says of each hostname whether the registry believes it to be published as it is wanted.
func (s *apiServer) dnsRecords(t *testing.T) map[string]bool {
	t.Helper()
	text, err := s.try("GET", dnsRecordsPath, nil)
	if err != nil {
		s.alive(t)
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Spec struct {
				Endpoint struct {
					DNSName string `json:"dnsName"`
				} `json:"endpoint"`
			} `json:"spec"`
			Status struct {
				Conditions []struct {
					Reason string `json:"reason"`
				} `json:"conditions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	records := map[string]bool{}
	for _, item := range list.Items {
		conditions := item.Status.Conditions
		records[item.Spec.Endpoint.DNSName] = len(conditions) == 1 && conditions[0].Reason == "Programmed"
	}
	return records
}
