package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
	"sigs.k8s.io/external-dns/endpoint"
)

// applications are the names of all Access applications, each with the names of its policies.
func (e *emulator) applications(t *testing.T) (names []string) {
	t.Helper()
	var state struct {
		Access struct {
			Applications []struct {
				Application struct {
					Name     string `json:"name"`
					Policies []struct {
						Name string `json:"name"`
					} `json:"policies"`
				} `json:"application"`
			} `json:"applications"`
		} `json:"access"`
	}
	e.Ask(t, "GET", "/state", nil, &state)
	for _, one := range state.Access.Applications {
		var policies []string
		for _, policy := range one.Application.Policies {
			policies = append(policies, policy.Name)
		}
		names = append(names, fmt.Sprintf("%s: %s", one.Application.Name, strings.Join(policies, ", ")))
	}
	return names
}

// hasApplications tells what differs from these applications, as applications tells them.
func (e *emulator) hasApplications(t *testing.T, wanted ...string) {
	t.Helper()
	if found := e.applications(t); !slices.Equal(found, wanted) {
		t.Errorf("the applications are %q, not %q", found, wanted)
	}
}

// isClosed tells if a visitor without a login reaches something.
func (e *emulator) isClosed(t *testing.T, host, path string) {
	t.Helper()
	if seen := e.Visit(t, host, path); !strings.HasPrefix(seen, "turned away by application ") {
		t.Errorf("a visitor of %s%s without a login gets %s", host, path, seen)
	}
}

// loses awaits that only these applications are left, as the emulator's time passes: what nothing needs any more goes by
// itself, once it is ten minutes old.
func (e *emulator) loses(t *testing.T, wanted ...string) {
	t.Helper()
	harness.Eventually(t, "an application goes by itself", func() error {
		e.passTime(t, 11*time.Minute)
		if found := e.applications(t); !slices.Equal(found, wanted) {
			return fmt.Errorf("the applications are %q, not %q", found, wanted)
		}
		return nil
	})
}

// A hostname comes and goes with the application that protects it, and only the word `none` opens it. With one registry
// both programs start afresh before each change, and the change itself comes with the start.
func TestAHostnameIsPublishedWithTheApplicationThatProtectsIt(t *testing.T) {
	t.Parallel()
	withEitherRegistry(t, func(t *testing.T, invocation invocation) {
		pod, tunnel, foreign := besideOthers(t, invocation)
		cloudflare := pod.cloudflare
		cloudflare.SetUpAccess(t)
		const web, service, next = "web.example.com", "http://web.shop.svc:80", "http://next.shop.svc:80"
		open := published("open.example.com", service)
		with := func(policies string) property { return property{"access-policy", policies} }
		name := web + " (ExternalDNS default): "
		become := func(t *testing.T, endpoints ...*endpoint.Endpoint) {
			t.Helper()
			pod.source.set(endpoints...)
			if invocation.registry == noop {
				pod.rollOut(t)
			}
			pod.settles(t)
		}

		t.Run("it is published protected, and the others go on", func(t *testing.T) {
			become(t, published(web, service, with("staff, on-call")), open)
			cloudflare.hasApplications(t, name+"staff, on-call")
			cloudflare.isClosed(t, web, "/")
			cloudflare.Publishes(t, tunnel, "open.example.com", service, `{}`)
		})
		t.Run("other policies and another service come", func(t *testing.T) {
			become(t, published(web, next, with("on-call")), open)
			cloudflare.hasApplications(t, name+"on-call")
			cloudflare.isClosed(t, web, "/")
		})
		t.Run("a lost annotation opens nothing", func(t *testing.T) {
			become(t, published(web, next), open)
			cloudflare.hasApplications(t, name+"on-call")
			cloudflare.isClosed(t, web, "/")
			if lines := pod.program.Lines("has a login that no object asks for", web); lines != 1 {
				t.Errorf("that the annotation is lost is told %d times", lines)
			}
		})
		t.Run("none opens it", func(t *testing.T) {
			become(t, published(web, service, with("none")), open)
			cloudflare.hasApplications(t)
			cloudflare.Publishes(t, tunnel, web, service, `{}`)
			if lines := pod.program.Lines("none removes the login", web); lines != 1 {
				t.Errorf("that its login goes is told %d times", lines)
			}
		})
		t.Run("an open hostname is protected", func(t *testing.T) {
			become(t, published(web, service, with("staff")), open)
			cloudflare.hasApplications(t, name+"staff")
			cloudflare.isClosed(t, web, "/")
		})
		// The others' wildcard answers for every name, and asks for no login.
		t.Run("narrowed to a path it leaves the rest closed", func(t *testing.T) {
			become(t, published(web, service, with("staff"), property{"tunnel-path-prefix", "/admin"}), open)
			cloudflare.hasApplications(t, name+"staff", web+"/admin (ExternalDNS default): staff")
			cloudflare.isClosed(t, web, "/")
			cloudflare.isClosed(t, web, "/admin")
		})
		t.Run("withdrawn it stays closed, and only what is foreign is left besides", func(t *testing.T) {
			become(t)
			cloudflare.loses(t, name+"staff")
			pod.settles(t)
			cloudflare.isClosed(t, web, "/")
			cloudflare.isClosed(t, web, "/admin")
			if lines := pod.program.Lines("stays, because", `"`+web+` (ExternalDNS default)"`); lines != 1 {
				t.Errorf("that its application stays is told %d times", lines)
			}
			foreign.alone(t)
		})
	})
}

