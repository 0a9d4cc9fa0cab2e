package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A block is one of a document's examples: what is fenced as `yaml`, told by what it holds.
type block struct {
	name string // its document and its number there
	kind blockKind
	text string
}

type blockKind string

const (
	// Objects, applied as they are.
	aManifest blockKind = "manifest"
	// Annotations alone, applied on an Ingress.
	someAnnotations blockKind = "annotations"
	// Values of the chart.
	someValues blockKind = "values"
)

// exampleHost is where annotations alone are published.
const exampleHost = "annotated.example.com"

// publicPathHost needs an application that is made by hand.
const publicPathHost = "chat.example.com"

// documented is what each hostname of the examples is to be served by; nothing, where it is not to be published. A hostname of a
// manifest that is not here fails the test.
var documented = shape{
	"hello.example.com":  {"hello_world"},
	"app.example.com":    {"http://app.shop.svc:80"},
	"base.example.com":   {"http://base.shop.svc:80"},
	"secure.example.com": {"https://secure.shop.svc:443"},
	"routed.example.com": {"http://routed.shop.svc:80"},
	"wiki.example.com":   {"http://wiki.web.svc:80"},
	// Of an Ingress with a wildcard certificate.
	"dashboard.example.com": {"http://dashboard.default.svc:80"},
	"*.example.com":         nil,
	"files.example.com":     {"^/api(/|$) http://files-api.shop.svc:8080", "http://files.shop.svc:80"},
	exampleHost:             {"^/api(/|$) http://api.shop.svc:8080", "http://shop.shop.svc:80"},

	// Of the guides.
	"echo.example.com":         {"http://envoy-external.network.svc:80"},
	"whoami.example.com":       {"http://traefik.kube-system.svc:80"},
	"docs.example.com":         {"^/search(/|$) http://search.web.svc:8080", "http://docs.web.svc:80"},
	"ssh.example.com":          {"ssh://bastion.ops.svc:22"},
	"greeter.example.com":      {"https://greeter.shop.svc:443"},
	"assistant.example.com":    {"http://192.168.1.20:8123"},
	publicPathHost:             {"^/hook(/|$) http://chat.web.svc:80", "http://chat.web.svc:80"},
	"store-berlin.example.com": {"http://store.shop.svc:80"},
	// It has a load balancer.
	"store.example.com": nil,
	// Plain records.
	"example.com": nil, "mail.example.com": nil,
}

// A fence is a fenced block of any language.
type fence struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^( *)```([a-z]*)[^\n]*\n(.*?)^ *```$")

func fencesOf(document string) (fences []fence) {
	for _, found := range fenced.FindAllStringSubmatch(document, -1) {
		// Where the block stands in a list, its lines are indented.
		text := regexp.MustCompile("(?m)^"+found[1]).ReplaceAllString(found[3], "")
		fences = append(fences, fence{found[2], text})
	}
	return fences
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sectionOf is what stands below a heading, up to the next one of its level or a higher one. The title is no heading.
func sectionOf(t *testing.T, file, heading string) string {
	t.Helper()
	document := readDocument(t, file)
	found := regexp.MustCompile(`(?m)^(##+) ` + regexp.QuoteMeta(heading) + `$`).FindStringSubmatchIndex(document)
	if found == nil {
		t.Fatalf("%s has no section %q", file, heading)
	}
	below := document[found[1]:]
	next := regexp.MustCompile(fmt.Sprintf(`(?m)^#{2,%d} `, found[3]-found[2])).FindStringIndex(below)
	if next == nil {
		return below
	}
	return below[:next[0]]
}

func blocksOf(t *testing.T, file string) (blocks []block) {
	t.Helper()
	for _, fence := range fencesOf(readDocument(t, file)) {
		if !slices.Contains([]string{"yaml", "yml"}, fence.language) {
			continue
		}
		name := fmt.Sprintf("%s, example %d", filepath.Base(file), len(blocks)+1)
		blocks = append(blocks, block{name, kindOf(t, name, fence.text), fence.text})
	}
	return blocks
}

func kindOf(t *testing.T, name, text string) blockKind {
	t.Helper()
	for _, object := range objectsOf(t, []byte(text)) {
		if _, is := object.Object["kind"]; is {
			return aManifest
		}
		for key := range object.Object {
			if strings.Contains(key, "/") {
				return someAnnotations
			}
		}
		return someValues
	}
	t.Fatalf("%s is empty", name)
	return ""
}

// TestTheExamplesOfTheDocumentsDoWhatTheySay takes each example out of its document, applies it as it stands, and withdraws it.
func TestTheExamplesOfTheDocumentsDoWhatTheySay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../README.md", "../../deploy/README.md")
	var blocks []block
	for _, file := range files {
		blocks = append(blocks, blocksOf(t, file)...)
	}
	for _, kind := range []blockKind{aManifest, someAnnotations} {
		if !slices.ContainsFunc(blocks, func(block block) bool { return block.kind == kind }) {
			t.Errorf("no example has a %s: are they found?", kind)
		}
	}

	// Examples share hostnames, so each is tried alone in its cluster.
	const clusters = 2
	for part := range clusters {
		t.Run(fmt.Sprintf("cluster %d", part), func(t *testing.T) {
			t.Parallel()
			pod := ofDocuments(t)
			for number := part; number < len(blocks); number += clusters {
				t.Run(blocks[number].name, func(t *testing.T) { pod.triesBlock(t, blocks[number]) })
			}
		})
	}
}

