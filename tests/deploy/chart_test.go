package deploy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

// TestTheOfficialChartIsUnchanged: file by file what its project has in the module, and what the digest is of.
func TestTheOfficialChartIsUnchanged(t *testing.T) {
	origin, err := render.ReadOrigin(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(chartFolder, render.OfficialFolder)
	if digest, err := render.Digest(folder); err != nil || digest != origin.Digest {
		t.Errorf("the digest is %s, and %s says %s: %v", digest, render.OriginFile, origin.Digest, err)
	}
	sum, files, err := render.Official(origin.Module)
	if err != nil {
		t.Fatal(err)
	}
	if sum != origin.Sum {
		t.Errorf("the module has the checksum %s, and %s says %s", sum, render.OriginFile, origin.Sum)
	}
	for name, theirs := range files {
		if ours, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("%s differs from the project's: %v", name, err)
		}
	}
	if err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if _, has := files[name]; err == nil && !entry.IsDir() && !has {
			t.Errorf("the project has no %s", name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}

	official, err := chartutil.LoadChartfile(filepath.Join(folder, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := chartutil.LoadChartfile(filepath.Join(chartFolder, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if needed := own.Dependencies[0]; official.Version != origin.Version || needed.Version != origin.Version || needed.Repository != "" {
		t.Errorf("the chart is %s, %s says %s, and %+v is needed", official.Version, render.OriginFile, origin.Version, needed)
	}
	if licence, err := os.ReadFile("../../LICENSE-APACHE"); err != nil || origin.Licence != "Apache-2.0" || !bytes.Contains(licence, []byte("Version 2.0")) {
		t.Errorf("the licence is %s: %v", origin.Licence, err)
	}
}

// TestKustomizeIsTheChart: what `just chart-renew` makes of it, with the settings and the image put in by the kustomization.
func TestKustomizeIsTheChart(t *testing.T) {
	made, err := render.ForKustomize(deployFolder)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, read(t, "kustomize", render.Release+".yaml")) {
		t.Error("deploy/kustomize is not what the chart makes: run `just chart-renew`")
	}
	objects := kustomizeBuild(t, "kustomize")
	settings := named[*core.Secret](t, objects, "")
	if !strings.HasPrefix(settings.Name, render.Release+"-") || len(settings.Data) != 4 {
		t.Errorf("the Secret %s has %v: a change would not start the pods anew", settings.Name, slices.Sorted(maps.Keys(settings.Data)))
	}
	for _, object := range objects {
		if _, is := object.(*core.Namespace); is {
			t.Error("deleting what it makes would delete the namespace, and with it the Secret")
		}
	}
	if manager := settings.Labels["app.kubernetes.io/managed-by"]; manager != "kustomize" {
		t.Errorf("managed by %s", manager)
	}
}

func TestTheChartHasNothingToLint(t *testing.T) {
	result := action.NewLint().Run([]string{chartFolder}, theFour(t))
	for _, message := range result.Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
	if len(result.Errors) > 0 || result.TotalChartsLinted != 1 {
		t.Errorf("%d charts, %v", result.TotalChartsLinted, result.Errors)
	}
}

// TestValuesThatStartNoPodAreRefused at rendering, and it is said what to do.
func TestValuesThatStartNoPodAreRefused(t *testing.T) {
	for values, words := range map[string]string{
		"global.domain=":                           "global.domain is empty: give",
		"global.domain=*.example.com":              `global.domain has "*.example.com": give names such as example.com`,
		"global.domain=example.com\\,*.x.org":      `global.domain has "*.x.org"`,
		"global.domain=https://example.com":        `global.domain has "https://example.com"`,
		"global.domain=com":                        `global.domain has "com"`,
		"global.domain={a.com,b.com}":              "at '/global/domain': got array, want string",
		"global.tunnel=":                           "global.tunnel is empty: give",
		"global.tunnel=123":                        "at '/global/tunnel': got number, want string",
		"token=":                                   "no API token: give token, or existingSecret",
		"existingSecret=cloudflare":                "token and existingSecret are both given",
		"token=,existingSecret=other":              "no volume of external-dns.extraVolumes has the Secret other",
		"external-dns.fullnameOverride=other":      "the Secret of the settings is called other, and external-dns.provider.webhook.env asks for external-dns-tunnel",
		"external-dns.provider.webhook.image.tag=": "needs an image repository and a tag",
		"external-dns.provider.webhook.image.repository=ghcr.io/YOUR-ORG/webhook": "image.repository is a placeholder: give",
		"tokn=abc":                                       "additional properties 'tokn' not allowed",
		"cloudflared.replica=3":                          "additional properties 'replica' not allowed",
		"cloudflared.metrics=everywhere":                 "at '/cloudflared/metrics'",
		"networkPolicy=true":                             "at '/networkPolicy': got boolean, want object",
		"prometheusRule.label.release=kps":               "additional properties 'label' not allowed",
		"external-dns.policy=sink":                       "at '/policy'", // The official chart's own.
		"networkPolicy.machines[0].address=192.168.1.20": "at '/networkPolicy/machines/0': missing property 'port'",
		"networkPolicy.machines[0].address=nas.lan,networkPolicy.machines[0].port=80": "at '/networkPolicy/machines/0/address'",
		"global.settings.DRYRUN=true":                         "at '/global/settings': additional properties 'DRYRUN' not allowed",
		"global.settings.CF_API_TOKEN=x":                      "additional properties 'CF_API_TOKEN' not allowed",
		"global.settings.ADOPT={tunnel}":                      "at '/global/settings/ADOPT': got array",
		"global.settings.ADOPT=a\nDRY_RUN=":                   "at '/global/settings/ADOPT'",
		"global.settings.MOVE_GRACE=-1":                       "at '/global/settings/MOVE_GRACE'",
		"global.settings.DOMAIN_FILTER=x":                     "global.settings.DOMAIN_FILTER is the chart's own: give global.domain",
		"global.settings.CF_TUNNEL_ID=x":                      "global.settings.CF_TUNNEL_ID is the chart's own: give global.tunnel",
		"external-dns.provider.webhook.args={--dry-run=true}": "--dry-run=true does not reach cloudflared's init container: give global.settings.DRY_RUN",
	} {
		t.Run(values, func(t *testing.T) {
			_, err := render.Helm(chartFolder, render.Release, theFour(t, values))
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%q is not said: %v", words, err)
			}
		})
	}
	// All that is missing is said at once.
	_, err := render.Helm(chartFolder, render.Release, map[string]any{})
	if lines := strings.Count(fmt.Sprint(err), "\n- "); lines != 4 {
		t.Errorf("%d of four values are asked for: %v", lines, err)
	}
}

// TestASecondReleaseOfANamespaceIsRefused at rendering: it has another name.
func TestASecondReleaseOfANamespaceIsRefused(t *testing.T) {
	_, err := render.Helm(chartFolder, "second", theFour(t, "external-dns.fullnameOverride="+render.Release))
	if err == nil || !strings.Contains(err.Error(), `the release is called "second": call it external-dns-tunnel, of which a namespace has one`) {
		t.Errorf("it is not refused: %v", err)
	}
}

// TestAnotherNamespaceTakesAnotherName: what is the whole cluster's then has it too, and both pods read its settings.
func TestAnotherNamespaceTakesAnotherName(t *testing.T) {
	values := theFour(t, "external-dns.fullnameOverride=other", "external-dns.provider.webhook.env[0].name=CF_TUNNEL_ID",
		"external-dns.provider.webhook.env[0].valueFrom.secretKeyRef.name=other",
		"external-dns.provider.webhook.env[0].valueFrom.secretKeyRef.key=tunnel")
	objects := helmTemplateOf(t, values)
	for _, object := range objects {
		if name := object.(meta.Object).GetName(); object.(meta.Object).GetNamespace() == "" && !strings.HasPrefix(name, "other") {
			t.Errorf("the cluster has one %T %s", object, name)
		}
	}
	_, initial, _ := cloudflared(t, objects)
	for _, each := range []core.Container{container(t, named[*apps.Deployment](t, objects, "other"), "webhook"), initial} {
		if tunnel := variablesOf(t, objects, each)["CF_TUNNEL_ID"]; tunnel != "homelab" {
			t.Errorf("%s has the tunnel %q", each.Name, tunnel)
		}
	}
}

// TestOddValuesArriveAsTheyAre at the program.
func TestOddValuesArriveAsTheyAre(t *testing.T) {
	for domain, tunnel := range map[string]string{
		"example.com\\,example.org": "home\\,office",
		".example.com":              `it's "ours" {{ .Values.token }}: #1`,
		"bücher.example":            "küche",
	} {
		objects := helmTemplateOf(t, chartutil.MergeTables(map[string]any{
			"global": map[string]any{"domain": strings.ReplaceAll(domain, "\\", ""), "tunnel": strings.ReplaceAll(tunnel, "\\", "")},
		}, theFour(t)))
		_, initial, _ := cloudflared(t, objects)
		for _, each := range []core.Container{container(t, named[*apps.Deployment](t, objects, ownName), "webhook"), initial} {
			environment := variablesOf(t, objects, each)
			if environment["DOMAIN_FILTER"] != strings.ReplaceAll(domain, "\\", "") || environment["CF_TUNNEL_ID"] != strings.ReplaceAll(tunnel, "\\", "") {
				t.Errorf("%s gets %v", each.Name, environment)
			}
		}
	}
	// As a file gives it, with its line's end.
	values := theFour(t)
	values["token"] = "an-api-token\n"
	if token := named[*core.Secret](t, helmTemplateOf(t, values), "cloudflare").Data["api-token"]; string(token) != "an-api-token" {
		t.Errorf("the token is %q", token)
	}
}

// TestSettingsArriveAsTheyAreTyped: by --set, from a file, and from a release that is upgraded.
func TestSettingsArriveAsTheyAreTyped(t *testing.T) {
	const file = `
global:
  settings:
    DRY_RUN: true
    MASS_DELETION_LIMIT: 2000000
    MOVE_GRACE: 30s
    CF_ACCOUNT_ID: "1e10"
    DEFAULT_SERVICE: "http://{name}.{namespace}.svc:80/{{ .Values.token }}"
    PUBLISH: null
`
	fromFile := map[string]any{}
	if err := yaml.Unmarshal([]byte(file), &fromFile); err != nil {
		t.Fatal(err)
	}
	const told = "CF_ACCOUNT_ID=1e10\nDEFAULT_SERVICE=http://{name}.{namespace}.svc:80/{{ .Values.token }}\nDRY_RUN=true\n" +
		"MASS_DELETION_LIMIT=2000000\nMOVE_GRACE=30s"
	for name, each := range map[string]struct {
		values map[string]any
		wanted string
	}{
		"none":        {theFour(t), ""},
		"from a file": {chartutil.MergeTables(fromFile, theFour(t)), told},
		"by --set": {theFour(t, "global.settings.DRY_RUN=true,global.settings.MASS_DELETION_LIMIT=2000000,global.settings.MOVE_GRACE=0",
			"global.settings.PUBLISH=null"), "DRY_RUN=true\nMASS_DELETION_LIMIT=2000000\nMOVE_GRACE=0"},
		"over those of before": {chartutil.CoalesceTables(theFour(t, "global.settings.DRY_RUN=null,global.settings.ADOPT=tunnel"),
			map[string]any{"global": map[string]any{"settings": map[string]any{"DRY_RUN": true, "LOG_LEVEL": "warn"}}}),
			"ADOPT=tunnel\nLOG_LEVEL=warn"},
	} {
		objects := helmTemplateOf(t, each.values)
		webhook := container(t, named[*apps.Deployment](t, objects, ownName), "webhook")
		environment := variablesOf(t, objects, webhook)
		if environment["SETTINGS"] != each.wanted {
			t.Errorf("%s: the webhook gets %q, wanted %q", name, environment["SETTINGS"], each.wanted)
		}
	}
	// The program reads them.
	objects := helmTemplate(t, "global.settings.MASS_DELETION_LIMIT=2000000,global.settings.DRY_RUN=true")
	webhook := container(t, named[*apps.Deployment](t, objects, ownName), "webhook")
	startProgram(t, variablesOf(t, objects, webhook), webhook.Args)
}

// TestTheInitContainerGetsWhatItsCommandReads, and nothing else, so that no other setting keeps a lost pod away.
func TestTheInitContainerGetsWhatItsCommandReads(t *testing.T) {
	objects := helmTemplate(t, "global.settings.DRY_RUN=true,global.settings.CF_ACCOUNT_ID=abc,global.settings.LOG_LEVEL=warn",
		"global.settings.MASS_DELETION_LIMIT=all")
	_, initial, _ := cloudflared(t, objects)
	environment := variablesOf(t, objects, initial)
	if wanted := map[string]string{
		"CF_API_TOKEN_FILE": "/etc/cloudflare/api-token", "CF_TUNNEL_ID": "homelab", "DOMAIN_FILTER": "example.com",
		"DRY_RUN": "true", "CF_ACCOUNT_ID": "abc",
	}; !maps.Equal(environment, wanted) {
		t.Errorf("it gets %v, wanted %v", environment, wanted)
	}
	if wanted := []string{"tunnel", "--token-file=/run/cloudflared/token"}; !slices.Equal(initial.Args, wanted) {
		t.Errorf("its arguments are %q", initial.Args)
	}
	// A variable of the webhook counts before the map, and a proxy is one of them.
	objects = helmTemplate(t, "external-dns.provider.webhook.env[0].name=CF_ACCOUNT_ID,external-dns.provider.webhook.env[0].value=def",
		"external-dns.provider.webhook.env[1].name=HTTPS_PROXY,external-dns.provider.webhook.env[1].value=http://proxy:3128",
		"external-dns.provider.webhook.env[2].name=OWNER_ID,external-dns.provider.webhook.env[2].value=me",
		"global.settings.CF_ACCOUNT_ID=abc")
	_, initial, _ = cloudflared(t, objects)
	if wanted := []core.EnvVar{
		{Name: "CF_ACCOUNT_ID", Value: "def"}, {Name: "HTTPS_PROXY", Value: "http://proxy:3128"},
	}; !slices.Equal(initial.Env, wanted) {
		t.Errorf("it gets %v, wanted %v", initial.Env, wanted)
	}
}

// TestTheSchemaHasEverySettingOfTheProgram: what `just chart-renew` makes of the program's help.
func TestTheSchemaHasEverySettingOfTheProgram(t *testing.T) {
	made, err := render.Schema(chartFolder, os.Getenv("WEBHOOK_BINARY"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, read(t, "chart", render.SchemaFile)) {
		t.Errorf("%s lacks a setting, or has one too many: run `just chart-renew`", render.SchemaFile)
	}
}

// TestTheNotesNameValuesThatTheOfficialChartIgnores: a misspelled one is no mistake to its schema.
func TestTheNotesNameValuesThatTheOfficialChartIgnores(t *testing.T) {
	made, err := render.Known(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, read(t, "chart", render.KnownFile)) {
		t.Errorf("%s is not as the official chart has it: run `just chart-renew`", render.KnownFile)
	}
	for values, wanted := range map[string][]string{
		"": nil,
		"external-dns.extraArgs.no-flag=x,external-dns.resources.claims=x,external-dns.livenessProbe.exec=x,global.mine=x":      nil,
		"external-dns.podAnnotations.mine=x,external-dns.provider.webhook.resources.x=y,external-dns.serviceAccount.labels.a=b": nil,
		"external-dns.souces[0]=crd,external-dns.provider.webhook.arg[0]=x,external-dns.provider.webhook.image.tagg=x": {
			"external-dns.provider.webhook.arg", "external-dns.provider.webhook.image.tagg", "external-dns.souces",
		},
	} {
		_, named, is := strings.Cut(notes(t, values), "The official chart ignores these values, which it does not know:")
		if found := strings.Fields(named); is != (wanted != nil) || !slices.Equal(found, wanted) {
			t.Errorf("%q: the notes name %q, wanted %q", values, found, wanted)
		}
	}
}

// TestTheNotesSayHowToLookFirst, and of a dry run that it is one.
func TestTheNotesSayHowToLookFirst(t *testing.T) {
	const before, dry, wait = "To see first what would be written", "This is a dry run", "wait for a tunnel that is not created yet"
	for values, wanted := range map[string][]string{
		"":                              {before},
		"global.settings.DRY_RUN=false": {before},
		"global.settings.DRY_RUN=true":  {dry, wait},
		"global.settings.DRY_RUN=true,cloudflared.enabled=false": {dry},
	} {
		said := notes(t, values)
		for _, each := range []string{before, dry, wait} {
			if strings.Contains(said, each) != slices.Contains(wanted, each) {
				t.Errorf("%q: the notes are wrong about %q:\n%s", values, each, said)
			}
		}
		for _, command := range []string{"status", "check"} {
			if !strings.Contains(said, "-- /external-dns-cloudflare-tunnel-webhook "+command+"\n") {
				t.Errorf("%q: the notes have no %s:\n%s", values, command, said)
			}
		}
	}
}

func notes(t *testing.T, more string) string {
	t.Helper()
	said, err := render.Notes(chartFolder, theFour(t, more))
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// TestTheTokensChecksumIsSalted, because a user that may read Deployments may not read Secrets.
func TestTheTokensChecksumIsSalted(t *testing.T) {
	deployment, _, _ := cloudflared(t, helmTemplate(t))
	sum := deployment.Spec.Template.Annotations["checksum/token"]
	if plain := fmt.Sprintf("%x", sha256.Sum256([]byte("an-api-token"))); sum == plain || len(sum) != len(plain) {
		t.Errorf("the checksum is %s", sum)
	}
}

// TestAChangedValueStartsThePodsAnew that have something of it, and no others.
func TestAChangedValueStartsThePodsAnew(t *testing.T) {
	templates := func(values string) map[string]core.PodTemplateSpec {
		objects := helmTemplate(t, values)
		return map[string]core.PodTemplateSpec{
			ownName:         named[*apps.Deployment](t, objects, ownName).Spec.Template,
			cloudflaredName: named[*apps.Deployment](t, objects, cloudflaredName).Spec.Template,
		}
	}
	before := templates("")
	both := []string{cloudflaredName, ownName}
	for values, wanted := range map[string][]string{
		"":                             nil,
		"global.domain=example.org":    both,
		"global.tunnel=other":          both,
		"external-dns.txtOwnerId=home": {ownName},
		"external-dns.provider.webhook.image.tag=v9":            both,
		"external-dns.provider.webhook.args={--log-level=warn}": {ownName},
		"global.settings.DEFAULT_ACCESS_POLICY=staff":           {ownName},
		"global.settings.DRY_RUN=true":                          both,
		"global.settings.CF_ACCOUNT_ID=abc":                     both,
		// The webhook reads the file anew by itself.
		"token=another":                                      {cloudflaredName},
		"cloudflared.image.tag=9.9.9":                        {cloudflaredName},
		"external-dns.interval=5m":                           {ownName},
		"cloudflared.replicas=3,networkPolicy.enabled=false": nil,
	} {
		var anew []string
		for name, template := range templates(values) {
			if !reflect.DeepEqual(template, before[name]) {
				anew = append(anew, name)
			}
		}
		slices.Sort(anew)
		if !slices.Equal(anew, wanted) {
			t.Errorf("%s starts %v anew, wanted %v", values, anew, wanted)
		}
	}
}

// kindsOf counts what is made, as "Kind name".
func kindsOf(objects []runtime.Object) map[string]bool {
	kinds := map[string]bool{}
	for _, object := range objects {
		kinds[object.GetObjectKind().GroupVersionKind().Kind+" "+object.(interface{ GetName() string }).GetName()] = true
	}
	return kinds
}

// TestAnOptionIsThePartItNames, and nothing else.
func TestAnOptionIsThePartItNames(t *testing.T) {
	all := kindsOf(helmTemplate(t))
	for values, wanted := range map[string][]string{
		"token=,existingSecret=cloudflare":              {"Secret cloudflare"},
		"networkPolicy.enabled=false":                   {"NetworkPolicy external-dns-tunnel", "NetworkPolicy cloudflared"},
		"cloudflared.podDisruptionBudget.enabled=false": {"PodDisruptionBudget cloudflared"},
		"cloudflared.enabled=false": {
			"Deployment cloudflared", "NetworkPolicy cloudflared", "PodDisruptionBudget cloudflared",
		},
	} {
		left := kindsOf(helmTemplate(t, values))
		for _, kind := range wanted {
			if !all[kind] || left[kind] {
				t.Errorf("%s does not leave out %s", values, kind)
			}
		}
		if len(left) != len(all)-len(wanted) {
			t.Errorf("with %s there are %v", values, left)
		}
	}
}

// TestWhatWatchesIsFoundByItsLabels: those that kube-prometheus-stack and the sidecar of Grafana's chart ask for.
func TestWhatWatchesIsFoundByItsLabels(t *testing.T) {
	text, err := render.Helm(chartFolder, render.Release,
		theFour(t, "prometheusRule.enabled=true,dashboard.enabled=true,external-dns.serviceMonitor.enabled=true"))
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind     string                             `json:"kind"`
		Metadata struct{ Labels map[string]string } `json:"metadata"`
		Spec     map[string]any                     `json:"spec"`
		Data     map[string]string                  `json:"data"`
	}
	found := map[string]object{}
	for _, document := range documents(t, "the chart", text) {
		var each object
		if err := yaml.Unmarshal(document, &each); err != nil {
			t.Fatal(err)
		}
		found[each.Kind] = each
	}
	for _, kind := range []string{"PrometheusRule", "ServiceMonitor"} {
		if found[kind].Metadata.Labels["release"] != "kube-prometheus-stack" {
			t.Errorf("the %s has the labels %v", kind, found[kind].Metadata.Labels)
		}
	}
	if labels := found["ConfigMap"].Metadata.Labels; labels["grafana_dashboard"] != "1" {
		t.Errorf("the dashboard has the labels %v", labels)
	}
	var rules map[string]any
	if err := yaml.Unmarshal(read(t, "chart", "files", "alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(found["PrometheusRule"].Spec, rules) {
		t.Error("the rules are not those of files/alerts.yaml")
	}
	if dashboard := read(t, "chart", "files", "dashboard.json"); found["ConfigMap"].Data["external-dns-tunnel.json"] != string(dashboard) {
		t.Error("the dashboard is not files/dashboard.json")
	}
}

// TestCloudflaredTakesMore of what its pods may need, beside what they have.
func TestCloudflaredTakesMore(t *testing.T) {
	objects := helmTemplate(t, "cloudflared.args={--protocol=http2}", "cloudflared.podSpec.nodeSelector.edge=yes",
		"cloudflared.volumes[0].name=authorities,cloudflared.volumes[0].configMap.name=authorities",
		"cloudflared.volumeMounts[0].name=authorities,cloudflared.volumeMounts[0].mountPath=/etc/authorities",
		"networkPolicy.services[0].ipBlock.cidr=192.168.1.20/32",
		"global.imagePullSecrets[0].name=registry")
	deployment, _, running := cloudflared(t, objects)
	pod := deployment.Spec.Template.Spec
	if run := slices.Index(running.Args, "run"); slices.Index(running.Args, "--protocol=http2") != run-1 {
		t.Errorf("arguments %q", running.Args)
	}
	if pod.NodeSelector["edge"] != "yes" || mounts(running)["authorities"] != "/etc/authorities" || len(pod.Volumes) != 3 {
		t.Errorf("pod %+v", pod)
	}
	if pulling := pod.ImagePullSecrets; len(pulling) != 1 || pulling[0].Name != "registry" {
		t.Errorf("the image is pulled with %v", pulling)
	}
	egress := named[*networking.NetworkPolicy](t, objects, cloudflaredName).Spec.Egress
	if to := egress[len(egress)-1].To; len(to) != 1 || to[0].IPBlock == nil || to[0].IPBlock.CIDR != "192.168.1.20/32" {
		t.Errorf("let out is %+v", to)
	}
}
