package deploy

import (
	"path/filepath"
	"strings"
	"testing"

	fluxhelm "github.com/fluxcd/helm-controller/api/v2"
	fluxsource "github.com/fluxcd/source-controller/api/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

// The OCI chart of a release, which release/chart pushes.
const (
	releasedCharts  = "ghcr.io/YOUR-ORG/charts"
	releasedChart   = "external-dns-tunnel"
	chartsMediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// TestFluxInstallsTheReleasedChart with the release's name and namespace, and with values that make the same of it as kustomize.
func TestFluxInstallsTheReleasedChart(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxsource.AddToScheme, fluxhelm.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	objects := decodeAs(t, kinds, "flux.yaml", read(t, "flux.yaml"))
	repository, release := named[*fluxsource.OCIRepository](t, objects, ""), named[*fluxhelm.HelmRelease](t, objects, "")
	if source := release.Spec.ChartRef; source.Kind != repository.Kind || source.Name != repository.Name || release.Namespace != repository.Namespace {
		t.Errorf("the chart comes from %+v, and there is %s", source, repository.Name)
	}
	if address := "oci://" + releasedCharts + "/" + releasedChart; repository.Spec.URL != address || repository.GetLayerMediaType() != chartsMediaType {
		t.Errorf("the chart is %+v, wanted %s", repository.Spec, address)
	}
	if release.Spec.Upgrade.CRDs != fluxhelm.CreateReplace {
		t.Error("an upgrade leaves the definitions of kinds as they are")
	}
	installsTheChart(t, release.Name, release.Namespace, repository.Spec.Reference.Tag, release.Spec.Values.Raw)
}

// TestArgoCDInstallsTheReleasedChart in the same way, by itself. Its release has the name of the Application.
func TestArgoCDInstallsTheReleasedChart(t *testing.T) {
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
				Chart          string `json:"chart"`
				TargetRevision string `json:"targetRevision"`
				Helm           struct {
					ValuesObject map[string]any `json:"valuesObject"`
				} `json:"helm"`
			} `json:"source"`
			SyncPolicy struct {
				Automated *struct{} `json:"automated"`
			} `json:"syncPolicy"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(read(t, "argocd.yaml"), &application); err != nil {
		t.Fatal(err)
	}
	source := application.Spec.Source
	if source.RepoURL != releasedCharts || source.Chart != releasedChart || application.Spec.SyncPolicy.Automated == nil {
		t.Errorf("it installs %s of %s, by itself: %v", source.Chart, source.RepoURL, application.Spec.SyncPolicy.Automated != nil)
	}
	values, err := yaml.Marshal(source.Helm.ValuesObject)
	if err != nil {
		t.Fatal(err)
	}
	installsTheChart(t, application.Metadata.Name, application.Spec.Destination.Namespace, source.TargetRevision, values)
}

func installsTheChart(t *testing.T, release, namespace, version string, text []byte) {
	t.Helper()
	own, err := chartutil.LoadChartfile(filepath.Join(chartFolder, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if release != render.Release || namespace != render.Namespace || version != own.Version {
		t.Errorf("it installs the version %s as %s in %s", version, release, namespace)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	// What release/chart puts in, and what the README says to replace for kustomize.
	image := "external-dns.provider.webhook.image.repository=ghcr.io/the-org/external-dns-cloudflare-tunnel-webhook"
	if err := strvals.ParseInto(image, values); err != nil {
		t.Fatal(err)
	}
	objects, wanted := helmTemplateOf(t, values), kustomizeBuild(t, "kustomize")
	webhook := container(t, named[*apps.Deployment](t, objects, ownName), "webhook")
	theirs := container(t, named[*apps.Deployment](t, wanted, ownName), "webhook")
	if webhook.Image != strings.ReplaceAll(theirs.Image, "YOUR-ORG", "the-org") {
		t.Errorf("the image is %s, kustomize's %s", webhook.Image, theirs.Image)
	}
	if own, their := variablesOf(t, objects, webhook), variablesOf(t, wanted, theirs); own["CF_TUNNEL_ID"] != their["CF_TUNNEL_ID"] ||
		own["DOMAIN_FILTER"] != their["DOMAIN_FILTER"] {
		t.Errorf("the settings are %v, kustomize's %v", own, their)
	}
}
