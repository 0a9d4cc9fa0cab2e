package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// A second ExternalDNS in the cluster: docs/guides.md, "You already run ExternalDNS?". Both are real, and both read the same
// objects of a real API server.

const (
	ourPrefix   = "tunnel.example.com/"
	theirPrefix = "external-dns.kubernetes.io/" // the one that ExternalDNS reads unless it is told another

	shared        = "shop.example.com"
	sharedService = "http://shop.shop.svc:80"
	lanAddress    = "192.168.69.220" // of the Ingress, as balancerStatus has it

	// What keeps the in-tree provider away from an Ingress, either of them.
	otherController = theirPrefix + "controller: none"
	annotationOnly  = theirPrefix + "ingress-hostname-source: annotation-only"
	// What keeps ours away from an object.
	ourController = ourPrefix + "controller: none"

	legacyPrefixFlag = "enable-legacy-annotation-prefix"

	sharedLoops = 10
)

// couple is an instance with this program and another ExternalDNS, in a namespace.
type couple struct {
	server      *apiServer
	namespace   string
	cloudflare  *emulator
	tunnel      tunnel
	program     *harness.Program
	ours, other *harness.ExternalDNS
}

func TestAnotherExternalDNSInTheCluster(t *testing.T) {
	t.Parallel()
	server := startAPIServer(t)
	server.defines(t, "dnsendpoints")
	server.definesGateways(t)
	theGuideSaysSo(t)
	for name, test := range map[string]func(t *testing.T, both *couple){
		"with one prefix for both the other publishes a URL and updates in every loop": withOnePrefix,
		"a Service with our annotations is nothing to the other":                       serviceOfOurs,
		"an Ingress has its address in the LAN and the tunnel outside":                 ingressOfBoth,
		"in one zone a controller's name keeps the other away": func(t *testing.T, both *couple) {
			keptAway(t, both, otherController)
		},
		"in one zone hostnames of annotations alone keep the other away": func(t *testing.T, both *couple) {
			keptAway(t, both, annotationOnly)
		},
		"what keeps the other away withdraws ours where ours reads its prefix too":     withTheLegacyPrefix,
		"what keeps the other away keeps nothing out of ours, and a word of ours does": keptOutByOurs,
		"in one zone ours leaves what the other published":                             theirsIsFirst,
		"in one zone the other leaves what ours published":                             oursIsFirst,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, settleIn(t, server))
		})
	}
}

func settleIn(t *testing.T, server *apiServer) *couple {
	t.Helper()
	cloudflare := startEmulator(t)
	tunnel := cloudflare.TunnelNeverConfigured(t, "fresh")
	return &couple{
		server:     server,
		namespace:  server.makesNamespace(t),
		cloudflare: cloudflare,
		tunnel:     tunnel,
		program:    harness.StartProgram(t, cloudflare.Emulator, tunnel.ID),
	}
}

// starts runs an ExternalDNS that reads the namespace.
func (c *couple) starts(t *testing.T, environment []string, flags ...string) *harness.ExternalDNS {
	t.Helper()
	return harness.StartExternalDNSIn(t, environment, externalDNSBinary, append([]string{
		"--kubeconfig=" + c.server.Kubeconfig(t), "--namespace=" + c.namespace, "--source=service", "--source=ingress",
		"--policy=sync", "--interval=" + interval.String(), "--log-level=debug",
	}, flags...)...)
}

func (c *couple) startsOurs(t *testing.T, prefix string, flags ...string) {
	t.Helper()
	c.ours = c.starts(t, nil, append(flags, "--annotation-prefix="+prefix, "--registry=noop",
		"--provider=webhook", "--webhook-provider-url=http://"+c.program.Address)...)
}

// startsRecorder has the other one ask a webhook that gives no property back.
func (c *couple) startsRecorder(t *testing.T) *recorder {
	t.Helper()
	provider := startRecorder(t)
	c.other = c.starts(t, nil, "--registry=txt", "--provider=webhook", "--webhook-provider-url="+provider.address)
	return provider
}

// startsInTree has the other one write into the same zone, with the provider that is part of ExternalDNS.
func (c *couple) startsInTree(t *testing.T) {
	t.Helper()
	// Where the API is, is for its client library to know: ExternalDNS has no flag for it.
	environment := []string{"CLOUDFLARE_BASE_URL=" + c.cloudflare.BaseURL, "CF_API_TOKEN=" + c.cloudflare.Token}
	c.other = c.starts(t, environment, "--registry=txt", "--txt-owner-id=lan", "--provider=cloudflare")
}

