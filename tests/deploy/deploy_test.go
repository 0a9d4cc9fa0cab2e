package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns/validation"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

var valuesFiles = [][]string{
	{"values.yaml"},
	{"values.yaml", "values-txt.yaml"},
}

// deployments are all that the files make of a pod, by name of what made it.
func deployments(t *testing.T) map[string]*apps.Deployment {
	made := map[string]*apps.Deployment{"kustomize": only[*apps.Deployment](t, kustomizeBuild(t, "kustomize"))}
	for _, official := range render.Charts {
		loaded := load(t, official)
		for _, files := range valuesFiles {
			name := official.Version + " " + files[len(files)-1]
			made[name] = only[*apps.Deployment](t, helmTemplate(t, loaded, files...))
		}
	}
	return made
}

func container(t *testing.T, deployment *apps.Deployment, name string) core.Container {
	t.Helper()
	for _, candidate := range deployment.Spec.Template.Spec.Containers {
		if candidate.Name == name {
			return candidate
		}
	}
	t.Fatalf("no container %s", name)
	panic("unreachable")
}

// plain are the variables of a container; none of these files takes one from elsewhere.
func plain(t *testing.T, variables []core.EnvVar) map[string]string {
	t.Helper()
	environment := map[string]string{}
	for _, variable := range variables {
		if variable.ValueFrom != nil {
			t.Fatalf("%s is taken from elsewhere", variable.Name)
		}
		environment[variable.Name] = variable.Value
	}
	return environment
}

// ExternalDNS reads and judges the flags itself.
func externalDNS(t *testing.T, arguments []string) *externaldns.Config {
	t.Helper()
	config := externaldns.NewConfig()
	if err := config.ParseFlags(arguments); err != nil {
		t.Fatalf("%v: %v", arguments, err)
	}
	if err := validation.ValidateConfig(config); err != nil {
		t.Fatalf("%v: %v", arguments, err)
	}
	if config.Provider != "webhook" || config.Policy != "sync" {
		t.Fatalf("provider %s, policy %s", config.Provider, config.Policy)
	}
	// Hosts of a certificate, such as a wildcard, are not all to be published.
	if !config.IgnoreIngressTLSSpec {
		t.Errorf("ExternalDNS reads the hosts of spec.tls: %v", arguments)
	}
	return config
}

// TestThePodRuns starts the program with what each Deployment gives it, and asks what the probes ask.
func TestThePodRuns(t *testing.T) {
	for name, deployment := range deployments(t) {
		t.Run(name, func(t *testing.T) {
			pod := deployment.Spec.Template.Spec
			webhook := container(t, deployment, "webhook")
			program := startProgram(t, plain(t, webhook.Env), webhook.Args)
			config := externalDNS(t, container(t, deployment, "external-dns").Args)
			if config.WebhookProviderURL != "http://localhost:8888" {
				t.Errorf("ExternalDNS asks %s", config.WebhookProviderURL)
			}
			ownersAgree(t, config, plain(t, webhook.Env), webhook.Args)

			if len(webhook.Ports) != 1 || webhook.Ports[0].ContainerPort != 8080 {
				t.Errorf("ports %+v", webhook.Ports)
			}
			for path, probe := range map[string]*core.Probe{"/healthz": webhook.LivenessProbe, "/readyz": webhook.ReadinessProbe} {
				if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != webhook.Ports[0].Name {
					t.Fatalf("probe of %s: %+v", path, probe)
				}
			}
			if status := program.status(t, webhook.LivenessProbe.HTTPGet.Path); status != 200 {
				t.Errorf("liveness is answered %d", status)
			}
			// Cloudflare is not there, so it is not ready, and says so.
			if status := program.status(t, webhook.ReadinessProbe.HTTPGet.Path); status != 503 {
				t.Errorf("readiness is answered %d", status)
			}

			confined(t, webhook.SecurityContext)
			if limit := webhook.Resources.Limits.Memory(); limit.Value() != 64<<20 {
				t.Errorf("memory limit %s", limit)
			}
			mounted(t, pod, webhook)
			tokenIsOneContainers(t, pod)
		})
	}
}

