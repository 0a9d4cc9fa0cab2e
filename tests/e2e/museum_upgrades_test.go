package e2e

import (
	"fmt"
	"slices"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// faulty is the version of ExternalDNS whose upgrade emptied zones.
const faulty = "v0.22.0"

const (
	withheldDeletions = `cloudflare_tunnel_webhook_refusals{reason="mass_deletion"}`
	foundEndpoints    = "external_dns_source_endpoints_total"
)

// upgrade is an instance whose objects are in a real API server, beside what others have in its tunnel and zone, while
// its ExternalDNS is replaced.
type upgrade struct {
	*harness.ExternalDNS
	server     *apiServer
	cloudflare *emulator
	tunnel     tunnel
	foreign    *foreign
	program    *harness.Program
	services   map[string]string // by hostname
	keptOut    []string          // hostnames that are not to be published
}

func beforeUpgrade(t *testing.T, settings ...string) *upgrade {
	t.Helper()
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfOthers(t, "hand-made")
	return &upgrade{
		server:     startAPIServer(t),
		cloudflare: cloudflare,
		tunnel:     tunnel,
		foreign:    cloudflare.foreign(t, tunnel),
		program:    harness.StartProgram(t, cloudflare.Emulator, tunnel.ID, settings...),
		services:   map[string]string{},
	}
}

// has makes an object, and its status where it is not empty. The hostname is to be published for the service, or not at all
// where that is empty.
func (u *upgrade) has(t *testing.T, hostname, service, path, name, object, status string) {
	t.Helper()
	u.server.make(t, path, name, object, status)
	if service == "" {
		u.keptOut = append(u.keptOut, hostname)
	} else {
		u.services[hostname] = service
	}
}

// runs replaces ExternalDNS.
func (u *upgrade) runs(t *testing.T, version string, flags ...string) {
	t.Helper()
	binary := externalDNSBinary
	if version != harness.Newest {
		var err error
		if binary, err = harness.BuildExternalDNSOf(version); err != nil {
			t.Fatal(err)
		}
	}
	if u.ExternalDNS != nil {
		u.ExternalDNS.Stop(t)
	}
	u.ExternalDNS = harness.StartExternalDNS(t, binary, append([]string{
		"--kubeconfig=" + u.server.Kubeconfig(t),
		"--provider=webhook", "--webhook-provider-url=http://" + u.program.Address,
		"--policy=sync", "--interval=" + interval.String(), "--log-level=debug",
	}, flags...)...)
}

// isServed checks that all that is wanted is published.
func (u *upgrade) isServed(t *testing.T) error {
	t.Helper()
	u.Alive(t)
	for hostname, service := range u.services {
		if err := u.cloudflare.IsPublished(t, u.tunnel, hostname, service, `{}`); err != nil {
			return err
		}
	}
	for _, hostname := range u.keptOut {
		if records, rules := u.cloudflare.RecordsFor(t, hostname), u.cloudflare.RulesFor(t, u.tunnel, hostname); len(records)+len(rules) > 0 {
			return fmt.Errorf("%s is not kept out: %v %v", hostname, records, rules)
		}
	}
	return nil
}

// settles awaits that all that is wanted is published, and a fixed point.
func (u *upgrade) settles(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "everything is published", func() error { return u.isServed(t) })
	u.rests(t)
}

// rests awaits a loop that finds nothing to do, and sees that it stays so.
func (u *upgrade) rests(t *testing.T) {
	t.Helper()
	before := u.MustMetric(t, harness.NoOpRuns)
	harness.Eventually(t, "external-dns finds all records up to date", func() error {
		u.Alive(t)
		if now := u.MustMetric(t, harness.NoOpRuns); now <= before {
			return fmt.Errorf("%v loops", now)
		}
		return nil
	})
	u.StaysQuiet(t, u.cloudflare.Emulator)
}

