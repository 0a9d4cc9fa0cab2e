package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	compose "github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// cloudflared is its Deployment among the objects, with its two containers.
func cloudflared(t *testing.T, objects []runtime.Object) (deployment *apps.Deployment, initial, running core.Container) {
	t.Helper()
	deployment = named[*apps.Deployment](t, objects, cloudflaredName)
	pod := deployment.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("containers %v and %v", pod.InitContainers, pod.Containers)
	}
	return deployment, pod.InitContainers[0], pod.Containers[0]
}

// TestCloudflaredIsNeverGone: two pods, of which an update takes none before another is ready, nor a drained node both.
func TestCloudflaredIsNeverGone(t *testing.T) {
	objects := helmTemplate(t)
	deployment, _, running := cloudflared(t, objects)
	if *deployment.Spec.Replicas != 2 {
		t.Errorf("%d replicas", *deployment.Spec.Replicas)
	}
	// The edge takes its time to know of a connection.
	if deployment.Spec.MinReadySeconds != 10 {
		t.Errorf("a pod counts after %d seconds", deployment.Spec.MinReadySeconds)
	}
	strategy := deployment.Spec.Strategy
	if strategy.Type != apps.RollingUpdateDeploymentStrategyType || strategy.RollingUpdate.MaxUnavailable.String() != "0" ||
		strategy.RollingUpdate.MaxSurge.String() != "1" {
		t.Errorf("strategy %+v", strategy)
	}
	budget := named[*policy.PodDisruptionBudget](t, objects, cloudflaredName)
	if budget.Spec.MaxUnavailable.String() != "1" || budget.Spec.MinAvailable != nil {
		t.Errorf("budget %+v", budget.Spec)
	}
	probe := running.ReadinessProbe
	if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/ready" || probe.HTTPGet.Port.StrVal != "metrics" {
		t.Errorf("readiness %+v", probe)
	}
	// A pod without Cloudflare is not to be started again: that would bring nothing back.
	if running.LivenessProbe != nil || running.StartupProbe != nil {
		t.Error("it has a probe that restarts it")
	}
	if len(running.Ports) != 1 || running.Ports[0].Name != "metrics" ||
		flagsOfCloudflared(t, running.Args)["--metrics"] != fmt.Sprintf("0.0.0.0:%d", running.Ports[0].ContainerPort) {
		t.Errorf("ports %+v, arguments %q", running.Ports, running.Args)
	}
}

// selectors are all that choose the pods of one of cloudflared's Deployments.
func selectors(t *testing.T, objects []runtime.Object, name string) map[string]labels.Selector {
	t.Helper()
	deployment := named[*apps.Deployment](t, objects, name)
	spread := deployment.Spec.Template.Spec.TopologySpreadConstraints
	if len(spread) != 1 || spread[0].WhenUnsatisfiable != core.ScheduleAnyway {
		t.Fatalf("spread %+v", spread)
	}
	return map[string]labels.Selector{
		"the Deployment": selectorOf(t, deployment.Spec.Selector),
		"the budget":     selectorOf(t, named[*policy.PodDisruptionBudget](t, objects, name).Spec.Selector),
		"the spread":     selectorOf(t, spread[0].LabelSelector),
	}
}

func selectorOf(t *testing.T, selector *meta.LabelSelector) labels.Selector {
	t.Helper()
	selects, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return selects
}

func podLabels(t *testing.T, objects []runtime.Object, name string) labels.Set {
	t.Helper()
	return named[*apps.Deployment](t, objects, name).Spec.Template.Labels
}