// ofDocuments runs the sources as the documents say for their kinds.
func ofDocuments(t *testing.T) *pod {
	t.Helper()
	cluster := startCluster(t)
	cluster.cloudflare.SetUpAccess(t)
	cluster.letsPast(t, publicPathHost+"/hook")
	cluster.apply(t, "", traefikDefinitions(t)...)
	objects := helm(t, map[string]any{"sources": []string{"ingress", "service", "gateway-httproute", "crd", "traefik-proxy"}})
	cluster.install(t, objects)
	return cluster.run(t, objects, soon...)
}

func (p *pod) triesBlock(t *testing.T, block block) {
	t.Helper()
	switch block.kind {
	case someValues:
		var values map[string]any
		if err := yaml.UnmarshalStrict([]byte(block.text), &values); err != nil {
			t.Fatal(err)
		}
		if _, official := values["provider"]; official {
			text, err := yaml.YAMLToJSON([]byte(block.text))
			if err != nil {
				t.Fatal(err)
			}
			manifests(t, "helm", filepath.Join(deployFolder, "chart", "charts", "external-dns"), string(text))
		} else {
			helmOf(t, values)
		}
	case someAnnotations:
		annotated := objectsOf(t, []byte(block.text))[0]
		made := ingress(t, "annotated", `{}`)
		annotations := map[string]string{}
		for key, value := range annotated.Object {
			annotations[key] = fmt.Sprint(value)
		}
		made.SetAnnotations(annotations)
		p.tries(t, []*object{made}, []string{exampleHost})
	case aManifest:
		made := objectsOf(t, []byte(block.text))
		p.tries(t, made, hostnamesOf(block.text))
	}
}

// letsPast makes an Access application that lets all visitors of a path past.
func (c *cluster) letsPast(t *testing.T, path string) {
	t.Helper()
	var policy struct {
		ID string `json:"id"`
	}
	include := []any{map[string]any{"everyone": map[string]any{}}}
	c.cloudflare.Ask(t, "POST", "/policies", map[string]any{"name": "public", "decision": "bypass", "include": include}, &policy)
	c.cloudflare.Ask(t, "POST", "/applications", map[string]any{"application": map[string]any{
		"type": "self_hosted", "name": "hook", "domain": path, "policies": []any{policy.ID},
		"destinations": []any{
			map[string]any{"type": "public", "uri": path}, map[string]any{"type": "public", "uri": path + "/*"},
		},
	}}, nil)
}

// traefikDefinitions are the three kinds that ExternalDNS's source wants, with whatever fields.
func traefikDefinitions(t *testing.T) (definitions []*object) {
	t.Helper()
	for _, kind := range []string{"IngressRoute", "IngressRouteTCP", "IngressRouteUDP"} {
		plural := strings.ToLower(kind) + "s"
		definitions = append(definitions, objectsOf(t, []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+plural+`.traefik.io}
spec:
  group: traefik.io
  scope: Namespaced
  names: {kind: `+kind+`, plural: `+plural+`}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))...)
	}
	return definitions
}

// hostnamesOf is every name of the emulator's zone that an example has outside of annotations' keys and comments.
func hostnamesOf(text string) []string {
	text = regexp.MustCompile(`(?m)#.*$`).ReplaceAllString(text, "")
	hostnames := regexp.MustCompile(`(?:\*\.)?(?:[a-z0-9-]+\.)*example\.com`).FindAllString(text, -1)
	slices.Sort(hostnames)
	return slices.Compact(hostnames)
}

// tries applies objects, awaits what is documented of their hostnames, and deletes them.
func (p *pod) tries(t *testing.T, objects []*object, hostnames []string) {
	t.Helper()
	wanted := shape{}
	for _, hostname := range hostnames {
		rules, told := documented[hostname]
		if !told {
			t.Fatalf("say in `documented` by what %s is to be served", hostname)
		}
		if len(rules) > 0 {
			wanted[hostname] = rules
		}
	}
	if len(hostnames) == 0 {
		t.Fatal("the example has no hostname")
	}
	// The Gateway is there already, as an operator has made it.
	parent := objectsOf(t, []byte(`{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: public},
		spec: {gatewayClassName: any, listeners: [{name: http, protocol: HTTP, port: 80}]}}`))
	p.cluster.apply(t, appNamespace, parent...)
	p.cluster.apply(t, appNamespace, objects...)
	p.publishes(t, wanted)
	p.cluster.delete(t, objects...)
	// That an empty tunnel stays so is seen beside each way to install.
	p.reaches(t, shape{})
}
