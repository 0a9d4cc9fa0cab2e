package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// ExternalDNS's own TXT records, which the program keeps for it under OWNERSHIP=txt.

// ownership is where the program keeps whose a hostname is.
type ownership string

const (
	inComments ownership = "comment"
	inTexts    ownership = "txt"
)

func (o ownership) setting() string { return "OWNERSHIP=" + string(o) }

// texts is the TXT records kept for the owner, by their names.
func (e *emulator) texts(t *testing.T, owner string) map[string]record {
	t.Helper()
	texts := map[string]record{}
	for _, record := range e.Records(t) {
		if record.TextOwner() == owner {
			if other, twice := texts[record.Name]; twice {
				t.Errorf("two TXT records of one name: %s and %s", other, record)
			}
			texts[record.Name] = record
		}
	}
	return texts
}

// hasTexts checks that these are the TXT records kept for the owner, no more and no less, and hands them out.
func (e *emulator) hasTexts(t *testing.T, owner string, names ...string) map[string]record {
	t.Helper()
	texts := e.texts(t, owner)
	found, wanted := slices.Sorted(maps.Keys(texts)), slices.Sorted(slices.Values(names))
	if !slices.Equal(found, wanted) {
		t.Errorf("the TXT records of %s are %q, wanted %q", owner, found, wanted)
	}
	return texts
}

// encryption is the flags with which ExternalDNS encrypts its texts.
var encryption = []string{"--txt-encrypt-enabled", "--txt-encrypt-aes-key=01234567890123456789012345678901"}

// heritage is the text that ExternalDNS writes of an endpoint.
func heritage(owner, resource string) string {
	return "heritage=external-dns,external-dns/owner=" + owner + ",external-dns/resource=" + resource
}

// text is what the content of a TXT record says: its quoted strings joined.
func text(record record) string {
	return strings.ReplaceAll(strings.Trim(record.Content, `"`), `" "`, "")
}

func TestTheTextsOfExternalDNSAreKeptUnderEveryName(t *testing.T) {
	t.Parallel()
	for _, naming := range []struct {
		name      string
		flags     []string
		hosts     map[string]string // hostname to TXT name
		encrypted bool
	}{
		{"with no flag", nil, map[string]string{
			"web.example.com": "cname-web.example.com", "a.b.example.com": "cname-a.b.example.com",
		}, false},
		{"with a prefix", []string{"--txt-prefix=x-"}, map[string]string{
			"web.example.com": "x-cname-web.example.com", "a.b.example.com": "x-cname-a.b.example.com",
		}, false},
		{"with a suffix", []string{"--txt-suffix=-x"}, map[string]string{
			"web.example.com": "cname-web-x.example.com", "a.b.example.com": "cname-a-x.b.example.com",
		}, false},
		{"with the type in a suffix", []string{"--txt-suffix=-%{record_type}"}, map[string]string{
			"web.example.com": "web-cname.example.com", "a.b.example.com": "a-cname.b.example.com",
		}, false},
		{"with the type in a label of its own", []string{"--txt-prefix=%{record_type}-x."}, map[string]string{
			"web.example.com": "cname-x.web.example.com", "example.com": "cname-x.example.com",
		}, false},
		{"with a replacement for the asterisk", []string{"--txt-wildcard-replacement=any"}, map[string]string{
			"web.example.com": "cname-web.example.com", "*.wild.example.com": "cname-any.wild.example.com",
		}, false},
		{"with the asterisk inside a label", nil, map[string]string{
			"web.example.com": "cname-web.example.com", "*.wild.example.com": "cname-*.wild.example.com",
		}, false},
		{"with encryption", encryption, map[string]string{
			"web.example.com": "cname-web.example.com", "a.b.example.com": "cname-a.b.example.com",
		}, true},
	} {
		t.Run(naming.name, func(t *testing.T) {
			t.Parallel()
			cloudflare := startEmulator(t)
			tunnel := cloudflare.tunnelOfOthers(t, "hand-made")
			foreign := cloudflare.foreign(t, tunnel)
			for hostname := range naming.hosts {
				// Nobody's is example.com.
				delete(foreign.visits, [2]string{hostname, "/"})
			}
			pod := deployWith(t, invocation{flags: naming.flags}, cloudflare, tunnel.ID, inTexts.setting())
			publishes := func(service string) {
				t.Helper()
				var all []*endpoint.Endpoint
				var names []string
				for hostname, name := range naming.hosts {
					all = append(all, published(hostname, service))
					names = append(names, name)
				}
				pod.source.set(all...)
				pod.settles(t)
				texts := cloudflare.hasTexts(t, "default", names...)
				for hostname, name := range naming.hosts {
					cloudflare.Publishes(t, tunnel, hostname, service, `{}`)
					said, wanted := text(texts[name]), heritage("default", "ingress/shop/"+hostname)
					if naming.encrypted == (said == wanted) || said == "" {
						t.Errorf("%s says %s", name, said)
					}
				}
				foreign.untouched(t)
			}
			publishes("http://web.shop.svc:80")
			publishes("http://web-next.shop.svc:80")
			pod.source.set()
			pod.settles(t)
			foreign.alone(t)
		})
	}
}

