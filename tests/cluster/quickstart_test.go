package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The program, in its image.
const entrypoint = "/external-dns-cloudflare-tunnel-webhook"

// newcomer follows the README: an operator, and the cluster that does what it is told.
type newcomer struct {
	*cluster
	operator
	replicas  []replica
	pod       *pod
	hostnames []string
}

// TestTheQuickStart types each block of the README's "Quick start", in its order, with the real kubectl and the real helm.
// What cannot be here is replaced: the token and the placeholders. It prints what was typed, what that said, and the time.
func TestTheQuickStart(t *testing.T) {
	t.Parallel()
	cluster := startClusterBeside(t, harness.StartEmulator(t, "--without-tunnels"))
	reader := &newcomer{cluster: cluster, operator: cluster.operator(t)}
	placeholders := []struct{ placeholder, value string }{
		{"token=…", "token=" + cluster.cloudflare.Token},
		{"YOUR-ORG", "the-org"},
		{"homelab", tunnelName},
	}

	said := map[string]string{}
	begun := time.Now()
	for index, block := range fencesOf(sectionOf(t, "../../README.md", "Quick start")) {
		script, started := block.text, time.Now()
		for _, each := range placeholders {
			script = strings.ReplaceAll(script, each.placeholder, each.value)
		}
		placeholders = slices.DeleteFunc(placeholders, func(each struct{ placeholder, value string }) bool {
			return strings.Contains(block.text, each.placeholder)
		})
		output := reader.follows(t, fence{block.language, script})
		t.Logf("block %d, %.1f s:\n%s\n%s", index+1, time.Since(started).Seconds(), block.text, output)
		said[fmt.Sprintf("block %d", index+1)] = output
	}
	if len(placeholders) > 0 {
		t.Errorf("the README has no %q", placeholders[0].placeholder)
	}
	if reader.pod == nil {
		t.Fatal("nothing runs ExternalDNS")
	}

	reader.awaitServed(t, "http://shop.shop.svc.cluster.local:80")
	t.Logf("visitors of %v reach the reader's own Service %.1f s after the first command", reader.hostnames,
		time.Since(begun).Seconds())
	said["the program"], said["ExternalDNS"] = reader.pod.program.Output(t), reader.pod.Output(t)
	said["the API server"] = cluster.Output(t)
	for index, replica := range reader.replicas {
		said[fmt.Sprintf("init container %d", index)] = replica.fetching.Output(t)
	}
	cluster.keepsSecrets(t, said)
}

var (
	// A command that is the kubelet's to answer.
	aboutContainers = regexp.MustCompile(`^kubectl -n (\S+) (logs|exec)(?: -it)? deploy(?:ment)?/(\S+) -c (\S+)(?: -- (.+))?$`)
	// A visit.
	opens = regexp.MustCompile(`^curl https://([^/\s]+)(/\S*)?$`)
	// An object that is published already gets another service.
	retargets = regexp.MustCompile(`(?m)^kubectl annotate .*/target=(\S+)$`)
)

