package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The values of the article that many followed to axatol's webhook: its names of the settings, and its filter, which sees
// annotations as they are written. With ExternalDNS 0.21 they are enough; later ones read another prefix.
func TestEachVersionServesTheSettingsOfAxatolsWebhook(t *testing.T) {
	t.Parallel()
	versions, err := harness.VersionsAsked()
	if err != nil {
		t.Fatal(err)
	}
	server := startAPIServer(t)
	binaries := map[string]string{harness.Newest: externalDNSBinary}
	if len(versions) > 0 {
		clear(binaries)
	}
	for _, version := range versions {
		if binaries[version], err = harness.BuildExternalDNSOf(version); err != nil {
			t.Fatal(err)
		}
	}
	// It has no flag that makes it read the prefix.
	delete(binaries, "v0.22.0")
	for version, binary := range binaries {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			publishesTheArticles(t, server, binary, version != harness.Newest)
		})
	}
}

func publishesTheArticles(t *testing.T, server *apiServer, binary string, readsAlpha bool) {
	t.Helper()
	const host, service, alpha = "blog.example.com", "http://blog.web.svc:80", "external-dns.alpha.kubernetes.io/"
	cloudflare := startEmulator(t)
	tunnel := cloudflare.TunnelNeverConfigured(t, "fresh")
	program := harness.StartProgramAs(t, cloudflare.Emulator, []string{
		"CLOUDFLARE_API_TOKEN=" + cloudflare.Token, "CLOUDFLARE_ACCOUNT_ID=" + cloudflare.Account,
		"CLOUDFLARE_TUNNEL_ID=" + tunnel.ID, "DOMAIN_FILTERS=" + harness.ZoneName,
	})
	harness.Eventually(t, "the first line says where the token came from", func() error {
		// The program answers before its lines are written.
		if !program.Tells("starting", "credential=CLOUDFLARE_API_TOKEN") {
			return errors.New("not yet")
		}
		return nil
	})
	namespace := server.makesNamespace(t)
	server.make(t, "/api/v1/namespaces/"+namespace+"/services", "blog", fmt.Sprintf(`{
		apiVersion: v1, kind: Service,
		metadata: {name: blog, annotations: {%[1]shostname: %[2]s, %[1]starget: "%[3]s"}},
		spec: {ports: [{port: 80}]}}`, alpha, host, service), "")
	starts := func(flags ...string) *harness.ExternalDNS {
		return harness.StartExternalDNSIn(t, nil, binary, append([]string{
			"--kubeconfig=" + server.Kubeconfig(t), "--namespace=" + namespace, "--source=service", "--registry=noop",
			"--annotation-filter=" + alpha + "hostname", "--provider=webhook", "--webhook-provider-url=http://" + program.Address,
			"--policy=sync", "--interval=" + interval.String(), "--log-level=debug",
		}, flags...)...)
	}
	external := starts()
	if !readsAlpha {
		const line = "--enable-legacy-annotation-prefix"
		loopsInVain(t, 2, external)
		if len(cloudflare.RecordsFor(t, host)) > 0 {
			t.Fatal("the newest ExternalDNS reads the old prefix by itself")
		}
		asked := program.Exec(t, "status", host)
		asked.ExitCode(t)
		if said := asked.Output(t); !strings.Contains(said, "not sent") || !strings.Contains(said, line) {
			t.Errorf("status does not name %s:\n%s", line, said)
		}
		external.Stop(t)
		external = starts(line)
	}
	harness.Eventually(t, "the Service is published", func() error {
		external.Alive(t)
		return cloudflare.IsPublished(t, tunnel, host, service, `{}`)
	})
}
