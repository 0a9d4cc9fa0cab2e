package e2e

import (
	"encoding/json"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// apiServer is Kubernetes' own, with the DNSRecord that ExternalDNS's registry crd keeps.
type apiServer struct{ *harness.APIServer }

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	kindsPath       = "/apis/externaldns.k8s.io/v1alpha1/namespaces/default/"
)

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	server := &apiServer{harness.StartAPIServer(t)}
	server.defines(t, "dnsrecords")
	return server
}

// defines adds a kind of ExternalDNS's, as its release brings it along.
func (s *apiServer) defines(t *testing.T, kind string) {
	t.Helper()
	definition, err := harness.ExternalDNSFile("sigs.k8s.io/external-dns", "config/crd/standard/"+kind+".externaldns.k8s.io.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Try("POST", definitionsPath, definition); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the API server serves "+kind, func() error {
		_, err := s.Try("GET", kindsPath+kind, nil)
		return err
	})
}

// make makes an object, and its status where it is not empty.
func (s *apiServer) make(t *testing.T, path, name, object, status string) {
	t.Helper()
	if _, err := s.Try("POST", path, []byte(object)); err != nil {
		t.Fatal(err)
	}
	if status != "" {
		if _, err := s.Patch(path+"/"+name+"/status", "application/merge-patch+json", []byte(status)); err != nil {
			t.Fatal(err)
		}
	}
}

// invocation is how ExternalDNS is run with its registry here.
func (s *apiServer) invocation(t *testing.T) invocation {
	t.Helper()
	return invocation{registry: crd, flags: []string{"--kubeconfig=" + s.Kubeconfig(t)}}
}

// dnsRecords says of each hostname whether the registry believes it to be published as it is wanted.
func (s *apiServer) dnsRecords(t *testing.T) map[string]bool {
	t.Helper()
	text, err := s.Try("GET", kindsPath+"dnsrecords", nil)
	if err != nil {
		s.Alive(t)
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