// follows does what a block says, and what a cluster does about it. It gives what that said.
func (n *newcomer) follows(t *testing.T, block fence) string {
	t.Helper()
	switch {
	case block.language == "yaml":
		output := n.types(t, "kubectl apply --filename - <<'END'\n"+block.text+"END")
		n.hostnames = hostnamesOf(block.text)
		n.awaitServed(t, serviceNamedIn(t, block.text))
		return output
	case block.language != "sh":
		t.Fatalf("it is not said how to follow a block of %q:\n%s", block.language, block.text)
	case opens.MatchString(strings.TrimSpace(block.text)):
		visited := opens.FindStringSubmatch(strings.TrimSpace(block.text))
		seen := n.cloudflare.Visit(t, visited[1], "/"+strings.TrimPrefix(visited[2], "/"))
		if !strings.HasSuffix(seen, " through "+n.home.ID) {
			t.Errorf("%s gets %s", block.text, seen)
		}
		return seen
	case retargets.MatchString(block.text):
		output := n.types(t, block.text)
		n.awaitServed(t, retargets.FindStringSubmatch(block.text)[1])
		return output
	case !regexp.MustCompile(`(?m)^kubectl .*\b(logs|exec)\b`).MatchString(block.text):
		output := n.types(t, block.text)
		n.startPods(t)
		return output
	}
	var output strings.Builder
	// A line that ends in a backslash goes on.
	for line := range strings.Lines(strings.ReplaceAll(block.text, "\\\n", "")) {
		command := aboutContainers.FindStringSubmatch(strings.TrimSpace(line))
		if command == nil {
			t.Fatalf("it is not said how to play %q", line)
		}
		output.WriteString(n.asksContainer(t, command[1]+"/"+command[3]+"/"+command[4], command[2], command[5]))
	}
	return output.String()
}

// startPods does what controllers and kubelets do about the Deployments that are new.
func (n *newcomer) startPods(t *testing.T) {
	t.Helper()
	deployments := n.deployments(t)
	for _, each := range deployments {
		switch name := each.GetName(); {
		case name == "cloudflared" && n.replicas == nil:
			n.replicas = n.fetchRunTokens(t, deployments)
			n.oneTunnelIsNamed(t, tunnelName)
			n.haveOneToken(t, n.replicas)
			for _, replica := range n.replicas {
				if err := n.connects(t, replica); err != nil {
					t.Fatal(err)
				}
			}
		case name == ownName && n.pod == nil:
			n.pod = n.runWebhook(t, deployments)
			n.pod.runExternalDNS(t)
			n.pod.program.AwaitReady(t)
		case name != "cloudflared" && name != ownName:
			t.Fatalf("it is not said how to play the Deployment %s", name)
		}
	}
}

// serviceNamedIn is the service that the annotation of a manifest names.
func serviceNamedIn(t *testing.T, manifest string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)/target: (\S+)$`).FindStringSubmatch(manifest)
	if found == nil {
		t.Fatalf("no annotation names a service:\n%s", manifest)
	}
	return found[1]
}

// awaitServed awaits that visitors reach this service. ExternalDNS looks every minute, as the chart has it.
func (n *newcomer) awaitServed(t *testing.T, service string) {
	t.Helper()
	if len(n.hostnames) == 0 {
		t.Fatal("no object has a hostname")
	}
	for _, hostname := range n.hostnames {
		harness.EventuallyWithin(t, 2*patience, hostname+" is published", func() error {
			n.pod.Alive(t)
			if seen := n.cloudflare.Visit(t, hostname, "/"); seen != service+" through "+n.home.ID {
				return fmt.Errorf("a visitor gets %s", seen)
			}
			return nil
		})
	}
}

// asksContainer does what `kubectl logs` and `kubectl exec` do, on the process that stands for the container.
func (n *newcomer) asksContainer(t *testing.T, name, verb, command string) string {
	t.Helper()
	if n.pod == nil || name != ownNamespace+"/"+ownName+"/webhook" {
		t.Fatalf("there is no container %s", name)
	}
	if verb == "logs" {
		// A visitor may be served before the line is written.
		harness.Eventually(t, "the log has a line for what was written", func() error {
			for _, hostname := range n.hostnames {
				if !strings.Contains(n.pod.program.Output(t), hostname) {
					return errors.New("not yet")
				}
			}
			return nil
		})
		return n.pod.program.Output(t)
	}
	words := strings.Fields(command)
	if len(words) == 0 || words[0] != entrypoint {
		t.Fatalf("the image has no %q", command)
	}
	asked := n.pod.program.Exec(t, words[1:]...)
	if code := asked.ExitCode(t); code != 0 {
		t.Errorf("%s ends with %d:\n%s", command, code, asked.Output(t))
	}
	return asked.Output(t)
}
