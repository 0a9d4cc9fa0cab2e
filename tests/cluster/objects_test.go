package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// object is any of Kubernetes'.
type object = unstructured.Unstructured

// objectsOf reads the documents of a text. The API server says whether a document is an object.
func objectsOf(t *testing.T, text []byte) (objects []*object) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if content != nil {
			objects = append(objects, &object{Object: content})
		}
	}
}

// path is where the API server has the object, or its kind where it has no name. The API server says which kinds there
// are.
func (c *cluster) path(object *object) (string, error) {
	root := "/apis/" + object.GetAPIVersion()
	if object.GetAPIVersion() == "v1" {
		root = "/api/v1"
	}
	text, err := c.Try(http.MethodGet, root, nil)
	if err != nil {
		return "", err
	}
	var kinds struct {
		Resources []struct {
			Name       string
			Kind       string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(text, &kinds); err != nil {
		return "", err
	}
	for _, kind := range kinds.Resources {
		// A resource's parts, as `ingresses/status`, follow it.
		if kind.Kind != object.GetKind() {
			continue
		}
		path := root
		if kind.Namespaced {
			path += "/namespaces/" + object.GetNamespace()
		}
		return path + "/" + kind.Name + "/" + object.GetName(), nil
	}
	return "", fmt.Errorf("%s has no kind %q", root, object.GetKind())
}

// apply does what `kubectl apply --server-side` does with each: a field that its kind lacks is an error. What has no namespace
// gets this one.
func (c *cluster) apply(t *testing.T, namespace string, objects ...*object) {
	t.Helper()
	for _, object := range objects {
		if object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		// A kind that was defined a moment ago takes its time.
		harness.Eventually(t, "the API server knows "+object.GetKind(), func() error {
			_, err := c.path(object)
			return err
		})
		path, err := c.path(object)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Patch(path+"?fieldManager=test&force=true&fieldValidation=Strict", "application/apply-patch+yaml", text); err != nil {
			t.Fatalf("%s does not apply: %v", text, err)
		}
		c.control(t, object)
	}
}

func (c *cluster) delete(t *testing.T, objects ...*object) {
	t.Helper()
	for _, object := range objects {
		path, err := c.path(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Try(http.MethodDelete, path, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// control writes into the status what the controllers of a cluster would.
func (c *cluster) control(t *testing.T, object *object) {
	t.Helper()
	accepted := []any{map[string]any{
		"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}
	var status map[string]any
	switch object.GetKind() {
	case "Gateway":
		status = map[string]any{"addresses": []any{map[string]any{"type": "IPAddress", "value": "192.0.2.10"}}}
	case "HTTPRoute", "GRPCRoute":
		var parents []any
		references, _, _ := unstructured.NestedSlice(object.Object, "spec", "parentRefs")
		for _, reference := range references {
			parents = append(parents, map[string]any{
				"parentRef": reference, "controllerName": "example.com/gateway", "conditions": accepted,
			})
		}
		status = map[string]any{"parents": parents}
	case "ListenerSet":
		var listeners []any
		entries, _, _ := unstructured.NestedSlice(object.Object, "spec", "listeners")
		for _, entry := range entries {
			listeners = append(listeners, map[string]any{
				"name": entry.(map[string]any)["name"], "attachedRoutes": 0, "supportedKinds": []any{}, "conditions": accepted,
			})
		}
		status = map[string]any{"conditions": accepted, "listeners": listeners}
	case "Service":
		if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); kind != "LoadBalancer" {
			return
		}
		status = map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.20"}}}}
	default:
		return
	}
	path, err := c.path(object)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Patch(path+"/status", "application/merge-patch+json", text); err != nil {
		t.Fatal(err)
	}
}
