package deploy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	fluxhelm "github.com/fluxcd/helm-controller/api/v2"
	fluxsource "github.com/fluxcd/source-controller/api/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestFluxInstallsTheSame as the README: the same chart, with the values of values.yaml, in the namespace that has the Secret.
func TestFluxInstallsTheSame(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxsource.AddToScheme, fluxhelm.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	name := "helmrelease.yaml"
	objects := decodeAs(t, kinds, name, read(t, "flux", name))
	repository, release := only[*fluxsource.HelmRepository](t, objects), only[*fluxhelm.HelmRelease](t, objects)

	chart := release.Spec.Chart.Spec
	// A command may be broken into lines.
	readme := strings.ReplaceAll(string(read(t, "..", "README.md")), " \\\n    ", " ")
	for _, command := range []string{
		"helm repo add external-dns " + repository.Spec.URL + "\n",
		"helm install " + release.Name + " external-dns/" + chart.Chart + " --version " + chart.Version +
			" --namespace " + release.Namespace + " --values deploy/helm/values.yaml\n",
	} {
		if !strings.Contains(readme, command) {
			t.Errorf("the README does not say %q", command)
		}
	}
	if source := chart.SourceRef; source.Kind != repository.Kind || source.Name != repository.Name || release.Namespace != repository.Namespace {
		t.Errorf("the chart comes from %+v, and there is %s", source, repository.Name)
	}
	if namespace := only[*core.Secret](t, secretExample(t)).Namespace; release.Namespace != namespace {
		t.Errorf("the release is in %s, the Secret in %s", release.Namespace, namespace)
	}

	values, err := chartutil.ReadValues(release.Spec.Values.Raw)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := chartutil.ReadValues(read(t, "helm", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(values, wanted) {
		t.Errorf("the values are %v, those of values.yaml %v", values, wanted)
	}
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