func TestALongTextIsKeptInSeveralStrings(t *testing.T) {
	t.Parallel()
	pod, _, foreign := besideOthers(t, invocation{}, inTexts.setting())
	cloudflare := pod.cloudflare
	long := published("web.example.com", "http://web.shop.svc:80")
	long.Labels[endpoint.ResourceLabelKey] = "ingress/shop/" + strings.Repeat("a", 253)
	pod.source.set(long)
	pod.settles(t)
	kept := cloudflare.hasTexts(t, "default", "cname-web.example.com")["cname-web.example.com"]
	if wanted := heritage("default", long.Labels[endpoint.ResourceLabelKey]); text(kept) != wanted || len(kept.Content) < len(wanted)+5 {
		t.Errorf("the content is %s", kept.Content)
	}
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
}

// By default the TXT record of example.com is cname-example.com, which is in another zone, if in any.
func TestAHostnameWhoseTextFitsInNoZoneIsRefused(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{}, inTexts.setting())
	cloudflare := pod.cloudflare
	pod.source.set(published(harness.ZoneName, "http://apex.shop.svc:80"), published("web.example.com", "http://web.shop.svc:80"))
	harness.Eventually(t, "the other hostname is published", func() error {
		pod.Alive(t)
		return cloudflare.IsPublished(t, tunnel, "web.example.com", "http://web.shop.svc:80", `{}`)
	})
	pod.isRefused(t, cloudflare)
	cloudflare.hasTexts(t, "default", "cname-web.example.com")
	foreign.untouched(t)
	if count := pod.program.Lines(`hostname="example.com"`, "refused=", "%{record_type}-x."); count != 1 {
		t.Errorf("the hint is given %d times", count)
	}
}

func TestATextDeletedByHandComesBack(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{}, inTexts.setting())
	cloudflare := pod.cloudflare
	// ExternalDNS asks for a TXT record again (txt/force-update) only while it sees another one.
	both := []*endpoint.Endpoint{published("web.example.com", "http://web.shop.svc:80"), published("api.example.com", "http://api.shop.svc:80")}
	pod.source.set(both...)
	pod.settles(t)
	texts := cloudflare.hasTexts(t, "default", "cname-web.example.com", "cname-api.example.com")

	deleted := texts["cname-web.example.com"]
	cloudflare.Ask(t, "POST", "/records", map[string]any{
		"zone":    harness.ZoneName,
		"deletes": []map[string]string{{"id": deleted.ID}},
	}, nil)
	pod.source.set(both...)
	pod.settles(t)
	back := cloudflare.hasTexts(t, "default", "cname-web.example.com", "cname-api.example.com")["cname-web.example.com"]
	if back.ID == deleted.ID || back.Content != deleted.Content {
		t.Errorf("%s has become %s", deleted, back)
	}
	cloudflare.Publishes(t, tunnel, "web.example.com", "http://web.shop.svc:80", `{}`)
	foreign.untouched(t)
}