// hasIngress makes one with an address and our annotations, and perhaps another one.
func (c *couple) hasIngress(t *testing.T, annotations ...string) {
	t.Helper()
	annotations = append(annotations, ourPrefix+`target: "`+sharedService+`"`, ourPrefix+`webhook-tunnel: "true"`)
	c.server.make(t, "/apis/networking.k8s.io/v1/namespaces/"+c.namespace+"/ingresses", "shop", `{
		apiVersion: networking.k8s.io/v1, kind: Ingress,
		metadata: {name: shop, annotations: {`+strings.Join(annotations, ", ")+`}},
		spec: {rules: [{host: `+shared+`}]}}`, balancerStatus)
}

func (c *couple) publishes(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "ours publishes the hostname", func() error {
		c.ours.Alive(t)
		return c.cloudflare.IsPublished(t, c.tunnel, shared, sharedService, `{}`)
	})
}

// loopsInVain awaits so many more loops of each that find nothing to do.
func loopsInVain(t *testing.T, loops float64, each ...*harness.ExternalDNS) {
	t.Helper()
	before := make([]float64, len(each))
	for index, one := range each {
		before[index] = one.MustMetric(t, harness.NoOpRuns)
	}
	harness.EventuallyWithin(t, time.Minute, fmt.Sprintf("%v loops find nothing to do", loops), func() error {
		for index, one := range each {
			one.Alive(t)
			if now := one.MustMetric(t, harness.NoOpRuns) - before[index]; now < loops {
				return fmt.Errorf("%v", now)
			}
		}
		return nil
	})
}

// bothRest checks that in ten loops of each of them nothing is asked for and nothing written.
func (c *couple) bothRest(t *testing.T) {
	t.Helper()
	loopsInVain(t, 1, c.ours, c.other)
	asked, writes := c.ours.MustMetric(t, harness.ApplyCalls), len(c.cloudflare.Writes(t))
	loopsInVain(t, sharedLoops, c.ours, c.other)
	if now := c.ours.MustMetric(t, harness.ApplyCalls); now != asked {
		t.Errorf("ours asked for %v more changes", now-asked)
	}
	if now := c.cloudflare.Writes(t); len(now) != writes {
		t.Errorf("written: %v", now[writes:])
	}
}

// What the guide is for.
func withOnePrefix(t *testing.T, both *couple) {
	both.server.make(t, "/apis/networking.k8s.io/v1/namespaces/"+both.namespace+"/ingresses", "shop", `{
		apiVersion: networking.k8s.io/v1, kind: Ingress,
		metadata: {name: shop, annotations: {
			`+theirPrefix+`target: "`+sharedService+`", `+theirPrefix+`webhook-tunnel: "true"}},
		spec: {rules: [{host: `+shared+`}]}}`, balancerStatus)
	both.startsOurs(t, theirPrefix)
	provider := both.startsRecorder(t)
	both.publishes(t)
	harness.Eventually(t, "the other updates in loop after loop", func() error {
		both.other.Alive(t)
		if updates := provider.updatesOf(shared); updates < askingLoops {
			return fmt.Errorf("%d", updates)
		}
		return nil
	})
	provider.has(t, "CNAME "+sharedService)
}

func serviceOfOurs(t *testing.T, both *couple) {
	both.server.make(t, "/api/v1/namespaces/"+both.namespace+"/services", "shop", `{
		apiVersion: v1, kind: Service,
		metadata: {name: shop, annotations: {`+ourPrefix+`hostname: `+shared+`, `+ourPrefix+`target: "`+sharedService+`"}},
		spec: {ports: [{port: 80}]}}`, "")
	both.startsOurs(t, ourPrefix)
	provider := both.startsRecorder(t)
	both.publishes(t)
	both.bothRest(t)
	if seen := provider.seen(); len(seen) > 0 {
		t.Errorf("the other saw %v", seen)
	}
	provider.has(t)
}

func ingressOfBoth(t *testing.T, both *couple) {
	both.hasIngress(t)
	both.startsOurs(t, ourPrefix)
	provider := both.startsRecorder(t)
	both.publishes(t)
	both.bothRest(t)
	provider.has(t, "A "+lanAddress)
	if applies := provider.appliesOf(); applies != 1 {
		t.Errorf("the other asked for changes %d times", applies)
	}
	if written := both.cloudflare.RecordsFor(t, shared); len(written) != 1 {
		t.Errorf("records: %v", written)
	}
}

func keptAway(t *testing.T, both *couple, line string) {
	records := both.cloudflare.Records(t)
	both.hasIngress(t, line)
	both.startsInTree(t)
	both.startsOurs(t, ourPrefix)
	both.publishes(t)
	both.bothRest(t)
	if now := both.cloudflare.Records(t); len(now) != len(records)+1 {
		t.Errorf("records: %v", now)
	}
}

