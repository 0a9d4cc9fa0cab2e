package deploy

import (
	"strings"
	"testing"

	fluxhelm "github.com/fluxcd/helm-controller/api/v2"
	fluxsource "github.com/fluxcd/source-controller/api/v1"
	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

// TestFluxInstallsTheChart with the release's name and namespace, and with values that make the same image of it as kustomize's.
func TestFluxInstallsTheChart(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxsource.AddToScheme, fluxhelm.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	objects := decodeAs(t, kinds, "flux.yaml", read(t, "flux.yaml"))
	repository, release := named[*fluxsource.GitRepository](t, objects, ""), named[*fluxhelm.HelmRelease](t, objects, "")
	chart := release.Spec.Chart.Spec
	if source := chart.SourceRef; source.Kind != repository.Kind || source.Name != repository.Name || release.Namespace != repository.Namespace {
		t.Errorf("the chart comes from %+v, and there is %s", source, repository.Name)
	}
	installsTheChart(t, release.Name, release.Namespace, chart.Chart, release.Spec.Values.Raw)
}

// TestArgoCDInstallsTheChart in the same way. Its release has the name of the Application.
func TestArgoCDInstallsTheChart(t *testing.T) {
	var application struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			Project     string `json:"project"`
			Destination struct {
				Server    string `json:"server"`
				Namespace string `json:"namespace"`
			} `json:"destination"`
			Source struct {
				RepoURL        string `json:"repoURL"`
				TargetRevision string `json:"targetRevision"`
				Path           string `json:"path"`
				Helm           struct {
					ValuesObject map[string]any `json:"valuesObject"`
				} `json:"helm"`
			} `json:"source"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(read(t, "argocd.yaml"), &application); err != nil {
		t.Fatal(err)
	}
	values, err := yaml.Marshal(application.Spec.Source.Helm.ValuesObject)
	if err != nil {
		t.Fatal(err)
	}
	installsTheChart(t, application.Metadata.Name, application.Spec.Destination.Namespace, application.Spec.Source.Path, values)
}

func installsTheChart(t *testing.T, release, namespace, chart string, text []byte) {
	t.Helper()
	if release != render.Release || namespace != render.Namespace || chart != "deploy/chart" {
		t.Errorf("it installs %s as %s in %s", chart, release, namespace)
	}
	// As the README says to replace it.
	replaced := func(text string) string { return strings.ReplaceAll(text, "YOUR-ORG", "the-org") }
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(replaced(string(text))), &values); err != nil {
		t.Fatal(err)
	}
	objects, wanted := helmTemplateOf(t, values), kustomizeBuild(t, "kustomize")
	webhook := container(t, named[*apps.Deployment](t, objects, ownName), "webhook")
	theirs := container(t, named[*apps.Deployment](t, wanted, ownName), "webhook")
	if webhook.Image != replaced(theirs.Image) {
		t.Errorf("the image is %s, kustomize's %s", webhook.Image, theirs.Image)
	}
	if own, their := variablesOf(t, objects, webhook), variablesOf(t, wanted, theirs); own["CF_TUNNEL_ID"] != their["CF_TUNNEL_ID"] ||
		own["DOMAIN_FILTER"] != their["DOMAIN_FILTER"] {
		t.Errorf("the settings are %v, kustomize's %v", own, their)
	}
}
