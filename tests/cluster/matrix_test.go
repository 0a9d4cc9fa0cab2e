package cluster

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The matrix: what each version of ExternalDNS can do here. Each capability is tried with the real one of each version that
// is asked for, whatever its number says. docs/versions.md has the tables, which a run fills in or holds to what it saw.

// renewVariable, set to anything, has a run write the tables' columns of its versions anew.
const renewVariable = "MATRIX_RENEW"

// trial is one run of one version, and what it tells.
type trial struct {
	name string
	// Rows of docs/versions.md: a cell for each, in this order, is what the trial gives.
	capabilities []string
	try          func(t *testing.T, bench *bench) (cells []string)
}

// Those that wait for a minute in some version come first.
var trials = slices.Concat(companyTrials, sourceTrials, faultTrials, settingTrials)

const (
	yes = "yes"
	no  = "no"
)

func cell(able bool) string {
	if able {
		return yes
	}
	return no
}

func TestMatrix(t *testing.T) {
	versions, err := harness.VersionsAsked()
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) == 0 {
		t.Skip("`just matrix` runs this: building each version takes minutes")
	}
	page := readVersionsPage(t)
	page.names(t, trials)
	// They are built here, because a trial waits no longer than for a state.
	binaries := map[string]string{}
	for _, version := range append(versions, harness.Newest) {
		if binaries[version], err = harness.BuildExternalDNSOf(version); err != nil {
			t.Fatal(err)
		}
	}
	shared := startCluster(t)
	shared.install(t, kustomize(t))

	found := &findings{cells: map[place]string{}}
	t.Run("trials", func(t *testing.T) {
		for _, trial := range trials {
			for _, version := range versions {
				t.Run(trial.name+" "+version, func(t *testing.T) {
					t.Parallel()
					cells := trial.try(t, shared.bench(t, trial.name, version, binaries))
					if len(cells) != len(trial.capabilities) {
						t.Fatalf("%d cells for %q", len(cells), trial.capabilities)
					}
					for index, capability := range trial.capabilities {
						found.add(place{capability, version}, cells[index])
					}
				})
			}
		}
	})
	fmt.Printf("\n%s\n", found)
	if os.Getenv(renewVariable) != "" && !t.Failed() {
		page.renew(t, found)
	}
	page.says(t, found)
}

// place is a cell of the tables.
type place struct{ capability, version string }

type findings struct {
	mutex sync.Mutex
	cells map[place]string
}

func (f *findings) add(where place, cell string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.cells[where] = cell
}