// theGuideSaysSo checks that the section of the guides has the prefixes and the words that are played here.
func theGuideSaysSo(t *testing.T) {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, guide, _ := strings.Cut(string(page), "\n## You already run ExternalDNS?\n")
	guide, _, _ = strings.Cut(guide, "\n## ")
	guide = strings.Join(strings.Fields(guide), " ")
	for _, words := range []string{
		"annotationPrefix: " + ourPrefix, "`" + otherController + "`", "`" + annotationOnly + "`",
		"Do not set `" + legacyPrefixFlag + "`", "`" + ourController + "`",
	} {
		if !strings.Contains(guide, words) {
			t.Errorf("the guide does not say %s", words)
		}
	}
}

func (c *couple) withdraws(t *testing.T, hostname string) {
	t.Helper()
	harness.Eventually(t, "ours withdraws "+hostname, func() error {
		c.ours.Alive(t)
		records, rules := c.cloudflare.RecordsFor(t, hostname), c.cloudflare.RulesFor(t, c.tunnel, hostname)
		if len(records)+len(rules) > 0 {
			return fmt.Errorf("there are %v and %v", records, rules)
		}
		return nil
	})
}

// The other one is 0.21 or older, or reads the prefix of that.
func withTheLegacyPrefix(t *testing.T, both *couple) {
	both.hasIngress(t, alphaPrefix+"controller: none")
	both.startsOurs(t, ourPrefix)
	both.publishes(t)
	both.ours.Stop(t)
	both.startsOurs(t, ourPrefix, "--"+legacyPrefixFlag)
	both.withdraws(t, shared)
}

