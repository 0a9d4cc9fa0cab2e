package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// unwritten is a case of docs/versions.md's table of hostnames that were not written into an object: ExternalDNS gives a
// route without hostnames those of its listeners, and an Ingress those of its certificates.
type unwritten struct {
	row string // as the table has it
	// Its objects have names that begin with this, and hostnames below it.
	name    string
	objects string
}

// Where every Gateway leads.
const proxyService = "http://proxy.shop.svc:80"

// word is the annotation that publishes a wildcard.
const word = `either/webhook-tunnel-wildcard: "true"`

// listener is one of a Gateway or a ListenerSet, for hostnames below the case's.
func listener(name, port, hostname string) string {
	return `{name: ` + name + `, protocol: HTTP, port: ` + port + `, hostname: "` + hostname + `NAME.example.com"}`
}

func gatewayWith(listeners ...string) string {
	return `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway,
		metadata: {name: NAME, annotations: {either/target: "` + proxyService + `"}},
		spec: {gatewayClassName: any, allowedListeners: {namespaces: {from: Same}},
			listeners: [` + strings.Join(listeners, ", ") + `]}}` + "\n---\n"
}

// routeWith is an HTTPRoute of the case's Gateway, or of another parent that is named.
func routeWith(name, annotations, hostnames, parent string) string {
	if parent == "" {
		parent = "name: NAME"
	}
	return `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute,
		metadata: {name: NAME-` + name + `, annotations: {` + annotations + `}},
		spec: {hostnames: [` + hostnames + `], parentRefs: [{` + parent + `}]}}` + "\n---\n"
}

func ingressWith(name, annotations, spec string) string {
	return `{apiVersion: networking.k8s.io/v1, kind: Ingress,
		metadata: {name: NAME-` + name + `, annotations: {` + annotations + `}}, spec: {` + spec + `}}` + "\n---\n"
}

func istioGateway(annotations, hosts string) string {
	return `{apiVersion: networking.istio.io/v1, kind: Gateway,
		metadata: {name: NAME, annotations: {either/target: "` + proxyService + `"` + annotations + `}},
		spec: {servers: [{hosts: [` + hosts + `], port: {name: http, number: 80, protocol: HTTP}}]}}` + "\n---\n"
}

const (
	app    = "app.NAME.example.com"
	secret = "secret.NAME.example.com"
	keepMe = `either/controller: none`
	// As cert-manager makes them, for a quarter of an hour.
	solverPath = `paths: [{path: /.well-known/acme-challenge/token, pathType: ImplementationSpecific, backend: {service: {name: solver, port: {number: 8089}}}}]`
)

func unwrittenCases() []unwritten {
	wild := gatewayWith(listener("http", "80", "*."), listener("https", "443", "*."))
	exact := gatewayWith(listener("http", "80", "app."), listener("https", "443", "app."), listener("admin", "443", "secret."))
	target := `either/target: "` + proxyService + `"`
	return []unwritten{
		{"A redirect route without hostnames, below wildcard listeners", "redirect",
			wild + routeWith("redirect", "", "", "name: NAME, sectionName: http") + routeWith("app", "", app, "name: NAME, sectionName: https")},
		{"The same, and the redirect route says `webhook-tunnel-wildcard: \"true\"`", "worded",
			wild + routeWith("redirect", word, "", "name: NAME, sectionName: http") + routeWith("app", "", app, "name: NAME, sectionName: https")},
		{"The same, but the app's route says it, and the redirect route does not", "other",
			wild + routeWith("redirect", "", "", "name: NAME, sectionName: http") + routeWith("app", word, app, "name: NAME, sectionName: https")},
		{"A redirect route with the app's hostname, below wildcard listeners", "named",
			wild + routeWith("redirect", "", app, "name: NAME, sectionName: http") + routeWith("app", "", app, "name: NAME, sectionName: https")},
		{"A redirect route without hostnames, below exact listeners", "exact",
			exact + routeWith("redirect", "", "", "name: NAME") + routeWith("app", "", app, "name: NAME, sectionName: https")},
		{"The same, and the route of `secret` says `controller: none`", "secret",
			exact + routeWith("redirect", "", "", "name: NAME") + routeWith("app", "", app, "") + routeWith("secret", keepMe, secret, "")},
		{"The same, and the redirect route says it too", "both",
			exact + routeWith("redirect", keepMe, "", "name: NAME") + routeWith("app", "", app, "") + routeWith("secret", keepMe, secret, "")},
		{"A redirect route without hostnames, below listeners without a hostname", "bare",
			gatewayWith(`{name: http, protocol: HTTP, port: 80}`) + routeWith("redirect", "", "", "") + routeWith("app", "", app, "")},
		{"A route with the annotation `hostname` alone, below a wildcard listener", "annotated",
			wild + routeWith("app", "either/hostname: "+app, "", "")},
		{"The same, with `webhook-tunnel-service`", "service",
			wild + routeWith("app", `either/hostname: `+app+`, either/webhook-tunnel-service: "`+proxyService+`"`, "", "")},
		{"A route of a ListenerSet's wildcard listener, without hostnames", "listeners",
			gatewayWith(listener("http", "80", "app.")) + `{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: NAME-set},
				spec: {parentRef: {name: NAME}, listeners: [` + listener("own", "8080", "*.") + `]}}` + "\n---\n" +
				routeWith("redirect", "", "", "kind: ListenerSet, group: gateway.networking.k8s.io, name: NAME-set")},
		{"Istio's Gateway with a wildcard and `app`", "istio", istioGateway("", `"*.NAME.example.com", `+app)},
		{"The same, and it says `webhook-tunnel-wildcard: \"true\"`", "meshed", istioGateway(", "+word, `"*.NAME.example.com", `+app)},
		{"A VirtualService of `app`, below Istio's Gateway with a wildcard", "virtual",
			istioGateway("", `"*.NAME.example.com"`) + `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: NAME-app},
				spec: {hosts: [` + app + `], gateways: [NAME], http: [{route: [{destination: {host: app}}]}]}}` + "\n---\n"},
		{"An Ingress whose `tls` has a wildcard", "tls",
			ingressWith("app", target, `tls: [{hosts: ["*.NAME.example.com"]}], rules: [{host: `+app+`}]`)},
		{"An Ingress whose rule is a wildcard", "rule", ingressWith("app", target, `rules: [{host: "*.NAME.example.com"}]`)},
		{"A solver's Ingress of `secret`, beside the Ingress of `app`", "solver",
			ingressWith("app", target, `rules: [{host: `+app+`}]`) + ingressWith("solver", "", `rules: [{host: `+secret+`, http: {`+solverPath+`}}]`)},
		{"A solver's route of `secret`, below a wildcard listener", "solving",
			wild + routeWith("app", "", app, "") + routeWith("solver", "", secret, "")},
		{"The pair of routes that ingress2gateway makes of an Ingress", "pair",
			exact + routeWith("app-redirect", "", app, "name: NAME, sectionName: http") + routeWith("app", "", app, "name: NAME, sectionName: https")},
		{"A Service with the hostname of a wildcard", "written",
			`{apiVersion: v1, kind: Service, metadata: {name: NAME, annotations: {` + target + `, either/hostname: "*.NAME.example.com"}},
				spec: {type: ClusterIP, ports: [{port: 80}]}}` + "\n---\n"},
	}
}