// goesWrong has a version of ExternalDNS ask in vain: in each of some loops, without a write, a change for a visitor, or an
// end of ExternalDNS. Then the flags mend it.
func (u *upgrade) goesWrong(t *testing.T, version string, sources float64, broken []string, mendedVersion string, mended []string) {
	t.Helper()
	var hostnames []string
	for hostname := range u.services {
		hostnames = append(hostnames, hostname)
	}
	slices.Sort(hostnames)
	watched := u.cloudflare.watchAll(t, hostnames...)
	writes := u.cloudflare.Writes(t)
	withheld := []string{"refused=mass_deletion", fmt.Sprintf("hostnames=%d", len(hostnames)), "MASS_DELETION_LIMIT"}
	told := u.program.Lines(withheld...)

	u.runs(t, version, broken...)
	harness.Eventually(t, "some loops in a row fail softly", func() error {
		u.Alive(t)
		if now := u.MustMetric(t, harness.SoftErrors); now < askingLoops {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	answered503(t, u.program, askingLoops)
	if now := u.MustMetric(t, foundEndpoints); now != sources {
		t.Errorf("external-dns found %v endpoints, so this is not the accident", now)
	}
	if err := u.isServed(t); err != nil {
		t.Error(err)
	}
	if lines := u.program.Lines(withheld...) - told; lines != 1 {
		t.Errorf("that they are withheld is told %d times", lines)
	}
	if now := u.program.MustMetric(t, withheldDeletions); now != float64(len(hostnames)) {
		t.Errorf("%s is %v", withheldDeletions, now)
	}

	u.runs(t, mendedVersion, mended...)
	u.settles(t)
	if now := u.MustMetric(t, harness.ApplyCalls); now != 0 {
		t.Errorf("the mended external-dns asked for changes %v times", now)
	}
	if now := u.program.MustMetric(t, withheldDeletions); now != 0 {
		t.Errorf("%s is still %v", withheldDeletions, now)
	}
	if now := u.cloudflare.Writes(t); len(now) != len(writes) {
		t.Errorf("written: %v", now[len(writes):])
	}
	for hostname, seen := range watched() {
		if wanted := u.services[hostname] + " through " + u.tunnel.ID; !slices.Equal(seen, []string{wanted}) {
			t.Errorf("visitors of %s got %q", hostname, seen)
		}
	}
	u.foreign.untouched(t)
}

// ExternalDNS 0.22.0 with --source=crd and --annotation-filter finds no DNSEndpoint where one does not match the filter,
// and says nothing. Under policy sync it deletes all its records one second after it has started.
// https://github.com/kubernetes-sigs/external-dns/issues/6728
func anUpgradeThatReadsNoDNSEndpoint(t *testing.T) string {
	const count = 6
	pod := beforeUpgrade(t)
	pod.server.defines(t, dnsEndpoints)
	const path = kindsPath + dnsEndpoints
	for number := range count {
		name := fmt.Sprintf("record-%d", number)
		hostname, service := name+".example.com", "http://"+name+".shop.svc:80"
		pod.has(t, hostname, service, path, name, `{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint,
			metadata: {name: `+name+`, annotations: {example.com/filter: "yes"}},
			spec: {endpoints: [{dnsName: `+hostname+`, recordType: CNAME, targets: ["`+service+`"]}]}}`, "")
	}
	// What is dropped is the whole list of which one object does not match.
	if _, err := pod.server.Try("POST", path, []byte(`{apiVersion: externaldns.k8s.io/v1alpha1, kind: DNSEndpoint,
		metadata: {name: internal}, spec: {endpoints: [{dnsName: internal.example.com, recordType: A, targets: [192.0.2.7]}]}}`)); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--registry=txt", "--source=crd", "--annotation-filter=example.com/filter=yes"}
	pod.runs(t, harness.Newest, flags...)
	pod.settles(t)
	pod.goesWrong(t, faulty, 0, flags, harness.Newest, flags)
	return fmt.Sprintf("0.22.0 asks in every loop to delete all %d. Each time the answer is 503 and nothing is written: visitors notice nothing, "+
		"one line with `refused=mass_deletion` and a metric tell how many and what to do. With 0.23.0 the next loop is quiet", count)
}

const (
	alphaPrefix    = "external-dns.alpha.kubernetes.io/"
	balancerStatus = `{"status": {"loadBalancer": {"ingress": [{"ip": "192.168.69.220"}]}}}`
)

// hasIngress makes one for a hostname below example.com, with an annotation behind the old prefix and a load balancer's address.
func (u *upgrade) hasIngress(t *testing.T, name, service, annotation string) {
	t.Helper()
	hostname := name + ".example.com"
	u.has(t, hostname, service, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", name, `{
		apiVersion: networking.k8s.io/v1, kind: Ingress,
		metadata: {name: `+name+`, annotations: {`+alphaPrefix+annotation+`}},
		spec: {rules: [{host: `+hostname+`}]}}`, balancerStatus)
}

// ExternalDNS 0.22.0 reads annotations that begin external-dns.kubernetes.io/, and no longer those that begin
// external-dns.alpha.kubernetes.io/. Services lose their hostnames, which are deleted under policy sync; Ingresses lose
// their targets, and their hostnames become A records of a load balancer's private address.
// https://github.com/kubernetes-sigs/external-dns/issues/6666
func anUpgradeThatReadsOtherAnnotations(t *testing.T) string {
	const services, ingresses = 6, 7
	const prefix, address = alphaPrefix, balancerStatus
	pod := beforeUpgrade(t)
	for number := range services {
		name := fmt.Sprintf("service-%d", number)
		hostname, service := name+".example.com", "http://"+name+".default.svc:80"
		pod.has(t, hostname, service, "/api/v1/namespaces/default/services", name, `{apiVersion: v1, kind: Service,
			metadata: {name: `+name+`, annotations: {`+prefix+`hostname: `+hostname+`, `+prefix+`webhook-tunnel-service: "`+service+`"}},
			spec: {type: LoadBalancer, ports: [{port: 80}]}}`, address)
	}
	for number := range ingresses {
		name := fmt.Sprintf("ingress-%d", number)
		service := "http://" + name + ".default.svc:80"
		pod.hasIngress(t, name, service, `target: "`+service+`"`)
	}
	flags := []string{"--registry=txt", "--source=service", "--source=ingress"}
	pinned := append([]string{"--annotation-prefix=" + prefix}, flags...)
	pod.runs(t, harness.Newest, pinned...)
	pod.settles(t)
	pod.goesWrong(t, faulty, ingresses, flags, faulty, pinned)
	return fmt.Sprintf("All %d stay published and served, answered 503 in every loop; the A records are not made. "+
		"With `--annotation-prefix` the next loop is quiet", services+ingresses)
}

const (
	keptOutObjects  = 20
	loginObjects    = 13
	loginService    = "http://oauth2-proxy.default.svc:4180"
	defaultService  = "http://ingress.default.svc:80"
	everyObject     = keptOutObjects + loginObjects
	pinnedPrefix    = "--annotation-prefix=" + alphaPrefix
	ingressRegistry = "--registry=txt"
)

// underADefaultService has 20 objects that an annotation keeps out, and 13 that an annotation leads through a login.
func underADefaultService(t *testing.T, settings ...string) *upgrade {
	t.Helper()
	pod := beforeUpgrade(t, append(settings, "DEFAULT_SERVICE="+defaultService)...)
	for number := range keptOutObjects {
		pod.hasIngress(t, fmt.Sprintf("kept-out-%d", number), "", `webhook-tunnel: "false"`)
	}
	for number := range loginObjects {
		pod.hasIngress(t, fmt.Sprintf("login-%d", number), loginService, `target: "`+loginService+`"`)
	}
	pod.runs(t, harness.Newest, ingressRegistry, "--source=ingress", pinnedPrefix)
	pod.settles(t)
	return pod
}

// The same upgrade where DEFAULT_SERVICE is set: it is for objects that say they are meant, and none says so any more.
// https://github.com/kubernetes-sigs/external-dns/issues/6666
func anUpgradeUnderADefaultService(t *testing.T) string {
	pod := underADefaultService(t)
	flags := []string{ingressRegistry, "--source=ingress"}
	for _, version := range []string{faulty, harness.Newest} {
		pod.goesWrong(t, version, everyObject, flags, harness.Newest, append([]string{pinnedPrefix}, flags...))
	}
	return fmt.Sprintf("0.22.0 and 0.23.0 ask in every loop to delete the %d. Each time the answer is 503 and nothing is written: none of the "+
		"%d is published, each of the %d leads to its login. With `--annotation-prefix` the next loop is quiet", loginObjects, keptOutObjects, loginObjects)
}

// The same with PUBLISH=all: an object that loses its annotations gets the default service.
func anUpgradeWhereAllIsPublished(t *testing.T) string {
	for _, version := range []string{faulty, harness.Newest} {
		pod := underADefaultService(t, "PUBLISH=all")
		if lines := pod.program.Lines("--gateway-name, --label-filter, --annotation-filter", "gets DEFAULT_SERVICE"); lines != 1 {
			t.Errorf("what this mode means is told %d times", lines)
		}
		wanted, keptOut := pod.services, pod.keptOut
		pod.services, pod.keptOut = map[string]string{}, nil
		for hostname := range wanted {
			pod.services[hostname] = defaultService
		}
		for _, hostname := range keptOut {
			pod.services[hostname] = defaultService
		}
		pod.runs(t, version, ingressRegistry, "--source=ingress")
		pod.settles(t)
		if now := pod.MustMetric(t, harness.ApplyCalls); now != 1 {
			t.Errorf("external-dns asked %v times", now)
		}
		if failures := pod.program.Failures(t); len(failures) > 0 {
			t.Errorf("answered were %v", failures)
		}

		for hostname, service := range wanted {
			pod.services[hostname] = service
		}
		pod.runs(t, harness.Newest, ingressRegistry, "--source=ingress", pinnedPrefix)
		harness.Eventually(t, "the logins are back", func() error { return pod.isServed(t) })
		harness.Eventually(t, "the others are withheld", func() error {
			if now := pod.program.MustMetric(t, withheldDeletions); now != keptOutObjects {
				return fmt.Errorf("%v", now)
			}
			return nil
		})
		pod.foreign.untouched(t)
	}
	return fmt.Sprintf("As the line at each start says: the one request of the next loop publishes all %d that were kept out, and leads the %d past "+
		"their login, to the default service; it is answered 204. With `--annotation-prefix` the %d lead to the login again. That the %d go is "+
		"withheld as a mass deletion, until `MASS_DELETION_LIMIT=0` lets them go", keptOutObjects, loginObjects, loginObjects, keptOutObjects)
}
