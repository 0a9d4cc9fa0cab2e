package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// TestATunnelIsMadeAndServesBesideEachWayToInstall: cloudflared from an account without a tunnel to visitors that are
// served, and on to another tunnel token.
func TestATunnelIsMadeAndServesBesideEachWayToInstall(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		render func(*testing.T) []*object
	}{
		{"kustomize", kustomize},
		{"the chart", func(t *testing.T) []*object { return helm(t, nil) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			cluster := startClusterBeside(t, harness.StartEmulator(t, "--without-tunnels"))
			objects := way.render(t)
			cluster.install(t, objects)

			// Either pod may start first. Here it is the one that needs the other's tunnel.
			pod := cluster.runWebhook(t, objects)
			pod.runExternalDNS(t, append([]string{"--log-level=debug"}, soon...)...)
			if err := pod.program.Answers("/readyz"); err == nil || !strings.Contains(err.Error(), "503") {
				t.Errorf("without a tunnel: %v", err)
			}
			shop := ingress(t, "shop", `{external-dns.kubernetes.io/target: "http://shop.shop.svc:80"}`)
			cluster.apply(t, appNamespace, shop)

			replicas := cluster.fetchRunTokens(t, objects)
			cluster.oneTunnelIsNamed(t, tunnelName)
			cluster.haveOneToken(t, replicas)
			t.Run("the real cloudflared takes its arguments and the token", func(t *testing.T) {
				cluster.startsReal(t, replicas[0])
			})
			for _, replica := range replicas {
				if err := cluster.connects(t, replica); err != nil {
					t.Fatal(err)
				}
			}

			pod.program.AwaitReady(t)
			pod.publishes(t, shape{"shop.example.com": {"http://shop.shop.svc:80"}})
			served := "http://shop.shop.svc:80 through " + cluster.home.ID
			cluster.visits(t, served)

			said := cluster.rotates(t, replicas, served)
			cluster.delete(t, shop)
			pod.publishes(t, shape{})
			if seen := cluster.cloudflare.Visit(t, "shop.example.com", "/"); strings.Contains(seen, cluster.home.ID) {
				t.Errorf("withdrawn, and a visitor gets %s", seen)
			}

			said["the program"], said["ExternalDNS"] = pod.program.Output(t), pod.Output(t)
			said["the API server"] = cluster.Output(t)
			cluster.keepsSecrets(t, said)
		})
	}
}

// oneTunnelIsNamed finds the tunnel that was made, and takes it for the cluster's.
func (c *cluster) oneTunnelIsNamed(t *testing.T, name string) {
	t.Helper()
	tunnels := c.cloudflare.State(t).Tunnels
	if len(tunnels) != 1 || tunnels[0].Name != name {
		t.Fatalf("the tunnels are %v", tunnels)
	}
	c.home = harness.Tunnel{ID: tunnels[0].ID}
}

// haveOneToken checks that all replicas have the same tunnel token, for their user alone.
func (c *cluster) haveOneToken(t *testing.T, replicas []replica) {
	t.Helper()
	if len(replicas) < 2 {
		t.Errorf("%d replica", len(replicas))
	}
	for _, replica := range replicas {
		status, err := os.Stat(replica.tokenFile(t))
		if err != nil {
			t.Fatal(err)
		}
		if status.Mode() != 0o400 {
			t.Errorf("the token's file has the mode %s", status.Mode())
		}
		if replica.runToken(t) != replicas[0].runToken(t) {
			t.Error("the replicas have different tokens")
		}
	}
}

// startsReal runs the container with the real cloudflared. Cloudflare's edge is not there: that it names the tunnel shows that
// it took its arguments and the token.
func (c *cluster) startsReal(t *testing.T, replica replica) {
	t.Helper()
	binary := os.Getenv("CLOUDFLARED")
	if binary == "" {
		t.Skip("SKIPPED: CLOUDFLARED names no binary of cloudflared")
	}
	metrics := "127.0.0.1:" + harness.FreePort(t)
	environment, arguments := replica.folders.process(replica.cloudflared)
	for index, argument := range arguments {
		if strings.HasPrefix(argument, "--metrics=") {
			arguments[index] = "--metrics=" + metrics
		}
	}
	environment = append(environment, "TUNNEL_EDGE=127.0.0.1:"+harness.FreePort(t))
	started := harness.Start(t, "cloudflared", binary, harness.BareEnvironment(environment...), arguments...)
	harness.Eventually(t, "cloudflared names its tunnel", func() error {
		started.Alive(t)
		if !strings.Contains(started.Output(t), c.home.ID) {
			return fmt.Errorf("it says %s", started.Output(t))
		}
		return nil
	})
	c.keepsSecrets(t, map[string]string{"cloudflared": started.Output(t)})
}

func (c *cluster) visits(t *testing.T, served string) {
	t.Helper()
	if seen := c.cloudflare.Visit(t, "shop.example.com", "/"); seen != served {
		t.Errorf("a visitor gets %s", seen)
	}
}

// rotates does what docs/guides.md says: another tunnel token, and pods that fetch it. It gives what every process said.
func (c *cluster) rotates(t *testing.T, former []replica, served string) (said map[string]string) {
	t.Helper()
	said = map[string]string{}
	blocks := fencesOf(sectionOf(t, "../../docs/guides.md", "A new tunnel token"))
	if len(blocks) != 2 || blocks[0].language != "sh" || blocks[1].language != "sh" {
		t.Fatalf("the guide has the blocks %q", blocks)
	}
	operator := c.operator(t)
	patch := replaced(t, blocks[0].text, "https://api.cloudflare.com/client/v4", c.cloudflare.BaseURL)
	// What is not printed cannot show a secret.
	if output := operator.types(t, patch, "CF_API_TOKEN="+c.cloudflare.Token, "CF_ACCOUNT_ID="+c.cloudflare.Account,
		"TUNNEL_ID="+c.home.ID); output != "" {
		t.Errorf("it prints %d bytes", len(output))
	}
	if err := c.connects(t, former[0]); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("with the old token: %v", err)
	}
	c.visits(t, served)

	template := func() string {
		return fmt.Sprint(deploymentOf(t, c.deployments(t), "cloudflared").template)
	}
	before := template()
	said["kubectl"] = operator.types(t, blocks[1].text)
	if template() == before {
		t.Error("no new pods are asked for")
	}
	latter := c.fetchRunTokens(t, c.deployments(t))
	c.haveOneToken(t, latter)
	if latter[0].runToken(t) == former[0].runToken(t) {
		t.Error("the token is the old one")
	}
	for _, replica := range latter {
		if err := c.connects(t, replica); err != nil {
			t.Error(err)
		}
	}
	// The old pods have ended.
	c.cloudflare.SetConnectors(t, c.home, len(latter))
	c.visits(t, served)
	for index, replica := range slices.Concat(former, latter) {
		said[fmt.Sprintf("the init container of pod %d", index)] = replica.fetching.Output(t)
	}
	return said
}
