package cluster

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// keepsSecrets checks that no secret or tunnel token of a tunnel and no API token is in what was said, nor in any object of the
// API server but the Secret that was made for one.
func (c *cluster) keepsSecrets(t *testing.T, said map[string]string) {
	t.Helper()
	secrets := append(c.cloudflare.Secrets(t), c.cloudflare.Token, base64.StdEncoding.EncodeToString([]byte(c.cloudflare.Token)))
	if len(secrets) < 4 {
		t.Fatal("no tunnel has a secret: are they told?")
	}
	objects := c.everyObject(t)
	if len(objects) < 10 {
		t.Fatalf("objects of %d kinds only: are they found?", len(objects))
	}
	for _, texts := range []map[string]string{said, objects} {
		for name, text := range texts {
			if text == "" {
				t.Errorf("%s said nothing: was it kept?", name)
			}
			if slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) }) {
				t.Errorf("%s shows a secret", name)
			}
		}
	}
}

// everyObject is all that the API server has, by kind, without the Secret with the API token. Helm's own Secret has the values
// that a release was given, packed.
func (c *cluster) everyObject(t *testing.T) map[string]string {
	t.Helper()
	objects := map[string]string{}
	for place, text := range c.inventory(t) {
		kind, name, _ := strings.Cut(place, " ")
		if !strings.HasSuffix(kind, "/secrets") || name != ownNamespace+"/cloudflare" {
			objects[kind] += text
		}
	}
	return objects
}

// inventory is all that the API server has, as "kind namespace/name".
func (c *cluster) inventory(t *testing.T) map[string]string {
	t.Helper()
	// Kinds that were defined a moment ago take their time.
	read := func(path string, into any) {
		harness.Eventually(t, "the API server shows "+path, func() error {
			text, err := c.Try(http.MethodGet, path, nil)
			if err != nil {
				return err
			}
			return json.Unmarshal(text, into)
		})
	}
	var groups struct {
		Groups []struct{ PreferredVersion struct{ GroupVersion string } }
	}
	read("/apis", &groups)
	roots := []string{"/api/v1"}
	for _, group := range groups.Groups {
		roots = append(roots, "/apis/"+group.PreferredVersion.GroupVersion)
	}
	objects := map[string]string{}
	for _, root := range roots {
		var kinds struct {
			Resources []struct {
				Name  string
				Verbs []string
			}
		}
		read(root, &kinds)
		for _, kind := range kinds.Resources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			var list struct{ Items []json.RawMessage }
			read(root+"/"+kind.Name, &list)
			for _, item := range list.Items {
				var object struct {
					Metadata struct{ Namespace, Name string }
				}
				if err := json.Unmarshal(item, &object); err != nil {
					t.Fatal(err)
				}
				objects[root+"/"+kind.Name+" "+object.Metadata.Namespace+"/"+object.Metadata.Name] = string(item)
			}
		}
	}
	return objects
}
