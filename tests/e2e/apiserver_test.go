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
	s.definesFrom(t, "sigs.k8s.io/external-dns", "config/crd/standard/"+kind+".externaldns.k8s.io.yaml", kindsPath+kind)
}

// definesGateways adds the kinds of the Gateway API that ExternalDNS reads for HTTPRoutes.
func (s *apiServer) definesGateways(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"gateways", "httproutes"} {
		s.definesFrom(t, "sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_"+kind+".yaml", gatewayKinds("default")+kind)
	}
}

// gatewayKinds is where the Gateway API's objects of a namespace are.
func gatewayKinds(namespace string) string {
	return "/apis/gateway.networking.k8s.io/v1/namespaces/" + namespace + "/"
}

func (s *apiServer) definesFrom(t *testing.T, module, file, path string) {
	t.Helper()
	definition, err := harness.ExternalDNSFile(module, file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Try("POST", definitionsPath, definition); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the API server serves "+path, func() error {
		_, err := s.Try("GET", path, nil)
		return err
	})
}

// makesNamespace makes one and says its name.
func (s *apiServer) makesNamespace(t *testing.T) string {
	t.Helper()
	text, err := s.Try("POST", "/api/v1/namespaces", []byte(`{apiVersion: v1, kind: Namespace, metadata: {generateName: of-a-test-}}`))
	if err != nil {
		t.Fatal(err)
	}
	var namespace struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(text, &namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Metadata.Name
}

// makesGateway makes one with a service as its target, under a prefix.
func (s *apiServer) makesGateway(t *testing.T, namespace, prefix, service string) {
	t.Helper()
	s.make(t, gatewayKinds(namespace)+"gateways", "public", `{
		apiVersion: gateway.networking.k8s.io/v1, kind: Gateway,
		metadata: {name: public, annotations: {`+prefix+`target: "`+service+`"}},
		spec: {gatewayClassName: any, listeners: [{name: http, protocol: HTTP, port: 80}]}}`, "")
}

// makesRoute makes one of a hostname that the Gateway has accepted, with annotations.
func (s *apiServer) makesRoute(t *testing.T, namespace, name, hostname, annotations string) {
	t.Helper()
	s.make(t, gatewayKinds(namespace)+"httproutes", name, `{
		apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute,
		metadata: {name: `+name+`, annotations: {`+annotations+`}},
		spec: {hostnames: [`+hostname+`], parentRefs: [{name: public}]}}`, acceptedStatus)
}

// acceptedStatus is what a Gateway's controller writes into a route.
const acceptedStatus = `{"status": {"parents": [{"parentRef": {"name": "public"}, "controllerName": "example.com/gateway", "conditions": [{
	"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}}`

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
