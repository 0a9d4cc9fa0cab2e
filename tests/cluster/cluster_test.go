package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// cluster is an API server, Cloudflare, and what was at Cloudflare before.
type cluster struct {
	*harness.APIServer
	cloudflare *harness.Emulator
	home       harness.Tunnel // what deploy/ calls the tunnel
	records    []harness.Record
}

const (
	deployFolder = "../../deploy"
	// Where deploy/ and the README put ExternalDNS.
	ownNamespace = "external-dns"
	// Where the tests' own objects are.
	appNamespace = "shop"
	// A state that has not come after so long does not come: on two cores that others use too.
	patience = time.Minute
)

// definitions are the kinds that a cluster does not have by itself, as their projects define them.
var definitions = map[string][]string{
	"sigs.k8s.io/external-dns": {
		"config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml",
		"config/crd/standard/dnsrecords.externaldns.k8s.io.yaml",
	},
	"sigs.k8s.io/gateway-api": {
		"config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
		"config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml",
		"config/crd/standard/gateway.networking.k8s.io_listenersets.yaml",
	},
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	made := &cluster{APIServer: harness.StartAPIServer(t), cloudflare: harness.StartEmulator(t)}
	made.home = made.cloudflare.TunnelNeverConfigured(t, "home")
	made.records = made.cloudflare.Records(t)
	for module, files := range definitions {
		for _, file := range files {
			text, err := harness.ExternalDNSFile(module, file)
			if err != nil {
				t.Fatal(err)
			}
			made.apply(t, "", objectsOf(t, text)...)
		}
	}
	made.apply(t, "", namespace(appNamespace))
	return made
}