// What is published without an annotation of ours on it: a Gateway's route, a DNSEndpoint, and with PUBLISH=all everything.
func keptOutByOurs(t *testing.T, both *couple) {
	const route, point, defaultService = "route.example.com", "point.example.com", "http://default.shop.svc:80"
	both.program = harness.StartProgram(t, both.cloudflare.Emulator, both.tunnel.ID, "PUBLISH=all", "DEFAULT_SERVICE="+defaultService)
	ingresses, points := "/apis/networking.k8s.io/v1/namespaces/"+both.namespace+"/ingresses",
		"/apis/externaldns.k8s.io/v1alpha1/namespaces/"+both.namespace+"/dnsendpoints"
	both.server.make(t, ingresses, "shop", `{
		apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: shop, annotations: {`+otherController+`}},
		spec: {rules: [{host: `+shared+`}]}}`, balancerStatus)
	both.server.makesGateway(t, both.namespace, ourPrefix, sharedService)
	both.server.makesRoute(t, both.namespace, "route", route, otherController)
	both.server.make(t, points, "point", `{
		apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint, metadata: {name: point, annotations: {`+otherController+`}},
		spec: {endpoints: [{dnsName: `+point+`, recordType: CNAME, targets: ["`+sharedService+`"]}]}}`, "")
	both.startsOurs(t, ourPrefix, "--source=gateway-httproute", "--source=crd")
	services := map[string]string{shared: defaultService, route: sharedService, point: sharedService}
	for hostname, service := range services {
		harness.Eventually(t, "ours publishes "+hostname, func() error {
			both.ours.Alive(t)
			return both.cloudflare.IsPublished(t, both.tunnel, hostname, service, `{}`)
		})
	}
	for _, path := range []string{ingresses + "/shop", gatewayKinds(both.namespace) + "httproutes/route", points + "/point"} {
		if _, err := both.server.Patch(path, "application/merge-patch+json", []byte(`{"metadata": {"annotations": {"`+ourPrefix+`controller": "none"}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	both.withdraws(t, shared)
	both.withdraws(t, route)
	// The source crd does not look at it.
	loopsInVain(t, sharedLoops, both.ours)
	both.cloudflare.Publishes(t, both.tunnel, point, sharedService, `{}`)
}

// isTheirs says why the hostname is not as the in-tree provider has it: with the address of the Ingress.
func (c *couple) isTheirs(t *testing.T) error {
	t.Helper()
	c.other.Alive(t)
	records := c.cloudflare.RecordsFor(t, shared)
	if len(records) != 1 || records[0].Type != "A" || records[0].Content != lanAddress {
		return fmt.Errorf("%s has the records %v", shared, records)
	}
	return nil
}

func theirsIsFirst(t *testing.T, both *couple) {
	both.hasIngress(t)
	both.startsInTree(t)
	harness.Eventually(t, "the other publishes the hostname", func() error { return both.isTheirs(t) })
	loopsInVain(t, 1, both.other)
	writes := both.cloudflare.Writes(t)

	both.startsOurs(t, ourPrefix)
	harness.Eventually(t, "ours refuses the hostname, and asks on", func() error {
		both.ours.Alive(t)
		if asked := both.ours.MustMetric(t, harness.ApplyCalls); asked < sharedLoops {
			return fmt.Errorf("asked %v times", asked)
		}
		return nil
	})
	if !both.program.Tells("refused=record_held", shared) {
		t.Error("that the record is held is not told")
	}
	loopsInVain(t, 1, both.other)
	if now := both.cloudflare.Writes(t); len(now) != len(writes) {
		t.Errorf("written: %v", now[len(writes):])
	}
	if err := both.isTheirs(t); err != nil {
		t.Error(err)
	}
	if rules := both.cloudflare.Rules(t, both.tunnel); len(rules) > 0 {
		t.Errorf("rules: %v", rules)
	}
}

func oursIsFirst(t *testing.T, both *couple) {
	both.hasIngress(t)
	both.startsOurs(t, ourPrefix)
	both.publishes(t)
	records := both.cloudflare.Records(t)
	both.startsInTree(t)
	both.bothRest(t)
	if now := both.cloudflare.Records(t); len(now) != len(records) {
		t.Errorf("records: %v", now)
	}
}

// recorder is a webhook that keeps what it is asked for as records, so without properties, as those of UniFi and others do.
type recorder struct {
	address string

	mutex    sync.Mutex
	records  []*endpoint.Endpoint
	adjusted []*endpoint.Endpoint // all that the sources said
	updates  []*endpoint.Endpoint
	applies  int
}

const webhookMedia = "application/external.dns.webhook+json;version=1"

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	made := &recorder{}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /{$}", func(to http.ResponseWriter, _ *http.Request) {
		answerWith(t, to, struct{}{})
	})
	routes.HandleFunc("GET /records", func(to http.ResponseWriter, _ *http.Request) {
		made.mutex.Lock()
		defer made.mutex.Unlock()
		answerWith(t, to, made.records)
	})
	routes.HandleFunc("POST /adjustendpoints", func(to http.ResponseWriter, from *http.Request) {
		var wanted []*endpoint.Endpoint
		readFrom(t, from, &wanted)
		made.mutex.Lock()
		defer made.mutex.Unlock()
		made.adjusted = append(made.adjusted, wanted...)
		answerWith(t, to, wanted)
	})
	routes.HandleFunc("POST /records", func(to http.ResponseWriter, from *http.Request) {
		var changes struct{ Create, UpdateNew, Delete []*endpoint.Endpoint }
		readFrom(t, from, &changes)
		made.mutex.Lock()
		defer made.mutex.Unlock()
		made.applies++
		made.updates = append(made.updates, changes.UpdateNew...)
		for _, gone := range slices.Concat(changes.Delete, changes.UpdateNew) {
			made.records = slices.DeleteFunc(made.records, func(held *endpoint.Endpoint) bool {
				return held.DNSName == gone.DNSName && held.RecordType == gone.RecordType
			})
		}
		for _, added := range slices.Concat(changes.Create, changes.UpdateNew) {
			made.records = append(made.records, endpoint.NewEndpoint(added.DNSName, added.RecordType, added.Targets...))
		}
		to.WriteHeader(http.StatusNoContent)
	})
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	made.address = server.URL
	return made
}

func answerWith(t *testing.T, to http.ResponseWriter, value any) {
	to.Header().Set("Content-Type", webhookMedia)
	if err := json.NewEncoder(to).Encode(value); err != nil {
		t.Errorf("recorder: %v", err)
	}
}

func readFrom(t *testing.T, from *http.Request, value any) {
	if err := json.NewDecoder(from.Body).Decode(value); err != nil {
		t.Errorf("recorder: %v", err)
	}
}

// has checks what is recorded, without ExternalDNS's own texts.
func (r *recorder) has(t *testing.T, wanted ...string) {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var held []string
	for _, one := range r.records {
		if one.RecordType != endpoint.RecordTypeTXT {
			held = append(held, one.RecordType+" "+strings.Join(one.Targets, " "))
		}
	}
	if !slices.Equal(held, wanted) {
		t.Errorf("the other has %q, wanted %q", held, wanted)
	}
}

func (r *recorder) seen() []*endpoint.Endpoint {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.adjusted
}

func (r *recorder) appliesOf() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.applies
}

// updatesOf counts the updates of a hostname's record.
func (r *recorder) updatesOf(hostname string) (count int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, one := range r.updates {
		if one.DNSName == hostname {
			count++
		}
	}
	return count
}