// TestEachDeploymentHasPodsOfItsOwn: ExternalDNS, cloudflared, and that of a second tunnel. The policy of cloudflared is of both.
func TestEachDeploymentHasPodsOfItsOwn(t *testing.T) {
	objects := helmTemplate(t, "global.tunnel=homelab\\,Second_One", "cloudflared.moreTunnels={Second_One}")
	const second = "cloudflared-second-one"
	choosing := map[string]map[string]labels.Selector{
		ownName: {
			"the Deployment": selectorOf(t, named[*apps.Deployment](t, objects, ownName).Spec.Selector),
			"the policy":     selectorOf(t, &named[*networking.NetworkPolicy](t, objects, ownName).Spec.PodSelector),
		},
		cloudflaredName: selectors(t, objects, cloudflaredName),
		second:          selectors(t, objects, second),
	}
	for own, all := range choosing {
		for what, selects := range all {
			for other := range choosing {
				if selects.Empty() || selects.Matches(podLabels(t, objects, other)) != (own == other) {
					t.Errorf("%s of %s selects %s, and pods of %s have %s", what, own, selects, other, podLabels(t, objects, other))
				}
			}
		}
	}
	ofCloudflared := selectorOf(t, &named[*networking.NetworkPolicy](t, objects, cloudflaredName).Spec.PodSelector)
	for name := range choosing {
		if ofCloudflared.Matches(podLabels(t, objects, name)) == (name == ownName) {
			t.Errorf("the policy selects %s, and pods of %s have %s", ofCloudflared, name, podLabels(t, objects, name))
		}
	}

	// A flag counts before the variable, which names both.
	arguments := named[*apps.Deployment](t, objects, second).Spec.Template.Spec.InitContainers[0].Args
	if !slices.Contains(arguments, "--cf-tunnel-id=Second_One") {
		t.Errorf("the second tunnel's pods are given %q", arguments)
	}
}

// TestCloudflaredsPodIsConfined: as one user without privileges, with no token for the cluster's API, and with the API token
// out of reach of what is published.
func TestCloudflaredsPodIsConfined(t *testing.T) {
	deployment, initial, running := cloudflared(t, helmTemplate(t))
	pod := deployment.Spec.Template.Spec
	if mounts := pod.AutomountServiceAccountToken; mounts == nil || *mounts || pod.ServiceAccountName != "" {
		t.Errorf("the service account %q has its token mounted", pod.ServiceAccountName)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || pod.ShareProcessNamespace != nil {
		t.Error("it shares what is not its own")
	}
	context := pod.SecurityContext
	if !*context.RunAsNonRoot || *context.RunAsUser != 65532 || *context.RunAsGroup != 65532 || *context.FSGroup != 65532 ||
		context.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context %+v", context)
	}
	for _, each := range []core.Container{initial, running} {
		// The user is the pod's: the token's file is for its owner alone.
		if each.SecurityContext.RunAsUser != nil || each.SecurityContext.RunAsGroup != nil {
			t.Errorf("%s has a user of its own", each.Name)
		}
		effective := each.SecurityContext.DeepCopy()
		effective.RunAsUser = context.RunAsUser
		confined(t, effective)
		if each.Resources.Limits.Memory().IsZero() || each.Resources.Requests.Cpu().IsZero() {
			t.Errorf("resources of %s: %+v", each.Name, each.Resources)
		}
	}

	mounted(t, pod, initial)
	holders := map[string]string{}
	for _, each := range []core.Container{initial, running} {
		for _, mount := range each.VolumeMounts {
			if holders[mount.Name] += " " + each.Name; mount.ReadOnly {
				holders[mount.Name] += " reads"
			}
		}
	}
	if wanted := map[string]string{
		"cloudflare": " tunnel reads", "tunnel-token": " tunnel cloudflared reads",
	}; !maps.Equal(holders, wanted) {
		t.Errorf("mounted are %v, wanted %v", holders, wanted)
	}
	index := slices.IndexFunc(pod.Volumes, func(volume core.Volume) bool { return volume.Name == "tunnel-token" })
	if len(pod.Volumes) != 2 || index < 0 || pod.Volumes[index].EmptyDir == nil ||
		pod.Volumes[index].EmptyDir.Medium != core.StorageMediumMemory || pod.Volumes[index].EmptyDir.SizeLimit.IsZero() {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	if len(running.Env) > 0 || len(running.EnvFrom) > 0 {
		t.Errorf("cloudflared has %+v", running.Env)
	}
	if limit := initial.Resources.Limits.Memory(); limit.Value() != 32<<20 {
		t.Errorf("memory limit %s", limit)
	}
}

// TestTheTunnelsTokenIsWrittenWhereCloudflaredReadsIt: the program takes the arguments and goes on to the API, which is not
// there; and cloudflared is told the same file, in its own order.
func TestTheTunnelsTokenIsWrittenWhereCloudflaredReadsIt(t *testing.T) {
	objects := helmTemplate(t)
	_, initial, running := cloudflared(t, objects)
	project := composeProject(t)
	writing, reading := project.Services["tunnel"], project.Services["cloudflared"]
	for name, each := range map[string]struct {
		environment map[string]string
		arguments   []string
		folders     map[string]string // of the writer: where a volume or a folder is mounted
		read        string
		readFolders map[string]string
	}{
		"Kubernetes": {
			variablesOf(t, objects, initial), initial.Args, mounts(initial), flagsOfCloudflared(t, running.Args)["--token-file"], mounts(running),
		},
		"compose": {
			variables(writing), writing.Command, binds(t, writing), variables(reading)["TUNNEL_TOKEN_FILE"], binds(t, reading),
		},
	} {
		t.Run(name, func(t *testing.T) {
			written := ""
			for _, argument := range each.arguments {
				if path, is := strings.CutPrefix(argument, "--token-file="); is {
					written = path
				}
			}
			for volume, folder := range each.folders {
				if filepath.Dir(written) == folder && filepath.Dir(each.read) != each.readFolders[volume] {
					t.Errorf("written is %s into %s, read is %s", written, volume, each.read)
				}
			}
			if written == "" || filepath.Base(written) != filepath.Base(each.read) || !slices.Contains(slices.Collect(maps.Values(each.folders)), filepath.Dir(written)) {
				t.Errorf("written is %q, read is %q", written, each.read)
			}

			folder := t.TempDir()
			arguments := slices.Clone(each.arguments)
			for index, argument := range arguments {
				arguments[index] = strings.Replace(argument, filepath.Dir(written), folder, 1)
			}
			command := command(t, each.environment, arguments)
			var said bytes.Buffer
			command.Stdout, command.Stderr = &said, &said
			if err := command.Run(); command.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "Cloudflare not reached") {
				t.Errorf("without an API it ends with %v:\n%s", err, &said)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v, %v", left, err)
			}
		})
	}
	if flags := flagsOfCloudflared(t, reading.Command); len(flags) != 1 {
		t.Errorf("compose gives cloudflared %v", flags)
	}
}