// ownersAgree compares what both sides are told, where ExternalDNS has a registry that writes an owner.
func ownersAgree(t *testing.T, config *externaldns.Config, environment map[string]string, arguments []string) {
	t.Helper()
	owner := environment["OWNER_ID"]
	for _, argument := range arguments {
		if value, is := strings.CutPrefix(argument, "--owner-id="); is {
			owner = value
		}
	}
	if config.Registry != "noop" && owner != config.TXTOwnerID {
		t.Errorf("the webhook's owner is %q, ExternalDNS's %q", owner, config.TXTOwnerID)
	}
}

func confined(t *testing.T, context *core.SecurityContext) {
	t.Helper()
	if context == nil || *context.RunAsUser != 65532 || !*context.ReadOnlyRootFilesystem || *context.AllowPrivilegeEscalation ||
		!slices.Equal(context.Capabilities.Drop, []core.Capability{"ALL"}) || len(context.Capabilities.Add) > 0 {
		t.Errorf("security context %+v", context)
	}
}

// mounted checks that the token's file is in a volume of the Secret that README.md says to make.
func mounted(t *testing.T, pod core.PodSpec, webhook core.Container) {
	t.Helper()
	file := plain(t, webhook.Env)["CF_API_TOKEN_FILE"]
	for _, mount := range webhook.VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name && volume.Secret != nil && volume.Secret.SecretName == "cloudflare" &&
				filepath.Join(mount.MountPath, "api-token") == file && mount.ReadOnly {
				return
			}
		}
	}
	t.Errorf("no volume has %q: %+v", file, webhook.VolumeMounts)
}

// where Kubernetes would mount the service account's token, and ExternalDNS looks for it.
const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// tokenIsOneContainers checks that ExternalDNS finds its token for the cluster's API, and the webhook has neither that nor a
// way to it; nor ExternalDNS the webhook's.
func tokenIsOneContainers(t *testing.T, pod core.PodSpec) {
	t.Helper()
	if mounts := pod.AutomountServiceAccountToken; mounts == nil || *mounts {
		t.Error("Kubernetes mounts the service account's token into every container")
	}
	volumes := map[string]core.Volume{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume
	}
	holders := map[string]string{}
	for _, each := range pod.Containers {
		for _, mount := range each.VolumeMounts {
			volume := volumes[mount.Name]
			switch {
			case volume.Secret != nil:
				holders[volume.Secret.SecretName] += each.Name
			case volume.Projected != nil && mount.MountPath == serviceAccountFolder && mount.ReadOnly:
				for _, source := range volume.Projected.Sources {
					for _, file := range projected(source) {
						holders[file] += each.Name
					}
				}
			default:
				t.Errorf("%s has %+v of %+v", each.Name, mount, volume)
			}
		}
	}
	wanted := map[string]string{
		"cloudflare": "webhook", "token": "external-dns", "ca.crt of kube-root-ca.crt": "external-dns",
		"namespace of metadata.namespace": "external-dns",
	}
	if !maps.Equal(holders, wanted) {
		t.Errorf("mounted are %v, wanted %v", holders, wanted)
	}
}

// projected names the files of a source, and what they are made of.
func projected(source core.VolumeProjection) []string {
	var files []string
	if token := source.ServiceAccountToken; token != nil {
		files = append(files, token.Path)
	}
	if from := source.ConfigMap; from != nil {
		for _, item := range from.Items {
			files = append(files, item.Path+" of "+from.Name)
		}
	}
	if from := source.DownwardAPI; from != nil {
		for _, item := range from.Items {
			files = append(files, item.Path+" of "+item.FieldRef.FieldPath)
		}
	}
	return files
}

// TestTheRegistriesAreAsTold: one of each way.
func TestTheRegistriesAreAsTold(t *testing.T) {
	told := map[string]int{}
	for _, deployment := range deployments(t) {
		told[externalDNS(t, container(t, deployment, "external-dns").Args).Registry]++
	}
	if wanted := map[string]int{"noop": 3, "txt": 2}; !maps.Equal(told, wanted) {
		t.Errorf("registries %v, wanted %v", told, wanted)
	}
}

