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
}

func beforeUpgrade(t *testing.T) *upgrade {
	t.Helper()
	cloudflare := startEmulator(t)
	tunnel := cloudflare.tunnelOfOthers(t, "hand-made")
	return &upgrade{
		server:     startAPIServer(t),
		cloudflare: cloudflare,
		tunnel:     tunnel,
		foreign:    cloudflare.foreign(t, tunnel),
		program:    harness.StartProgram(t, cloudflare.Emulator, tunnel.ID),
		services:   map[string]string{},
	}
}

// has makes an object, and its status where it is not empty. The hostname is to be published for the service.
func (u *upgrade) has(t *testing.T, hostname, service, path, name, object, status string) {
	t.Helper()
	if _, err := u.server.Try("POST", path, []byte(object)); err != nil {
		t.Fatal(err)
	}
	if status != "" {
		if _, err := u.server.Patch(path+"/"+name+"/status", "application/merge-patch+json", []byte(status)); err != nil {
			t.Fatal(err)
		}
	}
	u.services[hostname] = service
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

// goesWrong has the upgrade ask in vain: in each of some loops, without a write, a change for a visitor, or an end of
// ExternalDNS. Then the flags mend it.
func (u *upgrade) goesWrong(t *testing.T, sources float64, broken []string, mendedVersion string, mended []string) {
	t.Helper()
	var hostnames []string
	for hostname := range u.services {
		hostnames = append(hostnames, hostname)
	}
	slices.Sort(hostnames)
	watched := u.cloudflare.watchAll(t, hostnames...)
	writes := u.cloudflare.Writes(t)

	u.runs(t, faulty, broken...)
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
	if lines := u.program.Lines("refused=mass_deletion", fmt.Sprintf("hostnames=%d", len(hostnames)), "MASS_DELETION_LIMIT"); lines != 1 {
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
	pod.goesWrong(t, 0, flags, harness.Newest, flags)
	return fmt.Sprintf("0.22.0 asks in every loop to delete all %d. Each time the answer is 503 and nothing is written: visitors notice nothing, "+
		"one line with `refused=mass_deletion` and a metric tell how many and what to do. With 0.23.0 the next loop is quiet", count)
}

// ExternalDNS 0.22.0 reads annotations that begin external-dns.kubernetes.io/, and no longer those that begin
// external-dns.alpha.kubernetes.io/. Services lose their hostnames, which are deleted under policy sync; Ingresses lose
// their targets, and their hostnames become A records of a load balancer's private address.
// https://github.com/kubernetes-sigs/external-dns/issues/6666
func anUpgradeThatReadsOtherAnnotations(t *testing.T) string {
	const services, ingresses = 6, 7
	const prefix, address = "external-dns.alpha.kubernetes.io/", `{"status": {"loadBalancer": {"ingress": [{"ip": "192.168.69.220"}]}}}`
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
		hostname, service := name+".example.com", "http://"+name+".default.svc:80"
		pod.has(t, hostname, service, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", name, `{
			apiVersion: networking.k8s.io/v1, kind: Ingress,
			metadata: {name: `+name+`, annotations: {`+prefix+`target: "`+service+`"}},
			spec: {rules: [{host: `+hostname+`}]}}`, address)
	}
	flags := []string{"--registry=txt", "--source=service", "--source=ingress"}
	pinned := append([]string{"--annotation-prefix=" + prefix}, flags...)
	pod.runs(t, harness.Newest, pinned...)
	pod.settles(t)
	pod.goesWrong(t, ingresses, flags, faulty, pinned)
	return fmt.Sprintf("All %d stay published and served, answered 503 in every loop; the A records are not made. "+
		"With `--annotation-prefix` the next loop is quiet", services+ingresses)
}
