package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// installed is a release of the chart, which an operator's commands change.
type installed struct {
	*cluster
	operator
	pod *pod
}

// The values that each command has. ExternalDNS reads DNSEndpoints too.
const given = " " + ownName + " deploy/chart --namespace " + ownNamespace + " --set existingSecret=cloudflare" +
	" --set global.domain=example.com --set global.tunnel=" + tunnelName + " --set 'external-dns.sources={ingress,crd}'" +
	" --set external-dns.provider.webhook.image.repository=registry.example.com/webhook"

func installChart(t *testing.T, cluster *cluster, more string) *installed {
	t.Helper()
	cluster.apply(t, "", namespace(ownNamespace))
	cluster.apply(t, ownNamespace, cluster.cloudflareSecret("api-token"))
	made := &installed{cluster: cluster, operator: cluster.operator(t)}
	made.types(t, "helm install"+given+more)
	return made
}

// rolls changes the release. ExternalDNS's Deployment has the strategy Recreate: the old pod ends, and then the new one starts. It
// gives the Deployments whose pods start anew.
func (i *installed) rolls(t *testing.T, command string) (changed []string) {
	t.Helper()
	before := i.templates(t)
	i.types(t, command)
	for name, template := range i.templates(t) {
		if before[name] != template {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if slices.Contains(changed, ownName) {
		i.starts(t)
	}
	return changed
}

// starts runs ExternalDNS's pod, in the place of one that runs.
func (i *installed) starts(t *testing.T) {
	t.Helper()
	if i.pod != nil {
		i.pod.Stop(t)
		i.pod.program.Stop(t)
	}
	i.pod = i.run(t, i.deployments(t), soon...)
}

// tells awaits these lines of the webhook's log, and sees that nothing was written since the count.
func (i *installed) tells(t *testing.T, writes int, lines ...[]string) {
	t.Helper()
	harness.EventuallyWithin(t, patience, "the log has the plan", func() error {
		i.pod.Alive(t)
		for _, words := range lines {
			if !i.pod.program.Tells(words...) {
				return fmt.Errorf("no line has %q", words)
			}
		}
		return nil
	})
	reads := func() (count int) {
		for _, call := range i.cloudflare.Calls(t) {
			if strings.HasSuffix(strings.SplitN(call.Path, "?", 2)[0], "/dns_records") {
				count++
			}
		}
		return count
	}
	// ExternalDNS never finds all up to date here, and asks again in each loop.
	before := reads()
	harness.EventuallyWithin(t, patience, "more loops look at the records", func() error {
		if now := reads(); now < before+6 {
			return fmt.Errorf("%d calls", now-before)
		}
		return nil
	})
	if now := i.cloudflare.Writes(t); len(now) != writes {
		t.Errorf("a dry run writes: %v", now[writes:])
	}
}

func plan(hostname string) [][]string {
	return [][]string{{"without DRY_RUN: rule created or updated", hostname}, {"without DRY_RUN: record created", hostname}}
}

// TestADryRunOnAFreshInstallationTellsItsPlanAndMakesNothing: README's first look, then without it. What waits there is tried
// too: pods of cloudflared, where they are not left out.
func TestADryRunOnAFreshInstallationTellsItsPlanAndMakesNothing(t *testing.T) {
	t.Parallel()
	cluster := startClusterBeside(t, harness.StartEmulator(t, "--without-tunnels"))
	const look = " --set cloudflared.enabled=false --set global.settings.DRY_RUN=true"
	if readme := readDocument(t, "../../README.md"); !strings.Contains(readme, strings.TrimSpace(look)) {
		t.Errorf("the README has no %q", look)
	}
	release := installChart(t, cluster, look)
	if names := release.templates(t); len(names) != 1 {
		t.Errorf("the Deployments are %v", names)
	}
	release.starts(t)
	cluster.apply(t, appNamespace, ingress(t, "shop", `{external-dns.kubernetes.io/target: "http://shop.shop.svc:80"}`))
	release.tells(t, 0, plan("shop.example.com")...)

	// With them, their init containers wait, and no container of the pod crashes.
	release.types(t, "helm upgrade"+given+" --set global.settings.DRY_RUN=true")
	waiting := release.initContainer(t)
	harness.EventuallyWithin(t, patience, "the init container says why it waits", func() error {
		waiting.Alive(t)
		if !strings.Contains(waiting.Output(t), `the tunnel "`+tunnelName+`" is not created; looking for it again in 60 s`) {
			return errors.New(waiting.Output(t))
		}
		return nil
	})
	waiting.Stop(t)
	release.tells(t, 0)
	if made := cluster.cloudflare.State(t).Tunnels; len(made) != 0 {
		t.Errorf("the dry run makes %v", made)
	}

	release.types(t, "helm upgrade"+given)
	cluster.fetchRunTokens(t, cluster.deployments(t))
	cluster.oneTunnelIsNamed(t, tunnelName)
	release.starts(t)
	release.pod.publishes(t, shape{"shop.example.com": {"http://shop.shop.svc:80"}})
}

// initContainer starts the init container of a pod of cloudflared's, and does not wait for its end.
func (i *installed) initContainer(t *testing.T) *harness.Process {
	t.Helper()
	own := deploymentOf(t, i.deployments(t), "cloudflared")
	folders := i.volumes(t, own.spec)
	environment, arguments := folders.process(named(t, own.spec.InitContainers, "tunnel"))
	return harness.RunProgram(t, i.cloudflare, environment, arguments...)
}

// TestARunningInstallationTakesADryRunALostPodSettingsAndAMachine, each by one command, and visitors are served all the time.
// Which pods start anew is what the API server has of the Deployments. That a NetworkPolicy is enforced takes a network, and
// that an old pod serves until a new one is ready takes a kubelet: neither is here.
func TestARunningInstallationTakesADryRunALostPodSettingsAndAMachine(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	release := installChart(t, cluster, "")
	release.starts(t)
	cluster.apply(t, appNamespace, ingress(t, "shop", `{external-dns.kubernetes.io/target: "http://shop.shop.svc:80"}`))
	published := shape{"shop.example.com": {"http://shop.shop.svc:80"}}
	release.pod.publishes(t, published)
	for _, replica := range cluster.fetchRunTokens(t, cluster.deployments(t)) {
		if err := cluster.connects(t, replica); err != nil {
			t.Fatal(err)
		}
	}
	served := "http://shop.shop.svc:80 through " + cluster.home.ID
	cluster.visits(t, served)
	upgraded := func(wanted []string, values string) {
		t.Helper()
		command := "helm upgrade " + ownName + " deploy/chart --namespace " + ownNamespace + " --reset-then-reuse-values " + values
		if changed := release.rolls(t, command); !slices.Equal(changed, wanted) {
			t.Errorf("%s: new pods are those of %q, wanted %q", values, changed, wanted)
		}
		cluster.visits(t, served)
	}
	both, own, writes := []string{"cloudflared", ownName}, []string{ownName}, len(cluster.cloudflare.Writes(t))

	upgraded(both, "--set global.settings.DRY_RUN=true")
	// The node of a pod is lost: its connector goes, and a new pod fetches the tunnel token.
	cluster.cloudflare.SetConnectors(t, cluster.home, 1)
	replicas := cluster.fetchRunTokens(t, cluster.deployments(t))
	cluster.haveOneToken(t, replicas)
	if err := cluster.connects(t, replicas[0]); err != nil {
		t.Error(err)
	}
	wiki := ingress(t, "wiki", `{external-dns.kubernetes.io/target: "http://wiki.web.svc:80"}`)
	cluster.apply(t, appNamespace, wiki)
	release.tells(t, writes, plan("wiki.example.com")...)
	cluster.visits(t, served)
	upgraded(both, "--set global.settings.DRY_RUN=null")
	published["wiki.example.com"] = []string{"http://wiki.web.svc:80"}
	release.pod.publishes(t, published)

	// A rollout writes nothing, and a setting of an earlier command stays.
	writes = len(cluster.cloudflare.Writes(t))
	upgraded(own, "--set global.settings.MASS_DELETION_LIMIT=2000000")
	upgraded(own, "--set global.settings.LOG_LEVEL=info")
	upgraded(both, "--set global.settings.CF_ACCOUNT_ID="+cluster.cloudflare.Account)
	release.pod.rests(t)
	if now := cluster.cloudflare.Writes(t); len(now) != writes {
		t.Errorf("a rollout writes: %v", now[writes:])
	}
	wanted := "CF_ACCOUNT_ID=" + cluster.cloudflare.Account + "\nLOG_LEVEL=info\nMASS_DELETION_LIMIT=2000000"
	if settings := string(cluster.secret(t, ownName)["settings"]); settings != wanted {
		t.Errorf("the settings are %q", settings)
	}

	blocks := fencesOf(sectionOf(t, "../../docs/guides.md", "A machine of the local network"))
	if len(blocks) != 2 {
		t.Fatalf("the guide has the blocks %q", blocks)
	}
	upgraded(nil, "--values - <<'END'\n"+blocks[1].text+"END")
	release.types(t, "kubectl apply --namespace "+appNamespace+" --filename - <<'END'\n"+blocks[0].text+"END")
	published["assistant.example.com"] = []string{"http://192.168.1.20:8123"}
	release.pod.publishes(t, published)
	if to := cluster.servicesReached(t); !slices.Equal(to, []string{"192.168.1.20/32 [8123]", "pods of other namespaces []"}) {
		t.Errorf("cloudflared reaches %q", to)
	}
}

// servicesReached is what the NetworkPolicy lets cloudflared reach beside Cloudflare and the names' servers, with the ports.
func (c *cluster) servicesReached(t *testing.T) (found []string) {
	t.Helper()
	text, err := c.Try(http.MethodGet, "/apis/networking.k8s.io/v1/namespaces/"+ownNamespace+"/networkpolicies/cloudflared", nil)
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Spec struct {
			Egress []struct {
				To []struct {
					IPBlock           *struct{ CIDR string }
					NamespaceSelector *struct{ MatchExpressions []struct{ Operator string } }
				}
				Ports []struct{ Port int }
			}
		}
	}
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	for _, rule := range policy.Spec.Egress {
		ports := []int{}
		for _, port := range rule.Ports {
			ports = append(ports, port.Port)
		}
		for _, to := range rule.To {
			switch {
			case to.NamespaceSelector != nil && to.NamespaceSelector.MatchExpressions[0].Operator == "NotIn":
				found = append(found, fmt.Sprint("pods of other namespaces ", ports))
			case to.IPBlock != nil && !strings.HasSuffix(to.IPBlock.CIDR, "/0"):
				found = append(found, fmt.Sprint(to.IPBlock.CIDR, " ", ports))
			}
		}
	}
	slices.Sort(found)
	return found
}