// Where docs/versions.md has the table.
const unwrittenHeader = "| in the cluster | ExternalDNS sends | published |"

// unwrittenTable is the cells of each of its rows.
func unwrittenTable(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), unwrittenHeader+"\n")
	if !found {
		t.Fatalf("docs/versions.md has no table %q", unwrittenHeader)
	}
	rows := map[string][]string{}
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := cellsOf(line)
		if cells == nil {
			break
		}
		rows[cells[0]] = cells[1:]
	}
	return rows
}

// TestMatrixOfUnwrittenHostnames holds the table to what the newest ExternalDNS does, or those versions of the last two
// that are asked for.
func TestMatrixOfUnwrittenHostnames(t *testing.T) {
	t.Parallel()
	asked, err := harness.VersionsAsked()
	if err != nil {
		t.Fatal(err)
	}
	versions := []string{harness.Newest}
	if len(asked) > 0 {
		versions = slices.DeleteFunc(asked, func(version string) bool { return version != "v0.22.0" && version != harness.Newest })
	}
	binaries := map[string]string{harness.Newest: externalDNSBinary}
	for _, version := range versions {
		if binaries[version] == "" {
			if binaries[version], err = harness.BuildExternalDNSOf(version); err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := startCluster(t)
	shared.definesIstio(t)
	rows, cases := unwrittenTable(t), unwrittenCases()
	if len(rows) != len(cases) {
		t.Errorf("%d rows of %d cases", len(rows), len(cases))
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			bench := shared.bench(t, "unwritten", version, binaries)
			for _, one := range cases {
				bench.has(t, strings.ReplaceAll(one.objects, "NAME", one.name))
			}
			pod, known := bench.starts(t, nil, "--source=service", "--source=ingress", "--source=gateway-httproute",
				"--source=istio-gateway", "--source=istio-virtualservice", "--gateway-listener-sets")
			if !known {
				t.Fatal("it does not know the sources")
			}
			pod.settles(t)
			for _, one := range cases {
				var sent, published []string
				for _, host := range []string{"*", "app", "secret"} {
					hostname := host + "." + one.name + ".example.com"
					isPublished := bench.serves(t, host+"."+one.name, proxyService)
					if isPublished {
						published = append(published, "`"+host+"`")
					}
					if isPublished || pod.program.Tells(`hostname="`+hostname+`"`, "does not publish the wildcard", "webhook-tunnel-wildcard") {
						sent = append(sent, "`"+host+"`")
					}
				}
				cells := []string{cellOf(sent), cellOf(published)}
				if !slices.Equal(rows[one.row], cells) {
					t.Errorf("docs/versions.md has no row as was seen:\n%s", fmt.Sprintf("| %s | %s |", one.row, strings.Join(cells, " | ")))
				}
			}
			pod.StaysQuiet(t, bench.cloudflare)
			if all, none := pod.program.Lines("refused="), pod.program.Lines("refused=0"); all != none {
				t.Errorf("%d refusals", all-none)
			}
		})
	}
}

func cellOf(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// definesIstio adds the two kinds of Istio that ExternalDNS reads, with any fields: Istio's own definitions are as long as
// those of Kubernetes.
func (c *cluster) definesIstio(t *testing.T) {
	t.Helper()
	for plural, kind := range map[string]string{"gateways": "Gateway", "virtualservices": "VirtualService"} {
		c.apply(t, "", objectsOf(t, []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+plural+`.networking.istio.io}
spec:
  group: networking.istio.io
  scope: Namespaced
  names: {kind: `+kind+`, listKind: `+kind+`List, plural: `+plural+`, singular: `+strings.ToLower(kind)+`}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))...)
	}
}
