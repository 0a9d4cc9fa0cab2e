package deploy

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	compose "github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const deployFolder = "../../deploy"

// officialChart is the chart in the sources of a release of ExternalDNS.
type officialChart struct {
	version, module, sum string
}

// charts are the official ones of two releases; a release's sources hold the chart that installs the release before it.
var charts = []officialChart{
	{"1.21.1", "sigs.k8s.io/external-dns@v0.22.0", "h1:+ASJ3KF7DLqHo2LsG8Qinuh2J389MS86I19i/r8ewUc="},
	{"1.22.0", "sigs.k8s.io/external-dns@v0.23.0", "h1:35KyAZtLN8o5nIE0aPKfyhILbf5HHkKPJby/4FowPJM="},
}

// load fetches the module through Go's proxy. The module may want a newer Go than compiles these tests; Go then says so, and
// tells where the archive is all the same.
func (c officialChart) load(t *testing.T) *chart.Chart {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", c.module)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	output, _ := command.Output()
	var downloaded struct{ Zip, Sum string }
	if err := json.Unmarshal(output, &downloaded); err != nil || downloaded.Sum != c.sum {
		t.Fatalf("go mod download %s: %v: %s", c.module, err, output)
	}
	archive, err := zip.OpenReader(downloaded.Zip)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var files []*loader.BufferedFile
	for _, file := range archive.File {
		name, inside := strings.CutPrefix(file.Name, c.module+"/charts/external-dns/")
		if !inside {
			continue
		}
		text, err := fs.ReadFile(archive, file.Name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, &loader.BufferedFile{Name: name, Data: text})
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil || loaded.Metadata.Version != c.version {
		t.Fatalf("the chart of %s: %v, %+v", c.module, err, loaded)
	}
	return loaded
}

// helmTemplate is `helm template` with these values files, one over the other. The chart's schema judges them.
func helmTemplate(t *testing.T, official *chart.Chart, files ...string) []runtime.Object {
	t.Helper()
	merged := map[string]any{}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(filepath.Join(deployFolder, "helm", file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		merged = chartutil.MergeTables(values, merged)
	}
	release := chartutil.ReleaseOptions{Name: "external-dns", Namespace: "external-dns", IsInstall: true}
	values, err := chartutil.ToRenderValues(official, merged, release, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatalf("%v: %v", files, err)
	}
	rendered, err := engine.Render(official, values)
	if err != nil {
		t.Fatalf("%v: %v", files, err)
	}
	var objects []runtime.Object
	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			objects = append(objects, decode(t, name, []byte(text))...)
		}
	}
	return objects
}

// kustomizeBuild is `kustomize build` of the folder.
func kustomizeBuild(t *testing.T) []runtime.Object {
	t.Helper()
	kustomizer := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
	built, err := kustomizer.Run(filesys.MakeFsOnDisk(), filepath.Join(deployFolder, "kustomize"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, "kustomize build", text)
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
