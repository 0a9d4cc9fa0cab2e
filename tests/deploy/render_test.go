package deploy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	compose "github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v3/pkg/strvals"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

const (
	deployFolder = "../../deploy"
	chartFolder  = deployFolder + "/chart"
)

// theFour are the values of the README's quick start, and more of them over these.
func theFour(t *testing.T, more ...string) map[string]any {
	t.Helper()
	values := map[string]any{}
	for _, each := range append([]string{
		"global.domain=example.com", "global.tunnel=homelab", "token=an-api-token",
		"external-dns.provider.webhook.image.repository=registry.example.com/webhook",
	}, more...) {
		if err := strvals.ParseInto(each, values); err != nil {
			t.Fatalf("%s: %v", each, err)
		}
	}
	return values
}

// helmTemplate is what the chart makes of the four values, and of more of them, as one writes them behind --set.
func helmTemplate(t *testing.T, more ...string) []runtime.Object {
	t.Helper()
	return helmTemplateOf(t, theFour(t, more...))
}

func helmTemplateOf(t *testing.T, values map[string]any) []runtime.Object {
	t.Helper()
	text, err := render.Helm(chartFolder, render.Release, values)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, "the chart", text)
}

// kustomizeBuild is `kustomize build` of a folder.
func kustomizeBuild(t *testing.T, folder string) []runtime.Object {
	t.Helper()
	text, err := render.Kustomize(filepath.Join(deployFolder, folder))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, "kustomize build "+folder, text)
}

// decode reads each document into the type that Kubernetes has for it; a field that the type lacks is an error, and so is
// one that is there twice.
func decode(t *testing.T, name string, text []byte) []runtime.Object {
	t.Helper()
	return decodeAs(t, scheme.Scheme, name, text)
}

// decodeAs does the same with kinds that others have defined.
func decodeAs(t *testing.T, kinds *runtime.Scheme, name string, text []byte) []runtime.Object {
	t.Helper()
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, kinds, kinds,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for _, document := range documents(t, name, text) {
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// documents are those of a file in YAML.
func documents(t *testing.T, name string, text []byte) (found [][]byte) {
	t.Helper()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(bytes.TrimSpace(document)) > 0 {
			found = append(found, document)
		}
	}
}

// composeProject is what `docker compose` makes of the file: judged by the specification's schema, names resolved.
func composeProject(t *testing.T) *compose.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(deployFolder, "compose.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// named is the object of its type with this name. Where it is empty, the type has one object.
func named[Object runtime.Object](t *testing.T, objects []runtime.Object, name string) Object {
	t.Helper()
	var found []Object
	for _, object := range objects {
		if typed, matches := object.(Object); matches && (name == "" || object.(meta.Object).GetName() == name) {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects %q of type %T", len(found), name, *new(Object))
	}
	return found[0]
}

// read is a file of deploy/.
func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deployFolder}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
