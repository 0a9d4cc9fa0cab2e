package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// cluster is an API server, Cloudflare, and what was at Cloudflare before.
type cluster struct {
	*harness.APIServer
	cloudflare *harness.Emulator
	home       harness.Tunnel // the one that deploy/ names
	records    []harness.Record
}

const (
	deployFolder = "../../deploy"
	// Where deploy/ and the README put ExternalDNS, and what they call it.
	ownNamespace = "external-dns"
	ownName      = "external-dns-tunnel"
	// What deploy/ calls the tunnel until an operator names it, and its name here: no tunnel is made of the first.
	tunnelPlaceholder = "YOUR-CLUSTER"
	tunnelName        = "this-cluster"
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

// startCluster has a tunnel that was made by hand.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	made := startClusterBeside(t, harness.StartEmulator(t))
	made.home = made.cloudflare.TunnelNeverConfigured(t, tunnelName)
	return made
}

func startClusterBeside(t *testing.T, cloudflare *harness.Emulator) *cluster {
	t.Helper()
	made := &cluster{APIServer: harness.StartAPIServer(t), cloudflare: cloudflare}
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

// helm renders the chart with these values for the official chart within it.
func helm(t *testing.T, official map[string]any) []*object {
	t.Helper()
	if official == nil {
		return helmOf(t, nil)
	}
	return helmOf(t, map[string]any{"external-dns": official})
}

// helmOf renders the chart with a Secret that is there, the cluster's names, and these values over them.
func helmOf(t *testing.T, more map[string]any) []*object {
	t.Helper()
	text, err := json.Marshal(more)
	if err != nil {
		t.Fatal(err)
	}
	return manifests(t, "helm", filepath.Join(deployFolder, "chart"), fmt.Sprintf(
		`{"global": {"domain": %q, "tunnel": %q}, "existingSecret": "cloudflare",
			"external-dns": {"provider": {"webhook": {"image": {"repository": "registry.example.com/webhook"}}}}}`,
		harness.ZoneName, tunnelName), string(text))
}

// kustomize builds deploy/kustomize, with the tunnel named in it.
func kustomize(t *testing.T) []*object {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(deployFolder, "kustomize"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(replaced(t, string(text), tunnelPlaceholder, tunnelName)), 0o600); err != nil {
		t.Fatal(err)
	}
	return manifests(t, "kustomize", folder)
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
	own := namespace(ownNamespace)
	own.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	c.apply(t, "", own)
	c.apply(t, ownNamespace, c.cloudflareSecret("api-token"))
	c.apply(t, ownNamespace, objects...)
}

// cloudflareSecret has the API token under a key.
func (c *cluster) cloudflareSecret(key string) *object {
	return &object{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "cloudflare"},
		"stringData": map[string]any{key: c.cloudflare.Token},
	}}
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