// TestTheRoleIsTheCharts compares the rules with those that the official chart makes for the same sources.
func TestTheRoleIsTheCharts(t *testing.T) {
	newest := load(t, render.Charts[len(render.Charts)-1])
	theirs := only[*rbac.ClusterRole](t, helmTemplate(t, newest, "values.yaml"))
	ours := only[*rbac.ClusterRole](t, kustomizeBuild(t, "kustomize"))
	if theirs, ours := grants(theirs), grants(ours); !maps.Equal(theirs, ours) {
		t.Errorf("the chart grants %v, kustomize %v", theirs, ours)
	}

	// The same with the sources that users add, whose rules are commented out.
	sources := valuesBeside(t, "sources: [ingress, service, gateway-httproute, gateway-grpcroute, crd]")
	theirs = only[*rbac.ClusterRole](t, helmTemplate(t, newest, "values.yaml", sources))
	text := regexp.MustCompile(`(?m)^  # (- |  )`).ReplaceAll(read(t, "kustomize", "clusterrole.yaml"), []byte("  $1"))
	ours = only[*rbac.ClusterRole](t, decode(t, "clusterrole.yaml", text))
	if theirs, ours := grants(theirs), grants(ours); !maps.Equal(theirs, ours) {
		t.Errorf("with all that is commented out the chart grants %v, kustomize %v", theirs, ours)
	}
}

// valuesBeside writes values into a file, and names it as one of deploy/helm.
func valuesBeside(t *testing.T, values string) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(deployFolder, "helm"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(folder, file)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func grants(role *rbac.ClusterRole) map[string]bool {
	granted := map[string]bool{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[group+"/"+resource+" "+verb] = true
				}
			}
		}
	}
	return granted
}

// TestThePartsOfKustomizeFit: what refers to another object finds it.
func TestThePartsOfKustomizeFit(t *testing.T) {
	objects := kustomizeBuild(t, "kustomize")
	deployment := only[*apps.Deployment](t, objects)
	account := only[*core.ServiceAccount](t, objects)
	binding := only[*rbac.ClusterRoleBinding](t, objects)
	subject := rbac.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}
	if len(binding.Subjects) != 1 || binding.Subjects[0] != subject || binding.RoleRef.Name != only[*rbac.ClusterRole](t, objects).Name {
		t.Errorf("the binding %+v is not of %+v", binding, subject)
	}
	if deployment.Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Errorf("service account %s", deployment.Spec.Template.Spec.ServiceAccountName)
	}
	if namespace := only[*core.Namespace](t, objects); deployment.Namespace != namespace.Name {
		t.Errorf("namespaces %s and %s", deployment.Namespace, namespace.Name)
	}
	secret := only[*core.Secret](t, secretExample(t))
	if _, named := secret.StringData["api-token"]; !named || secret.Name != "cloudflare" || secret.Namespace != deployment.Namespace {
		t.Errorf("secret %+v", secret)
	}

	policy := only[*networking.NetworkPolicy](t, objects)
	pod := deployment.Spec.Template
	for name, value := range policy.Spec.PodSelector.MatchLabels {
		if pod.Labels[name] != value {
			t.Errorf("the policy selects %s=%s, the pod has %v", name, value, pod.Labels)
		}
	}
	if len(policy.Spec.PodSelector.MatchLabels) == 0 || len(policy.Spec.PolicyTypes) != 2 {
		t.Errorf("the policy holds for %+v, %v", policy.Spec.PodSelector, policy.Spec.PolicyTypes)
	}
	allowed := map[string]bool{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			allowed[port.Port.StrVal] = true
		}
	}
	for _, each := range pod.Spec.Containers {
		for _, port := range each.Ports {
			if !allowed[port.Name] {
				t.Errorf("the policy keeps probes from port %s of %s", port.Name, each.Name)
			}
		}
	}
}

// TestThePolicyIsForNoOtherExternalDNS: as it stands in its file it is for the pods of each way, and for no other release's.
func TestThePolicyIsForNoOtherExternalDNS(t *testing.T) {
	policy := only[*networking.NetworkPolicy](t, decode(t, "networkpolicy.yaml", read(t, "kustomize", "networkpolicy.yaml")))
	selects, err := meta.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	for name, deployment := range deployments(t) {
		own := labels.Set(deployment.Spec.Template.Labels)
		if !selects.Matches(own) {
			t.Errorf("it does not select the pod of %s, which has %s", name, own)
		}
		if other := labels.Merge(own, labels.Set{"app.kubernetes.io/instance": "external-dns"}); selects.Matches(other) {
			t.Errorf("it selects %s", other)
		}
	}
}

