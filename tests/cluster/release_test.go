package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// registry is an OCI registry in memory: as much of it as the push and the pull of a chart need.
type registry struct {
	sync.Mutex
	contents map[string][]byte // by repository, kind and digest, or tag
	types    map[string]string
}

func startRegistry(t *testing.T) (host string) {
	t.Helper()
	server := httptest.NewServer(&registry{contents: map[string][]byte{}, types: map[string]string{}})
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func (r *registry) ServeHTTP(to http.ResponseWriter, from *http.Request) {
	r.Lock()
	defer r.Unlock()
	switch path := from.URL.Path; {
	case path == "/v2/":
	case strings.HasSuffix(path, "/tags/list"):
		var tags []string
		for key := range r.contents {
			if tag, is := strings.CutPrefix(key, strings.TrimSuffix(path, "tags/list")+"manifests/"); is && !strings.Contains(tag, ":") {
				tags = append(tags, tag)
			}
		}
		to.Header().Set("Content-Type", "application/json")
		json.NewEncoder(to).Encode(map[string]any{"tags": tags})
	case from.Method == http.MethodPost:
		to.Header().Set("Location", path+"upload")
		to.WriteHeader(http.StatusAccepted)
	case from.Method == http.MethodPut:
		content, err := io.ReadAll(from.Body)
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		told := from.URL.Query().Get("digest")
		if err != nil || told != "" && told != digest {
			to.WriteHeader(http.StatusBadRequest)
			return
		}
		folder := strings.TrimSuffix(path, "uploads/upload")
		if told == "" {
			folder, _ = filepath.Split(path)
			r.keeps(path, content, from)
		}
		r.keeps(folder+digest, content, from)
		to.Header().Set("Docker-Content-Digest", digest)
		to.WriteHeader(http.StatusCreated)
	default:
		content, has := r.contents[path]
		if !has {
			to.WriteHeader(http.StatusNotFound)
			return
		}
		to.Header().Set("Content-Type", r.types[path])
		to.Header().Set("Content-Length", fmt.Sprint(len(content)))
		to.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(content)))
		to.Write(content)
	}
}

func (r *registry) keeps(path string, content []byte, from *http.Request) {
	r.contents[path], r.types[path] = content, from.Header.Get("Content-Type")
}

// TestAReleasesChartIsPushedPulledAndInstalled: what release.yml does with it, to a registry on loopback, and what a user then
// types. It is the chart of deploy/ with the owner's image, so that three values are enough.
func TestAReleasesChartIsPushedPulledAndInstalled(t *testing.T) {
	t.Parallel()
	cluster := startClusterBeside(t, harness.StartEmulator(t))
	operator := cluster.operator(t)
	script, err := filepath.Abs("../../release/chart")
	if err != nil {
		t.Fatal(err)
	}
	charts := "oci://" + startRegistry(t) + "/the-org/charts"
	operator.types(t, script+" The-Org made "+charts+" --plain-http")

	const four = " --namespace " + ownNamespace + " --set global.domain=example.com --set global.tunnel=homelab --set existingSecret=cloudflare"
	released := ownName + " " + charts + "/external-dns-tunnel --version 0.1.0 --plain-http" + four
	ours := ownName + " deploy/chart" + four +
		" --set external-dns.provider.webhook.image.repository=ghcr.io/the-org/external-dns-cloudflare-tunnel-webhook"
	// Helm says on stderr what it pulled.
	if pulled, wanted := operator.types(t, "helm template "+released+" 2>/dev/null"), operator.types(t, "helm template "+ours); pulled != wanted {
		t.Errorf("the release makes\n%s\nand deploy/chart\n%s", pulled, wanted)
	}
	digest := strings.TrimSpace(operator.types(t, "cat made/chart-digest"))
	operator.types(t, "mkdir pulled; helm pull "+charts+"/external-dns-tunnel@"+digest+" --plain-http --destination pulled")
	operator.types(t, "cmp made/external-dns-tunnel-0.1.0.tgz pulled/external-dns-tunnel*.tgz")

	cluster.apply(t, "", namespace(ownNamespace))
	cluster.apply(t, ownNamespace, cluster.cloudflareSecret("api-token"))
	operator.types(t, "helm install "+released)
	if names := slices.Sorted(maps.Keys(cluster.templates(t))); !slices.Equal(names, []string{"cloudflared", ownName}) {
		t.Errorf("Deployments %q", names)
	}
}
