// Package render makes of deploy/ what helm and kustomize make of it, with their own libraries.
package render

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Chart is the official one, in the sources of a release of ExternalDNS.
type Chart struct {
	Version, module, sum string
}

// Charts are those of two releases; a release's sources hold the chart that installs the release before it.
var Charts = []Chart{
	{"1.21.1", "sigs.k8s.io/external-dns@v0.22.0", "h1:+ASJ3KF7DLqHo2LsG8Qinuh2J389MS86I19i/r8ewUc="},
	{"1.22.0", "sigs.k8s.io/external-dns@v0.23.0", "h1:35KyAZtLN8o5nIE0aPKfyhILbf5HHkKPJby/4FowPJM="},
}

// Load fetches the module through Go's proxy. The module may want a newer Go than is there; Go then says so, and tells where
// the archive is all the same.
func (c Chart) Load() (*chart.Chart, error) {
	command := exec.Command("go", "mod", "download", "-json", c.module)
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	output, _ := command.Output()
	var downloaded struct{ Zip, Sum string }
	if err := json.Unmarshal(output, &downloaded); err != nil || downloaded.Sum != c.sum {
		return nil, fmt.Errorf("go mod download %s: %v: %s", c.module, err, output)
	}
	archive, err := zip.OpenReader(downloaded.Zip)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	var files []*loader.BufferedFile
	for _, file := range archive.File {
		name, inside := strings.CutPrefix(file.Name, c.module+"/charts/external-dns/")
		if !inside {
			continue
		}
		text, err := fs.ReadFile(archive, file.Name)
		if err != nil {
			return nil, err
		}
		files = append(files, &loader.BufferedFile{Name: name, Data: text})
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil || loaded.Metadata.Version != c.Version {
		return nil, fmt.Errorf("the chart of %s: %v, %+v", c.module, err, loaded)
	}
	return loaded, nil
}

// Helm is `helm template` with these values files, one over the other, and more values over them all. The chart's schema
// judges them. The result has the text of each template by its name.
func Helm(official *chart.Chart, more map[string]any, files ...string) (map[string]string, error) {
	merged := map[string]any{}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		merged = chartutil.MergeTables(values, merged)
	}
	merged = chartutil.MergeTables(more, merged)
	release := chartutil.ReleaseOptions{Name: "external-dns-tunnel", Namespace: "external-dns", IsInstall: true}
	values, err := chartutil.ToRenderValues(official, merged, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", files, err)
	}
	rendered, err := engine.Render(official, values)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", files, err)
	}
	for name := range rendered {
		if filepath.Ext(name) != ".yaml" {
			delete(rendered, name) // what helm says to whoever installs
		}
	}
	return rendered, nil
}

// Kustomize is `kustomize build` of the folder.
func Kustomize(folder string) ([]byte, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	return built.AsYaml()
}