func TestTheApplicationOfAWithdrawnHostnameGoesByItself(t *testing.T) {
	t.Parallel()
	cloudflare := startEmulator(t)
	cloudflare.SetUpAccess(t)
	pod := deploy(t, cloudflare, cloudflare.TunnelNeverConfigured(t, "home").ID)
	pod.source.set(published("web.example.com", "http://web.shop.svc:80", property{"access-policy", "staff"}))
	pod.settles(t)
	cloudflare.hasApplications(t, "web.example.com (ExternalDNS default): staff")
	pod.source.set()
	pod.settles(t)
	cloudflare.loses(t)
}

// ExternalDNS 0.22 reads annotations under another prefix, so objects seem to say nothing at all. With a default service
// for all of them everything would be published as it is.
func TestAnnotationsUnderAnotherPrefixOpenNothing(t *testing.T) {
	t.Parallel()
	pod, _, _ := besideOthers(t, invocation{}, "DEFAULT_SERVICE=http://ingress.svc:80", "PUBLISH=all")
	cloudflare := pod.cloudflare
	cloudflare.SetUpAccess(t)
	const whole, part = "whole.example.com", "part.example.com"
	pod.source.set(append(
		addressed(whole, property{"access-policy", "staff"}),
		addressed(part, property{"tunnel-service.admin", "http://admin.svc:80"},
			property{"tunnel-path-prefix.admin", "/admin"}, property{"access-policy.admin", "staff"})...)...)
	pod.settles(t)
	isClosed := func() {
		t.Helper()
		cloudflare.isClosed(t, whole, "/")
		cloudflare.isClosed(t, part, "/admin")
		cloudflare.isClosed(t, part, "/admin/users")
	}
	isClosed()
	before := cloudflare.applications(t)

	cloudflare.passTime(t, 11*time.Minute)
	pod.source.set(append(addressed(whole), addressed(part)...)...)
	pod.settles(t)
	isClosed()
	cloudflare.hasApplications(t, before...)
	for _, told := range [][]string{
		{"has a login that no object asks for", whole}, {part, "stays, because", "visitors might reach"},
	} {
		if lines := pod.program.Lines(told...); lines != 1 {
			t.Errorf("%q is told %d times", told, lines)
		}
	}
}
