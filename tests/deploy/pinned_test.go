package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const githubFolder = "../../.github"

// TestWhatIsPinnedIsRaised: Dependabot is told of every Go module, and of the crates and the actions.
func TestWhatIsPinnedIsRaised(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(githubFolder, "dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	type settings map[string]any
	var told struct {
		Version int `json:"version"`
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
			Schedule    settings `json:"schedule"`
			Cooldown    settings `json:"cooldown"`
			Groups      settings `json:"groups"`
		} `json:"updates"`
	}
	if err := yaml.UnmarshalStrict(text, &told); err != nil || told.Version != 2 {
		t.Fatalf("%v, version %d", err, told.Version)
	}
	modules, err := filepath.Glob("../*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("%v: %v", modules, err)
	}
	wanted := []string{"cargo /", "github-actions /"}
	for _, module := range modules {
		wanted = append(wanted, "gomod /tests/"+filepath.Base(filepath.Dir(module)))
	}
	var raised []string
	for _, update := range told.Updates {
		for _, directory := range update.Directories {
			raised = append(raised, update.Ecosystem+" "+directory)
		}
	}
	slices.Sort(wanted)
	slices.Sort(raised)
	if !slices.Equal(raised, wanted) {
		t.Errorf("raised are %v, and there are %v", raised, wanted)
	}
}

// TestEveryActionIsPinnedByItsHash: a tag can be moved by the owner of the action's repository.
func TestEveryActionIsPinnedByItsHash(t *testing.T) {
	workflows, err := filepath.Glob(filepath.Join(githubFolder, "workflows", "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	uses := 0
	for _, workflow := range workflows {
		text, err := os.ReadFile(workflow)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if !strings.Contains(line, "uses:") {
				continue
			}
			uses++
			if !pinned.MatchString(line) {
				t.Errorf("%s: %s", workflow, line)
			}
		}
	}
	if len(workflows) < 3 || uses < 8 {
		t.Errorf("%d uses in %v", uses, workflows)
	}
}

// TestTheTestsRunTheCloudflaredThatIsDeployed: Dependabot raises neither.
func TestTheTestsRunTheCloudflaredThatIsDeployed(t *testing.T) {
	versions := map[string]string{}
	for file, version := range map[string]*regexp.Regexp{
		filepath.Join(githubFolder, "workflows", "ci.yml"): regexp.MustCompile(`(?m)^  CLOUDFLARED_VERSION: (\S+)$`),
		"../../deploy/compose.yaml":                        regexp.MustCompile(`image: cloudflare/cloudflared:(\S+)`),
		"../../deploy/chart/values.yaml":                   regexp.MustCompile(`cloudflare/cloudflared\n    tag: (\S+)`),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := version.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s names no version of cloudflared", file)
		}
		versions[string(found[1])] = file
	}
	if len(versions) != 1 {
		t.Errorf("the versions of cloudflared differ: %v", versions)
	}
}