// flagsOfCloudflared are the flags of `cloudflared tunnel … run …`. It knows each of them only where it stands here: one of
// `run` before that word is "flag provided but not defined".
func flagsOfCloudflared(t *testing.T, arguments []string) map[string]string {
	t.Helper()
	run := slices.Index(arguments, "run")
	if run < 1 || arguments[0] != "tunnel" {
		t.Fatalf("cloudflared is run with %q", arguments)
	}
	flags := map[string]string{}
	for index, argument := range arguments {
		flag, value, _ := strings.Cut(argument, "=")
		switch {
		case index == 0 || index == run:
			continue
		case index < run && slices.Contains([]string{"--no-autoupdate", "--metrics"}, flag):
		case index > run && flag == "--token-file":
		default:
			t.Errorf("cloudflared does not know %s at this place of %q", flag, arguments)
		}
		flags[flag] = value
	}
	if _, is := flags["--no-autoupdate"]; !is {
		t.Errorf("an update would replace the program in a read-only image: %q", arguments)
	}
	return flags
}

// mounts are the folders of a container, by volume.
func mounts(each core.Container) map[string]string {
	folders := map[string]string{}
	for _, mount := range each.VolumeMounts {
		folders[mount.Name] = mount.MountPath
	}
	return folders
}

// binds are the folders of a service, by the machine's folder, which has to be made with the right owner before.
func binds(t *testing.T, service compose.ServiceConfig) map[string]string {
	t.Helper()
	folders := map[string]string{}
	for _, mount := range service.Volumes {
		if mount.Type != "bind" || mount.Bind == nil || bool(mount.Bind.CreateHostPath) {
			t.Errorf("%s mounts %+v", service.Name, mount)
		}
		folders[mount.Source] = mount.Target
	}
	return folders
}

func variables(service compose.ServiceConfig) map[string]string {
	environment := map[string]string{}
	for name, value := range service.Environment {
		environment[name] = *value
	}
	return environment
}