// TestNothingIsNamedAsAnotherExternalDNSIs: a chart's release is called external-dns in most clusters, and so are its objects.
func TestNothingIsNamedAsAnotherExternalDNSIs(t *testing.T) {
	for _, object := range kustomizeBuild(t, "kustomize") {
		named, err := apimeta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, is := object.(*core.Namespace); !is && named.GetName() != "external-dns-tunnel" {
			t.Errorf("%T %s", object, named.GetName())
		}
	}
}

// TestThePrefixOfTheValuesIsTaken: the line for a cluster where another ExternalDNS runs, once it is no comment.
func TestThePrefixOfTheValuesIsTaken(t *testing.T) {
	const comment = "\n# annotationPrefix: "
	values := string(read(t, "helm", "values.yaml"))
	_, line, found := strings.Cut(values, comment)
	wanted, _, _ := strings.Cut(line, "\n")
	if !found || !strings.HasSuffix(wanted, "/") {
		t.Fatalf("the prefix is %q", wanted)
	}
	taken := valuesBeside(t, strings.Replace(values, comment, "\nannotationPrefix: ", 1))
	for _, official := range render.Charts {
		deployment := only[*apps.Deployment](t, helmTemplate(t, load(t, official), taken))
		if told := externalDNS(t, container(t, deployment, "external-dns").Args).AnnotationPrefix; told != wanted {
			t.Errorf("chart %s: the prefix is %q, wanted %q", official.Version, told, wanted)
		}
	}
}

// TestThePolicyLetsOutWhatThePodNeeds: names, and each of the ports at which clusters have their API.
func TestThePolicyLetsOutWhatThePodNeeds(t *testing.T) {
	allowed := map[string]bool{}
	for _, rule := range only[*networking.NetworkPolicy](t, kustomizeBuild(t, "kustomize")).Spec.Egress {
		for _, port := range rule.Ports {
			allowed[fmt.Sprintf("%s %s", *port.Protocol, port.Port)] = true
		}
	}
	wanted := map[string]bool{
		"UDP 53": true, "TCP 53": true, "UDP 5353": true, "TCP 5353": true,
		"TCP 443": true, "TCP 6443": true, "TCP 8443": true, "TCP 16443": true,
	}
	if !maps.Equal(allowed, wanted) {
		t.Errorf("let out are %v, wanted %v", allowed, wanted)
	}
}

func secretExample(t *testing.T) []runtime.Object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployFolder, "kustomize", "secret.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, "secret.example.yaml", text)
}

// TestComposeRuns does for the compose file what TestThePodRuns does for a Deployment.
func TestComposeRuns(t *testing.T) {
	project := composeProject(t)
	webhook, tells := project.Services["webhook"], project.Services["external-dns"]
	environment := map[string]string{}
	for name, value := range webhook.Environment {
		environment[name] = *value
	}
	program := startProgram(t, environment, webhook.Command)
	if status := program.status(t, "/healthz"); status != 200 {
		t.Errorf("health is answered %d", status)
	}
	config := externalDNS(t, tells.Command)
	ownersAgree(t, config, environment, webhook.Command)
	if config.KubeConfig != "/run/secrets/"+tells.Secrets[0].Source || config.WebhookProviderURL != "http://localhost:8888" {
		t.Errorf("kubeconfig %s, webhook %s", config.KubeConfig, config.WebhookProviderURL)
	}
	// The API listens on loopback: another network namespace would never reach it.
	if tells.NetworkMode != "service:webhook" {
		t.Errorf("ExternalDNS is in the network of %q", tells.NetworkMode)
	}
	if environment["CF_API_TOKEN_FILE"] != "/run/secrets/"+webhook.Secrets[0].Source {
		t.Errorf("the token is read from %s", environment["CF_API_TOKEN_FILE"])
	}
	if webhook.User != "65532:65532" || webhook.MemLimit != 64<<20 {
		t.Errorf("user %s, memory limit %d", webhook.User, webhook.MemLimit)
	}
	for _, port := range webhook.Ports {
		if port.HostIP != "127.0.0.1" || port.Target != 8080 {
			t.Errorf("published %+v", port)
		}
	}
	for name, service := range project.Services {
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not confined", name)
		}
	}
}
