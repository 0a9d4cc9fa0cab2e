package deploy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	compose "github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

const deployFolder = "../../deploy"

// load is the official chart.
func load(t *testing.T, official render.Chart) *chart.Chart {
	t.Helper()
	loaded, err := official.Load()
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// helmTemplate is `helm template` with these values files, one over the other.
func helmTemplate(t *testing.T, official *chart.Chart, files ...string) []runtime.Object {
	t.Helper()
	var paths []string
	for _, file := range files {
		paths = append(paths, filepath.Join(deployFolder, "helm", file))
	}
	rendered, err := render.Helm(official, nil, paths...)
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for name, text := range rendered {
		objects = append(objects, decode(t, name, []byte(text))...)
	}
	return objects
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
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []runtime.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, document)
		}
		objects = append(objects, object)
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

// only is the one object of its type.
func only[Object runtime.Object](t *testing.T, objects []runtime.Object) Object {
	t.Helper()
	var found []Object
	for _, object := range objects {
		if typed, matches := object.(Object); matches {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T", len(found), *new(Object))
	}
	return found[0]
}