func namespace(name string) *object {
	return &object{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

// helm renders the official chart with these of our values files, and more values over them.
func helm(t *testing.T, more map[string]any, files ...string) []*object {
	t.Helper()
	text, err := json.Marshal(more)
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"helm", "1.22.0", string(text)}
	for _, file := range files {
		arguments = append(arguments, filepath.Join(deployFolder, "helm", file))
	}
	return manifests(t, arguments...)
}

func kustomize(t *testing.T) []*object {
	t.Helper()
	return manifests(t, "kustomize", filepath.Join(deployFolder, "kustomize"))
}

func manifests(t *testing.T, arguments ...string) []*object {
	t.Helper()
	command := exec.Command(manifestsBinary, arguments...)
	text, err := command.Output()
	if err != nil {
		if failure, ended := err.(*exec.ExitError); ended {
			err = fmt.Errorf("%w: %s", err, failure.Stderr)
		}
		t.Fatalf("%s: %v", command, err)
	}
	return objectsOf(t, text)
}

// install applies manifests into a namespace that enforces the strictest standard, with the Secret that the README says to make.
func (c *cluster) install(t *testing.T, objects []*object) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployFolder, "kustomize", "namespace.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, "", objectsOf(t, text)...)
	text, err = os.ReadFile(filepath.Join(deployFolder, "kustomize", "secret.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, ownNamespace, objectsOf(t, text)...)
	c.apply(t, ownNamespace, objects...)
}

// pod is the two containers of a Deployment.
type pod struct {
	*harness.ExternalDNS
	program *harness.Program
	cluster *cluster
	token   string // of its service account
}

// run is what a kubelet would do with the Deployment among the objects, once they are installed. The arguments of ExternalDNS
// are the Deployment's, but for where the API server and the program are, and but for these.
func (c *cluster) run(t *testing.T, objects []*object, changed ...string) *pod {
	t.Helper()
	index := slices.IndexFunc(objects, func(object *object) bool { return object.GetKind() == "Deployment" })
	if index < 0 {
		t.Fatal("there is no Deployment")
	}
	template, _, err := unstructured.NestedMap(objects[index].Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.admits(template); err != nil {
		t.Error(err)
	}
	var podSpec struct {
		ServiceAccountName string
		Containers         []container
	}
	remarshal(t, template["spec"], &podSpec)

	made := &pod{cluster: c, token: c.tokenOf(t, podSpec.ServiceAccountName)}
	webhook, dns := named(t, podSpec.Containers, "webhook"), named(t, podSpec.Containers, "external-dns")
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(c.cloudflare.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	var environment []string
	for _, variable := range webhook.Env {
		if variable.Name == "CF_API_TOKEN_FILE" {
			variable.Value = tokenFile
		}
		environment = append(environment, variable.Name+"="+variable.Value)
	}
	made.program = harness.StartProgramAs(t, c.cloudflare, environment, webhook.Args...)

	changed = append(changed, "--kubeconfig="+c.KubeconfigOf(t, made.token, ownNamespace), "--webhook-provider-url=http://"+made.program.Address)
	arguments := slices.DeleteFunc(dns.Args, func(argument string) bool {
		flag, _, _ := strings.Cut(argument, "=")
		return slices.ContainsFunc(changed, func(other string) bool { return strings.HasPrefix(other, flag+"=") })
	})
	made.ExternalDNS = harness.StartExternalDNS(t, externalDNSBinary, append(arguments, changed...)...)
	return made
}

// soon makes ExternalDNS look every second. The default is a minute.
const soon = "--interval=1s"

type container struct {
	Name string
	Args []string
	Env  []struct{ Name, Value string }
}

func named(t *testing.T, containers []container, name string) container {
	t.Helper()
	index := slices.IndexFunc(containers, func(candidate container) bool { return candidate.Name == name })
	if index < 0 {
		t.Fatalf("no container %s", name)
	}
	return containers[index]
}

func remarshal(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

// admits says why the API server would not have a pod of this template beside ExternalDNS's own.
func (c *cluster) admits(template map[string]any) error {
	made := object{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{}, "spec": template["spec"]}}
	made.SetName("of-the-template")
	text, err := json.Marshal(&made)
	if err != nil {
		return err
	}
	_, err = c.Try(http.MethodPost, "/api/v1/namespaces/"+ownNamespace+"/pods?dryRun=All&fieldValidation=Strict", text)
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

// shape is the rules of each hostname, as "path service", in their order.
type shape map[string][]string

// publishes awaits that this is all that the tunnel has and that the records lead to it, and sees that it stays so.
func (p *pod) publishes(t *testing.T, wanted shape) {
	t.Helper()
	p.reaches(t, wanted)
	// The loop that brought it about may have more to write, as TXT records.
	p.rests(t)
	p.StaysQuiet(t, p.cluster.cloudflare)
	if err := p.cluster.shows(t, wanted); err != nil {
		t.Error(err)
	}
}

func (p *pod) reaches(t *testing.T, wanted shape) {
	t.Helper()
	harness.EventuallyWithin(t, patience, fmt.Sprintf("published is %v", wanted), func() error {
		p.Alive(t)
		return p.cluster.shows(t, wanted)
	})
}

// rests awaits the next loop that finds nothing to do.
func (p *pod) rests(t *testing.T) {
	t.Helper()
	before := p.MustMetric(t, harness.NoOpRuns)
	harness.EventuallyWithin(t, patience, "external-dns finds all records up to date", func() error {
		p.Alive(t)
		if p.MustMetric(t, harness.NoOpRuns) == before {
			return errors.New("not yet")
		}
		return nil
	})
}

// shows says how what is at Cloudflare differs from this.
func (c *cluster) shows(t *testing.T, wanted shape) error {
	t.Helper()
	found := shape{}
	for _, rule := range c.cloudflare.Rules(t, c.home) {
		if rule.Hostname != "" {
			found[rule.Hostname] = append(found[rule.Hostname], strings.TrimSpace(rule.Path+" "+rule.Service))
		}
	}
	for hostname, rules := range wanted {
		if !slices.Equal(found[hostname], rules) {
			return fmt.Errorf("%s has the rules %q, wanted %q", hostname, found[hostname], rules)
		}
		if err := c.cloudflare.LeadsTo(t, "default", c.home, hostname); err != nil {
			return err
		}
	}
	for hostname, rules := range found {
		if wanted[hostname] == nil {
			return fmt.Errorf("%s has the rules %q, wanted none", hostname, rules)
		}
	}
	for _, record := range c.cloudflare.Records(t) {
		before := slices.ContainsFunc(c.records, func(old harness.Record) bool { return string(old.Raw) == string(record.Raw) })
		if !before && record.Type == "CNAME" && wanted[record.Name] == nil {
			return fmt.Errorf("there is the record %s", record)
		}
	}
	for _, record := range c.records {
		if !slices.ContainsFunc(c.cloudflare.RecordsFor(t, record.Name), func(now harness.Record) bool { return string(now.Raw) == string(record.Raw) }) {
			return fmt.Errorf("the foreign record %s has gone", record)
		}
	}
	return nil
}