// TestComposeRunsCloudflaredBesideTheWebhook as the chart does: with the tunnel's token alone, out of the network of
// the webhook, and only after the token is there.
func TestComposeRunsCloudflaredBesideTheWebhook(t *testing.T) {
	project := composeProject(t)
	tunnel, running := project.Services["tunnel"], project.Services["cloudflared"]
	holders := map[string]string{}
	for name, service := range project.Services {
		for _, secret := range service.Secrets {
			holders[secret.Source] += name + " "
		}
		if service.User != "65532:65532" {
			t.Errorf("%s is of user %q", name, service.User)
		}
	}
	if holders["kubeconfig"] != "external-dns " || !slices.Contains([]string{"tunnel webhook ", "webhook tunnel "}, holders["cloudflare-api-token"]) {
		t.Errorf("the secrets are given to %v", holders)
	}
	if variables(tunnel)["CF_API_TOKEN_FILE"] != "/run/secrets/cloudflare-api-token" {
		t.Errorf("the API token is read from %s", variables(tunnel)["CF_API_TOKEN_FILE"])
	}
	if running.NetworkMode != "" || len(running.Ports) > 0 {
		t.Errorf("cloudflared is in the network %q, with the ports %v", running.NetworkMode, running.Ports)
	}
	if awaited := running.DependsOn["tunnel"].Condition; awaited != compose.ServiceConditionCompletedSuccessfully {
		t.Errorf("cloudflared awaits %q", awaited)
	}
	if tunnel.Restart != "on-failure" || tunnel.MemLimit != 32<<20 {
		t.Errorf("restart %s, memory limit %d", tunnel.Restart, tunnel.MemLimit)
	}
	for _, mount := range running.Volumes {
		if !mount.ReadOnly {
			t.Errorf("cloudflared may write %s", mount.Target)
		}
		// The file says how to make the folder.
		making := "install -d -m 0700 -o 65532 -g 65532 " + filepath.Base(mount.Source) + "\n"
		if !bytes.Contains(read(t, "compose.yaml"), []byte(making)) {
			t.Errorf("it is not said how to make %s", mount.Source)
		}
	}
}

// TestAllFilesNameTheSame image of the program and of cloudflared, and the same tunnel and domain to be replaced.
func TestAllFilesNameTheSame(t *testing.T) {
	type told struct{ image, tunnel, domain string }
	tell := func(image string, environment map[string]string) told {
		return told{image, environment["CF_TUNNEL_ID"], environment["DOMAIN_FILTER"]}
	}
	objects, project := kustomizeBuild(t, "kustomize"), composeProject(t)
	webhook := container(t, named[*apps.Deployment](t, objects, ownName), "webhook")
	_, initial, running := cloudflared(t, objects)
	wanted := tell(webhook.Image, variablesOf(t, objects, webhook))
	for name, each := range map[string]told{
		"the init container": tell(initial.Image, variablesOf(t, objects, initial)),
		"compose's webhook":  tell(project.Services["webhook"].Image, variables(project.Services["webhook"])),
		"compose's tunnel":   tell(project.Services["tunnel"].Image, variables(project.Services["tunnel"])),
	} {
		if each != wanted || each.tunnel == "" || each.domain == "" {
			t.Errorf("%s names %+v, the webhook of kustomize %+v", name, each, wanted)
		}
	}
	if theirs := project.Services["cloudflared"].Image; running.Image != theirs ||
		!regexp.MustCompile(`^cloudflare/cloudflared:\d+\.\d+\.\d+$`).MatchString(theirs) {
		t.Errorf("cloudflared is %s in the pod and %s in compose", running.Image, theirs)
	}
	theirs := container(t, named[*apps.Deployment](t, objects, ownName), "external-dns").Image
	if ours := project.Services["external-dns"].Image; ours != theirs {
		t.Errorf("ExternalDNS is %s in the pod and %s in compose", theirs, ours)
	}
}

