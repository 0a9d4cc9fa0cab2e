package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// There is no kubelet: the containers of a Deployment's pods are processes here.

// deployment is what decides its pods.
type deployment struct {
	template map[string]any // as it was written
	replicas int
	spec     podSpec
}

type podSpec struct {
	ServiceAccountName         string
	InitContainers, Containers []container
	Volumes                    []struct {
		Name   string
		Secret *struct{ SecretName string }
	}
}

type container struct {
	Name, Image  string
	Args         []string
	Env          []variable
	VolumeMounts []struct{ Name, MountPath string }
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		SecretKeyRef struct{ Name, Key string }
	}
}

// deploymentOf is the one of that name among objects.
func deploymentOf(t *testing.T, objects []*object, name string) deployment {
	t.Helper()
	index := slices.IndexFunc(objects, func(object *object) bool {
		return object.GetKind() == "Deployment" && object.GetName() == name
	})
	if index < 0 {
		t.Fatalf("there is no Deployment %s", name)
	}
	var read struct {
		Spec struct {
			Replicas *int
			Template struct{ Spec podSpec }
		}
	}
	remarshal(t, objects[index], &read)
	replicas := 1
	if read.Spec.Replicas != nil {
		replicas = *read.Spec.Replicas
	}
	template := objects[index].Object["spec"].(map[string]any)["template"].(map[string]any)
	return deployment{template, replicas, read.Spec.Template.Spec}
}