func TestThePathsOfAHostnameShareOneText(t *testing.T) {
	t.Parallel()
	const host, name = "shop.example.com", "cname-shop.example.com"
	for _, registry := range []struct {
		name  string
		flags []string
	}{{"in the clear", nil}, {"encrypted", encryption}} {
		t.Run(registry.name, func(t *testing.T) {
			t.Parallel()
			pod, tunnel, foreign := besideOthers(t, invocation{flags: registry.flags}, inTexts.setting())
			cloudflare := pod.cloudflare
			// Each is of an object of its own, so ExternalDNS has another text for each.
			one := func(identifier, service string, properties ...property) *endpoint.Endpoint {
				one := published(host, service, properties...).WithSetIdentifier(identifier)
				one.Labels[endpoint.ResourceLabelKey] = "ingress/shop/" + identifier
				return one
			}
			whole, images := one("shop", "http://shop:80"), one("images", "http://images:80", property{"tunnel-path", `\.png$`})
			api := func(service string) *endpoint.Endpoint {
				return one("api", service, property{"tunnel-path-prefix", "/api"})
			}
			serves := func(t *testing.T, wanted ...string) {
				t.Helper()
				pod.settles(t)
				if found := cloudflare.Services(t, tunnel, host); !slices.Equal(found, wanted) {
					t.Errorf("rules: %q, wanted %q", found, wanted)
				}
				cloudflare.RecordLeadsTo(t, tunnel, host)
				cloudflare.hasTexts(t, "default", name)
				foreign.untouched(t)
			}

			t.Run("three paths are published", func(t *testing.T) {
				pod.source.set(whole, api("http://api:80"), images)
				serves(t, "^/api(/|$) http://api:80", `\.png$ http://images:80`, " http://shop:80")
			})
			t.Run("one is changed", func(t *testing.T) {
				pod.source.set(whole, api("http://api-next:80"), images)
				serves(t, "^/api(/|$) http://api-next:80", `\.png$ http://images:80`, " http://shop:80")
			})
			t.Run("one is withdrawn, and the text stays", func(t *testing.T) {
				pod.source.set(api("http://api-next:80"), images)
				serves(t, "^/api(/|$) http://api-next:80", `\.png$ http://images:80`)
			})
			t.Run("a path comes beside them", func(t *testing.T) {
				pod.source.set(api("http://api-next:80"), images, whole)
				serves(t, "^/api(/|$) http://api-next:80", `\.png$ http://images:80`, " http://shop:80")
			})
			t.Run("the text goes with the last", func(t *testing.T) {
				pod.source.set()
				pod.settles(t)
				foreign.alone(t)
			})
		})
	}
}

// A flag that is changed later gives every text another name.
func TestTextsGetTheNamesOfNewFlagsWithoutAGap(t *testing.T) {
	t.Parallel()
	const host, service = "web.example.com", "http://web.shop.svc:80"
	pod, tunnel, foreign := besideOthers(t, invocation{}, inTexts.setting())
	cloudflare := pod.cloudflare
	pod.source.set(published(host, service))
	pod.settles(t)
	watched := cloudflare.watch(t, host)
	for _, change := range []struct {
		flags []string
		name  string
	}{
		{[]string{"--txt-prefix=x-"}, "x-cname-web.example.com"},
		{append([]string{"--txt-prefix=y-"}, encryption...), "y-cname-web.example.com"},
	} {
		pod.flags = change.flags
		pod.rollOut(t, inTexts.setting())
		pod.source.set(published(host, service))
		pod.settles(t)
		cloudflare.Publishes(t, tunnel, host, service, `{}`)
		if _, found := cloudflare.texts(t, "default")[change.name]; !found {
			t.Errorf("there is no %s", change.name)
		}
	}
	if seen := watched(); len(seen) != 1 {
		t.Errorf("visitors got %q", seen)
	}
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
}

