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
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns/validation"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

// The names of ExternalDNS's Deployment and of cloudflared's.
const (
	ownName         = render.Release
	cloudflaredName = "cloudflared"
)

// installations are all that the files make, by name of what made it.
func installations(t *testing.T) map[string][]runtime.Object {
	return map[string][]runtime.Object{
		"chart":                 helmTemplate(t),
		"chart, existingSecret": helmTemplate(t, "token=,existingSecret=cloudflare"),
		"chart, registry txt":   helmTemplate(t, "external-dns.registry=txt,external-dns.txtOwnerId=house"),
		"kustomize":             kustomizeBuild(t, "kustomize"),
	}
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

// variablesOf a container are plain, or of a Secret among the objects.
func variablesOf(t *testing.T, objects []runtime.Object, of core.Container) map[string]string {
	t.Helper()
	environment := map[string]string{}
	for _, variable := range of.Env {
		environment[variable.Name] = variable.Value
		if variable.ValueFrom == nil {
			continue
		}
		from := variable.ValueFrom.SecretKeyRef
		if from == nil {
			t.Fatalf("%s is taken from %+v", variable.Name, variable.ValueFrom)
		}
		value, has := named[*core.Secret](t, objects, from.Name).Data[from.Key]
		if !has {
			t.Fatalf("%s asks the Secret %s for %s in vain", variable.Name, from.Name, from.Key)
		}
		environment[variable.Name] = string(value)
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
	// At five seconds, ExternalDNS's own, changes without a pause take all calls that Cloudflare grants.
	if !config.UpdateEvents || config.MinEventSyncInterval != 15*time.Second {
		t.Errorf("events start loops: %v, %v apart", config.UpdateEvents, config.MinEventSyncInterval)
	}
	return config
}

// TestThePodRuns starts the program with what each Deployment gives it, and asks what the probes ask.
func TestThePodRuns(t *testing.T) {
	for name, objects := range installations(t) {
		t.Run(name, func(t *testing.T) {
			deployment := named[*apps.Deployment](t, objects, ownName)
			pod := deployment.Spec.Template.Spec
			webhook := container(t, deployment, "webhook")
			environment := variablesOf(t, objects, webhook)
			program := startProgram(t, environment, webhook.Args)
			config := externalDNS(t, container(t, deployment, "external-dns").Args)
			if config.WebhookProviderURL != "http://localhost:8888" {
				t.Errorf("ExternalDNS asks %s", config.WebhookProviderURL)
			}
			ownersAgree(t, config, environment)

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
			tokenIsOneContainers(t, objects, pod)
		})
	}
}

// ownersAgree compares what both sides are told, where ExternalDNS has a registry that writes an owner.
func ownersAgree(t *testing.T, config *externaldns.Config, environment map[string]string) {
	t.Helper()
	if config.Registry != "noop" && environment["OWNER_ID"] != config.TXTOwnerID {
		t.Errorf("the webhook's owner is %q, ExternalDNS's %q", environment["OWNER_ID"], config.TXTOwnerID)
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
	file := webhook.Env[slices.IndexFunc(webhook.Env, func(each core.EnvVar) bool { return each.Name == "CF_API_TOKEN_FILE" })].Value
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
func tokenIsOneContainers(t *testing.T, objects []runtime.Object, pod core.PodSpec) {
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
			case volume.Name == "secrets" && each.Name == "external-dns":
				// The official chart mounts its Secret there: no token is to be in it.
				if keys := slices.Sorted(maps.Keys(named[*core.Secret](t, objects, ownName).Data)); !slices.Equal(keys, []string{"domain", "owner", "settings", "tunnel"}) {
					t.Errorf("ExternalDNS reads %v", keys)
				}
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

// TestNothingIsNamedAsAnotherExternalDNSIs: a release of the official chart is mostly called external-dns, and so are its objects.
func TestNothingIsNamedAsAnotherExternalDNSIs(t *testing.T) {
	for name, objects := range installations(t) {
		for _, object := range objects {
			if object.(meta.Object).GetName() == "external-dns" {
				t.Errorf("%s has %T external-dns", name, object)
			}
		}
		policy := named[*networking.NetworkPolicy](t, objects, ownName)
		other := labels.Merge(podLabels(t, objects, ownName), labels.Set{"app.kubernetes.io/instance": "external-dns"})
		if selectorOf(t, &policy.Spec.PodSelector).Matches(other) {
			t.Errorf("the policy of %s selects %s", name, other)
		}
	}
}

// TestThePrefixOfTheValuesIsTaken: the line for a cluster where another ExternalDNS runs, once it is no comment.
func TestThePrefixOfTheValuesIsTaken(t *testing.T) {
	line := regexp.MustCompile(`(?m)^  # (annotationPrefix: (\S+/))$`).FindSubmatch(read(t, "chart", "values.yaml"))
	if line == nil {
		t.Fatal("there is no such line")
	}
	objects := helmTemplate(t, "external-dns.annotationPrefix="+string(line[2]))
	arguments := container(t, named[*apps.Deployment](t, objects, ownName), "external-dns").Args
	if told := externalDNS(t, arguments).AnnotationPrefix; told != string(line[2]) {
		t.Errorf("the prefix is %q, wanted %q", told, line[2])
	}
}

// TestMoreSourcesForKustomizeAreThoseOfTheChart: the lines of the kustomization, once they are no comment.
func TestMoreSourcesForKustomizeAreThoseOfTheChart(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(deployFolder, "kustomize"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, patches, found := strings.Cut(string(text), "\n# patches:\n")
	if !found {
		t.Fatal("there are no patches")
	}
	patches = regexp.MustCompile(`(?m)^# `).ReplaceAllString(patches, "")
	if err := os.WriteFile(file, []byte(head+"\npatches:\n"+patches), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := render.Kustomize(folder)
	if err != nil {
		t.Fatal(err)
	}
	ours := decode(t, "the copy", built)
	theirs := helmTemplate(t, "external-dns.sources={ingress,service,gateway-httproute,gateway-grpcroute,crd}")
	if ours, theirs := grants(named[*rbac.ClusterRole](t, ours, "")), grants(named[*rbac.ClusterRole](t, theirs, "")); !maps.Equal(ours, theirs) {
		t.Errorf("kustomize grants %v, the chart %v", ours, theirs)
	}
	sources := func(objects []runtime.Object) []string {
		return externalDNS(t, container(t, named[*apps.Deployment](t, objects, ownName), "external-dns").Args).Sources
	}
	if ours, theirs := sources(ours), sources(theirs); !slices.Equal(ours, theirs) {
		t.Errorf("kustomize has the sources %v, the chart %v", ours, theirs)
	}
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

// TestThePolicyIsOfThePod, and lets in what asks its ports.
func TestThePolicyIsOfThePod(t *testing.T) {
	objects := helmTemplate(t)
	policy := named[*networking.NetworkPolicy](t, objects, ownName)
	pod := named[*apps.Deployment](t, objects, ownName).Spec.Template
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

// TestThePolicyLetsOutWhatThePodNeeds: names, and each of the ports at which clusters have their API.
func TestThePolicyLetsOutWhatThePodNeeds(t *testing.T) {
	allowed := map[string]bool{}
	for _, rule := range named[*networking.NetworkPolicy](t, helmTemplate(t), ownName).Spec.Egress {
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
	ownersAgree(t, config, environment)
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