// deployments are those beside ExternalDNS that the API server has.
func (c *cluster) deployments(t *testing.T) []*object {
	t.Helper()
	text, err := c.Try(http.MethodGet, "/apis/apps/v1/namespaces/"+ownNamespace+"/deployments", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var found []*object
	for _, item := range list.Items {
		item["kind"], item["apiVersion"] = "Deployment", "apps/v1" // A list says it once for all.
		found = append(found, &object{Object: item})
	}
	return found
}

func named(t *testing.T, containers []container, name string) container {
	t.Helper()
	index := slices.IndexFunc(containers, func(candidate container) bool { return candidate.Name == name })
	if index < 0 {
		t.Fatalf("no container %s", name)
	}
	return containers[index]
}

// folders are a pod's volumes, by name: those of Secrets are filled, the others are empty.
type folders map[string]string

func (c *cluster) volumes(t *testing.T, spec podSpec) folders {
	t.Helper()
	c.fillVariables(t, spec)
	made := folders{}
	for _, volume := range spec.Volumes {
		folder := t.TempDir()
		made[volume.Name] = folder
		if volume.Secret == nil {
			continue
		}
		for key, content := range c.secret(t, volume.Secret.SecretName) {
			if err := os.WriteFile(filepath.Join(folder, key), content, 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
	return made
}

// fillVariables gives the containers' variables what they have of Secrets.
func (c *cluster) fillVariables(t *testing.T, spec podSpec) {
	t.Helper()
	for _, each := range slices.Concat(spec.InitContainers, spec.Containers) {
		for index, variable := range each.Env {
			if from := variable.ValueFrom.SecretKeyRef; from.Name != "" {
				value, has := c.secret(t, from.Name)[from.Key]
				if !has {
					t.Fatalf("the Secret %s has no %s", from.Name, from.Key)
				}
				each.Env[index].Value = string(value)
			}
		}
	}
}

// secret is what a Secret beside ExternalDNS holds.
func (c *cluster) secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	text, err := c.Try(http.MethodGet, "/api/v1/namespaces/"+ownNamespace+"/secrets/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var secret struct{ Data map[string][]byte }
	if err := json.Unmarshal(text, &secret); err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

// located leads the paths in a text of the container to the folders that are mounted there.
func (f folders) located(each container, text string) string {
	for _, mount := range each.VolumeMounts {
		text = strings.ReplaceAll(text, mount.MountPath+"/", f[mount.Name]+"/")
	}
	return text
}

// process is the container's environment and arguments, on this machine.
func (f folders) process(each container) (environment, arguments []string) {
	for _, variable := range each.Env {
		environment = append(environment, f.located(each, variable.Name+"="+variable.Value))
	}
	for _, argument := range each.Args {
		arguments = append(arguments, f.located(each, argument))
	}
	return environment, arguments
}

// pod is the two containers of ExternalDNS's Deployment.
type pod struct {
	*harness.ExternalDNS
	program *harness.Program
	cluster *cluster
	token   string // of its service account
	spec    podSpec
	folders folders
}

// run is what a kubelet would do with ExternalDNS's Deployment among the objects, once they are installed. The arguments of
// ExternalDNS are the Deployment's, but for where the API server and the program are, and but for these.
func (c *cluster) run(t *testing.T, objects []*object, changed ...string) *pod {
	t.Helper()
	made := c.runWebhook(t, objects)
	made.program.AwaitReady(t)
	made.runExternalDNS(t, changed...)
	return made
}

// runWebhook runs its container alone, which need not be ready.
func (c *cluster) runWebhook(t *testing.T, objects []*object) *pod {
	t.Helper()
	own := deploymentOf(t, objects, ownName)
	if err := c.admits(own.template); err != nil {
		t.Error(err)
	}
	made := &pod{
		cluster: c, spec: own.spec,
		token:   c.tokenOf(t, own.spec.ServiceAccountName),
		folders: c.volumes(t, own.spec),
	}
	environment, arguments := made.folders.process(named(t, own.spec.Containers, "webhook"))
	made.program = harness.LaunchProgramAs(t, c.cloudflare, environment, arguments...)
	return made
}

func (p *pod) runExternalDNS(t *testing.T, changed ...string) {
	t.Helper()
	changed = append(changed, "--kubeconfig="+p.cluster.KubeconfigOf(t, p.token, ownNamespace),
		"--webhook-provider-url=http://"+p.program.Address)
	arguments := replacing(named(t, p.spec.Containers, "external-dns").Args, changed...)
	p.ExternalDNS = harness.StartExternalDNS(t, externalDNSBinary, arguments...)
}

// replacing puts arguments in the place of those with the same flags. ExternalDNS takes most flags once.
func replacing(arguments []string, changed ...string) []string {
	kept := slices.DeleteFunc(slices.Clone(arguments), func(argument string) bool {
		flag, _, _ := strings.Cut(argument, "=")
		return slices.ContainsFunc(changed, func(other string) bool { return strings.HasPrefix(other, flag+"=") })
	})
	return append(kept, changed...)
}

// soon makes ExternalDNS look every second. The default is a minute, and a change in the cluster puts the next loop off until
// `--min-event-sync-interval` is over.
var soon = []string{"--interval=1s", "--min-event-sync-interval=1s"}

// admits makes a pod of this template beside ExternalDNS's own and deletes it. It says why the API server would not have it.
func (c *cluster) admits(template map[string]any) error {
	if err := c.makeDefaultAccount(); err != nil {
		return err
	}
	made := object{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{}, "spec": template["spec"]}}
	made.SetName("of-the-template")
	if metadata, has := template["metadata"].(map[string]any); has {
		made.SetLabels((&object{Object: map[string]any{"metadata": metadata}}).GetLabels())
	}
	text, err := json.Marshal(&made)
	if err != nil {
		return err
	}
	pods := "/api/v1/namespaces/" + ownNamespace + "/pods"
	if _, err := c.Try(http.MethodPost, pods+"?fieldValidation=Strict", text); err != nil {
		return err
	}
	_, err = c.Try(http.MethodDelete, pods+"/"+made.GetName()+"?gracePeriodSeconds=0", nil)
	return err
}

// makeDefaultAccount makes the service account of pods that name none, as a controller does in each namespace.
func (c *cluster) makeDefaultAccount() error {
	_, err := c.Try(http.MethodPost, "/api/v1/namespaces/"+ownNamespace+"/serviceaccounts",
		[]byte(`{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}`))
	if err != nil && strings.Contains(err.Error(), "AlreadyExists") {
		return nil
	}
	return err
}

// tokenOf is a token as a kubelet mounts it into the account's pods.
func (c *cluster) tokenOf(t *testing.T, account string) string {
	t.Helper()
	text, err := c.Try(http.MethodPost, "/api/v1/namespaces/"+ownNamespace+"/serviceaccounts/"+account+"/token",
		[]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}`))
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Status struct{ Token string } }
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// replica is a pod of cloudflared's Deployment.
type replica struct {
	fetching    *harness.Process // the init container
	cloudflared container
	folders     folders
}

// fetchRunTokens makes the pods of cloudflared's Deployment and runs the init containers of all of them at once.
func (c *cluster) fetchRunTokens(t *testing.T, objects []*object) []replica {
	t.Helper()
	own := deploymentOf(t, objects, "cloudflared")
	if err := c.admits(own.template); err != nil {
		t.Error(err)
	}
	replicas := make([]replica, own.replicas)
	for index := range replicas {
		made := replica{cloudflared: named(t, own.spec.Containers, "cloudflared"), folders: c.volumes(t, own.spec)}
		environment, arguments := made.folders.process(named(t, own.spec.InitContainers, "tunnel"))
		made.fetching = harness.RunProgram(t, c.cloudflare, environment, arguments...)
		replicas[index] = made
	}
	for index, made := range replicas {
		if code := made.fetching.ExitCode(t); code != 0 {
			t.Errorf("the init container of replica %d ends with %d", index, code)
		}
	}
	return replicas
}

// tokenFile is where its cloudflared is told to read the tunnel token, on this machine.
func (r replica) tokenFile(t *testing.T) string {
	t.Helper()
	_, arguments := r.folders.process(r.cloudflared)
	for _, argument := range arguments {
		if path, is := strings.CutPrefix(argument, "--token-file="); is {
			return path
		}
	}
	t.Fatalf("cloudflared reads no token file: %q", arguments)
	panic("unreachable")
}

// runToken is what is in the file.
func (r replica) runToken(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.tokenFile(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// connects plays the replica's cloudflared, and says why it is no connector of the account's tunnel.
func (c *cluster) connects(t *testing.T, replica replica) error {
	t.Helper()
	tunnel, err := c.cloudflare.Connect(replica.runToken(t))
	if err == nil && tunnel != c.home {
		err = errors.New("it is a connector of " + tunnel.ID)
	}
	return err
}
