package deploy

import (
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
	apps "k8s.io/api/apps/v1"
	networking "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestASecondReleaseForAnotherAccountSharesNoNameOfTheCluster: with the guide's values all names that it reads are its own.
func TestASecondReleaseForAnotherAccountSharesNoNameOfTheCluster(t *testing.T) {
	_, section, found := strings.Cut(string(read(t, "..", "docs", "guides.md")), "\n## Several accounts\n")
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindStringSubmatch(section)
	if !found || block == nil {
		t.Fatal("there is no such guide")
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(block[1]), &values); err != nil {
		t.Fatal(err)
	}
	image := "external-dns.provider.webhook.image.repository=registry.example.com/webhook"
	if err := strvals.ParseInto(image, values); err != nil {
		t.Fatal(err)
	}
	other, first := helmTemplateOf(t, values), helmTemplate(t)
	for name := range clusterWide(other) {
		if clusterWide(first)[name] {
			t.Errorf("both releases have %s", name)
		}
	}
	if len(clusterWide(other)) == 0 {
		t.Error("the release has no role in the cluster")
	}

	const otherName = "external-dns-other"
	deployment := named[*apps.Deployment](t, other, otherName)
	webhook := variablesOf(t, other, container(t, deployment, "webhook"))
	if webhook["DOMAIN_FILTER"] != "example.net" || webhook["CF_TUNNEL_ID"] != "homelab" {
		t.Errorf("the webhook has %v", webhook)
	}
	for _, each := range named[*apps.Deployment](t, other, cloudflaredName).Spec.Template.Spec.InitContainers {
		if told := variablesOf(t, other, each); told["CF_TUNNEL_ID"] != "homelab" {
			t.Errorf("the init container has %v", told)
		}
	}
	policy := named[*networking.NetworkPolicy](t, other, otherName)
	if !selectorOf(t, &policy.Spec.PodSelector).Matches(labels.Set(podLabels(t, other, otherName))) {
		t.Errorf("the policy does not select the pod of %s", otherName)
	}
	if prefix := externalDNS(t, container(t, deployment, "external-dns").Args).AnnotationPrefix; prefix != "other.example.net/" {
		t.Errorf("the prefix is %q", prefix)
	}
}

// clusterWide are the names of objects that no namespace holds.
func clusterWide(objects []runtime.Object) map[string]bool {
	names := map[string]bool{}
	for _, object := range objects {
		switch object.(type) {
		case *rbac.ClusterRole, *rbac.ClusterRoleBinding:
			names[object.GetObjectKind().GroupVersionKind().Kind+" "+object.(meta.Object).GetName()] = true
		}
	}
	return names
}