// TestThePolicyLetsCloudflaredReachNoMoreThanItServes: names, Cloudflare at public addresses, and pods of other namespaces than
// the one that has the API token.
func TestThePolicyLetsCloudflaredReachNoMoreThanItServes(t *testing.T) {
	objects := helmTemplate(t)
	deployment, _, running := cloudflared(t, objects)
	spec := named[*networking.NetworkPolicy](t, objects, cloudflaredName).Spec
	if !slices.Equal(spec.PolicyTypes, []networking.PolicyType{"Ingress", "Egress"}) {
		t.Errorf("the policy is about %v", spec.PolicyTypes)
	}
	if len(spec.Ingress) != 1 || len(spec.Ingress[0].Ports) != 1 || spec.Ingress[0].Ports[0].Port.StrVal != running.Ports[0].Name {
		t.Errorf("let in is %+v", spec.Ingress)
	}
	allowed := map[string]string{}
	for _, rule := range spec.Egress {
		var ports []string
		for _, port := range rule.Ports {
			ports = append(ports, fmt.Sprintf("%s %s", *port.Protocol, port.Port))
		}
		peers := []string{}
		for _, peer := range rule.To {
			switch {
			case peer.IPBlock != nil:
				peers = append(peers, peer.IPBlock.CIDR)
				publicOnly(t, peer.IPBlock)
			case peer.NamespaceSelector != nil && peer.PodSelector == nil:
				peers = append(peers, meta.FormatLabelSelector(peer.NamespaceSelector))
			default:
				t.Errorf("let out is %+v", peer)
			}
		}
		allowed[strings.Join(peers, ", ")] = strings.Join(ports, ", ")
	}
	if wanted := map[string]string{
		"":                "UDP 53, TCP 53, UDP 5353, TCP 5353",
		"0.0.0.0/0, ::/0": "UDP 7844, TCP 7844, TCP 443",
		"kubernetes.io/metadata.name notin (" + deployment.Namespace + ")": "",
	}; !maps.Equal(allowed, wanted) {
		t.Errorf("let out are %v, wanted %v", allowed, wanted)
	}
}

// TestAMachineIsLetOutToAtItsPortBesideThePods: without a port the policy would open a node's kubelet.
func TestAMachineIsLetOutToAtItsPortBesideThePods(t *testing.T) {
	before := named[*networking.NetworkPolicy](t, helmTemplate(t), cloudflaredName).Spec.Egress
	egress := named[*networking.NetworkPolicy](t, helmTemplate(t,
		"networkPolicy.machines[0].address=192.168.1.20,networkPolicy.machines[0].port=8123",
		"networkPolicy.machines[1].address=fd00::20,networkPolicy.machines[1].port=443",
		"networkPolicy.machines[2].address=192.168.2.0/24,networkPolicy.machines[2].port=80"), cloudflaredName).Spec.Egress
	if len(egress) != len(before)+3 || !reflect.DeepEqual(egress[:len(before)], before) {
		t.Fatalf("let out is %+v", egress)
	}
	for index, wanted := range []string{"192.168.1.20/32 TCP 8123", "fd00::20/128 TCP 443", "192.168.2.0/24 TCP 80"} {
		rule := egress[len(before)+index]
		if len(rule.To) != 1 || len(rule.Ports) != 1 || rule.To[0].IPBlock == nil {
			t.Fatalf("let out is %+v", rule)
		}
		if told := fmt.Sprintf("%s %s %s", rule.To[0].IPBlock.CIDR, *rule.Ports[0].Protocol, rule.Ports[0].Port); told != wanted {
			t.Errorf("let out is %s, wanted %s", told, wanted)
		}
	}
}

// publicOnly checks that no address of a private network, of the machine's own or of a cloud's metadata is in a block.
func publicOnly(t *testing.T, block *networking.IPBlock) {
	t.Helper()
	contains := func(text string, address net.IP) bool {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return network.Contains(address)
	}
	for _, text := range []string{
		"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1", "100.127.255.255",
		"169.254.169.254", "fc00::1", "fdff::1", "fd00:ec2::254", "fe80::1", "febf::1",
	} {
		address := net.ParseIP(text)
		excepted := slices.ContainsFunc(block.Except, func(except string) bool { return contains(except, address) })
		if contains(block.CIDR, address) && !excepted {
			t.Errorf("%s is let out to", text)
		}
	}
	for _, text := range []string{
		"198.41.192.7", "104.19.192.29", "2606:4700:a0::1",
		"9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
	} {
		address := net.ParseIP(text)
		if slices.ContainsFunc(block.Except, func(except string) bool { return contains(except, address) }) {
			t.Errorf("%s, of Cloudflare or of the internet, is kept from", text)
		}
	}
}