func TestTwoOwnersInOneZoneKeepTheirTextsApart(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	common := cloudflare.tunnelOfOthers(t, "hand-made")
	foreign := cloudflare.foreign(t, common)
	tunnels := map[string]tunnel{"east": common, "west": cloudflare.TunnelNeverConfigured(t, "west")}
	pods := map[string]*deployment{}
	for owner, tunnel := range tunnels {
		flags := []string{"--txt-owner-id=" + owner}
		pods[owner] = deployWith(t, invocation{flags: flags}, cloudflare, tunnel.ID, inTexts.setting(), "OWNER_ID="+owner)
		pods[owner].source.set(published("one."+owner+".example.com", "http://one.svc:80"), published("two."+owner+".example.com", "http://two.svc:80"))
	}
	for _, pod := range pods {
		pod.reachesFixedPoint(t)
	}
	keeps := func(t *testing.T, owner string) {
		t.Helper()
		for _, name := range []string{"one", "two"} {
			hostname := name + "." + owner + ".example.com"
			if err := cloudflare.IsPublishedBy(t, owner, tunnels[owner], hostname, "http://"+name+".svc:80", `{}`); err != nil {
				t.Error(err)
			}
		}
		cloudflare.hasTexts(t, owner, "cname-one."+owner+".example.com", "cname-two."+owner+".example.com")
		foreign.untouched(t)
	}

	t.Run("each publishes its own", func(t *testing.T) {
		for owner, pod := range pods {
			pod.settles(t)
			keeps(t, owner)
		}
	})
	t.Run("neither takes what the other has", func(t *testing.T) {
		pods["west"].source.set(published("one.east.example.com", "http://west.svc:80"))
		pods["west"].isRefused(t, cloudflare)
		keeps(t, "east")
		cloudflare.hasTexts(t, "west")
	})
	t.Run("what one withdraws the other may have", func(t *testing.T) {
		pods["east"].source.set()
		pods["east"].reachesFixedPoint(t)
		pods["west"].settles(t)
		if err := cloudflare.IsPublishedBy(t, "west", tunnels["west"], "one.east.example.com", "http://west.svc:80", `{}`); err != nil {
			t.Error(err)
		}
		cloudflare.hasTexts(t, "west", "cname-one.east.example.com")
		cloudflare.hasTexts(t, "east")
		foreign.untouched(t)
	})
}

// Without a registry ExternalDNS deletes all that it is shown and does not want.
func TestARegistryForgottenUnderOwnershipTxtDeletesNothingForeign(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{}, inTexts.setting())
	cloudflare := pod.cloudflare
	pod.source.set(published("web.example.com", "http://web.shop.svc:80"))
	pod.settles(t)

	pod.registry, pod.flags = noop, nil
	for _, kind := range []string{"A", "AAAA", "CNAME", "MX", "TXT"} {
		pod.flags = append(pod.flags, "--managed-record-types="+kind)
	}
	pod.rollOut(t, inTexts.setting())
	// It asks for the deletion of the TXT records it sees, as no source has them.
	pod.isRefused(t, cloudflare)
	cloudflare.Publishes(t, tunnel, "web.example.com", "http://web.shop.svc:80", `{}`)
	cloudflare.hasTexts(t, "default", "cname-web.example.com")
	foreign.untouched(t)
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
}

// Switching is a restart with another setting. ExternalDNS keeps its flags.
func TestOwnershipIsSwitchedToTextsAndBackWithoutAGap(t *testing.T) {
	t.Parallel()
	pod, tunnel, foreign := besideOthers(t, invocation{}, inComments.setting())
	cloudflare := pod.cloudflare
	old := []*endpoint.Endpoint{published("web.example.com", "http://web.shop.svc:80"), published("api.example.com", "http://api.shop.svc:80")}
	pod.source.set(old...)
	pod.settles(t)
	cloudflare.hasTexts(t, "default")
	watched := cloudflare.watch(t, "web.example.com")

	// ExternalDNS asks for the TXT records of what it has (txt/force-update) once it sees one.
	pod.rollOut(t, inTexts.setting())
	pod.settles(t)
	all := append(old, published("new.example.com", "http://new.shop.svc:80"))
	pod.source.set(all...)
	pod.settles(t)
	cloudflare.hasTexts(t, "default", "cname-web.example.com", "cname-api.example.com", "cname-new.example.com")

	// What is shown no more goes with the next change of its hostname.
	pod.rollOut(t, inComments.setting())
	pod.source.set(append(old, published("new.example.com", "http://new-next.shop.svc:80"))...)
	pod.settles(t)
	cloudflare.hasTexts(t, "default", "cname-web.example.com", "cname-api.example.com")
	cloudflare.Publishes(t, tunnel, "api.example.com", "http://api.shop.svc:80", `{}`)
	cloudflare.Publishes(t, tunnel, "new.example.com", "http://new-next.shop.svc:80", `{}`)
	if seen := watched(); len(seen) != 1 {
		t.Errorf("visitors got %q", seen)
	}
	foreign.untouched(t)
	pod.source.set()
	pod.settles(t)
	foreign.alone(t)
}