func (f *findings) String() string {
	var lines []string
	for where, cell := range f.cells {
		lines = append(lines, fmt.Sprintf("%-8s %s: %s", where.version, where.capability, cell))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// bench is where one version is tried for one thing: a namespace, a Cloudflare and a tunnel of its own, on an API server
// that all share.
type bench struct {
	*cluster
	namespace string
	version   string
	binaries  map[string]string
}

func (c *cluster) bench(t *testing.T, name, version string, binaries map[string]string) *bench {
	t.Helper()
	made := &bench{
		cluster:   &cluster{APIServer: c.APIServer, cloudflare: harness.StartEmulator(t)},
		namespace: strings.NewReplacer(" ", "-", ".", "-").Replace(name + "-" + version),
		version:   version,
		binaries:  binaries,
	}
	made.home = made.cloudflare.TunnelNeverConfigured(t, tunnelName)
	made.records = made.cloudflare.Records(t)
	made.apply(t, "", namespace(made.namespace))
	return made
}

// eitherPrefix begins the annotations that are to be read whichever prefix a version reads.
const eitherPrefix = "either/"

const (
	alphaPrefix   = "external-dns.alpha.kubernetes.io/"
	currentPrefix = "external-dns.kubernetes.io/"
)

// has applies objects into the bench's namespace.
func (b *bench) has(t *testing.T, text string) []*object {
	t.Helper()
	objects := objectsOf(t, []byte(text))
	for _, object := range objects {
		annotations := object.GetAnnotations()
		for name, value := range maps.Clone(annotations) {
			if plain, either := strings.CutPrefix(name, eitherPrefix); either {
				delete(annotations, name)
				annotations[alphaPrefix+plain] = value
				annotations[currentPrefix+plain] = value
			}
		}
		object.SetAnnotations(annotations)
	}
	b.apply(t, b.namespace, objects...)
	return objects
}

// ingressOf is one for a hostname below example.com, with annotations in YAML's flow style.
func ingressOf(name, annotations string) string {
	return `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: ` + name + `, annotations: {` + annotations + `}},
		spec: {rules: [{host: ` + name + `.example.com}]}}` + "\n---\n"
}

// targetOf is the annotation that publishes to the service of the same name.
func targetOf(name string) string { return eitherPrefix + `target: "http://` + name + `.shop.svc:80"` }

// pointOf is a DNSEndpoint for a hostname below example.com, published to the service of the same name.
func pointOf(name, more string) string {
	return `{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint, metadata: {name: ` + name + more + `},
		spec: {endpoints: [{dnsName: ` + name + `.example.com, recordType: CNAME, targets: ["http://` + name + `.shop.svc:80"]}]}}` + "\n---\n"
}

// serves says whether these are all rules of the hostname below example.com, and whether its record leads to them.
func (b *bench) serves(t *testing.T, name string, rules ...string) bool {
	t.Helper()
	var found []string
	hostname := name + ".example.com"
	for _, rule := range b.cloudflare.RulesFor(t, b.home, hostname) {
		found = append(found, strings.TrimSpace(rule.Path+" "+rule.Service))
	}
	return slices.Equal(found, rules) && b.cloudflare.LeadsTo(t, b.owner(), b.home, hostname) == nil
}

// servesOwn says whether the hostname is published to the service of the same name.
func (b *bench) servesOwn(t *testing.T, name string) bool {
	t.Helper()
	return b.serves(t, name, "http://"+name+".shop.svc:80")
}

// owner is the OWNER_ID of every bench: objects of the registry crd would meet under the default.
func (b *bench) owner() string { return b.namespace }

// runs starts the program with these settings.
func (b *bench) runs(t *testing.T, settings ...string) *harness.Program {
	t.Helper()
	return harness.StartProgram(t, b.cloudflare, b.home.ID, append([]string{"OWNER_ID=" + b.owner()}, settings...)...)
}

// arguments are ExternalDNS's with a webhook at an address: what is usual, but for these.
func (b *bench) arguments(t *testing.T, address string, changed ...string) []string {
	t.Helper()
	usual := slices.DeleteFunc(append([]string{
		"--provider=webhook", "--webhook-provider-url=http://" + address,
		"--kubeconfig=" + b.Kubeconfig(t), "--namespace=" + b.namespace,
		"--registry=noop", "--txt-owner-id=" + b.owner(), "--policy=sync", "--log-level=debug",
	}, soon...), func(argument string) bool {
		flag, _, _ := strings.Cut(argument, "=")
		return slices.ContainsFunc(changed, func(other string) bool { return strings.HasPrefix(other, flag+"=") })
	})
	return append(usual, changed...)
}

// starts has this version run beside a program with these settings. It tells whether the version takes such arguments.
func (b *bench) starts(t *testing.T, settings []string, changed ...string) (*pod, bool) {
	t.Helper()
	program := b.runs(t, settings...)
	return b.startsBeside(t, program, b.version, b.arguments(t, program.Address, changed...))
}

// startsBeside has any version run beside a program.
func (b *bench) startsBeside(t *testing.T, program *harness.Program, version string, arguments []string) (*pod, bool) {
	t.Helper()
	made := &pod{ExternalDNS: harness.LaunchExternalDNS(t, b.binaries[version], arguments...), program: program, cluster: b.cluster}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && !made.HasEnded(); time.Sleep(glance) {
		if _, err = made.Metric(harness.NoOpRuns); err == nil {
			return made, true
		}
	}
	if !made.HasEnded() {
		t.Fatalf("external-dns shows no metrics: %v", err)
	}
	// What it says of an argument that it does not take, or that it lacks.
	for _, unknown := range []string{"unknown long flag", "enum value must be one of", "must be set explicitly"} {
		if strings.Contains(made.Output(t), unknown) {
			return made, false
		}
	}
	made.Alive(t)
	return nil, false
}

// How often a state is looked at.
const glance = 50 * time.Millisecond

// settles awaits a loop that begins later than now and finds nothing to do.
func (p *pod) settles(t *testing.T) {
	t.Helper()
	p.rests(t)
	p.rests(t)
}

// calms says whether loops that find nothing to do come, or ExternalDNS goes on asking.
func (p *pod) calms(t *testing.T) bool {
	t.Helper()
	before := p.MustMetric(t, harness.NoOpRuns)
	return within(negativePatience, func() bool { return p.MustMetric(t, harness.NoOpRuns) >= before+2 })
}

// What has not happened after so long counts as what a version does not do.
const negativePatience = 30 * time.Second

// within says whether a state comes before so long.
func within(bound time.Duration, reached func() bool) bool {
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(glance) {
		if reached() {
			return true
		}
	}
	return reached()
}
