// Package render makes of deploy/ what helm and kustomize make of it, with their own libraries.
package render

import (
	"fmt"
	"path/filepath"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The names of the README's quick start.
const (
	Release   = "external-dns-tunnel"
	Namespace = "external-dns"
)

// Helm is `helm template` of the chart in a folder, as this release. The schemas judge the values.
func Helm(folder, release string, values map[string]any) ([]byte, error) {
	made, err := helm(folder, release, values)
	if err != nil {
		return nil, err
	}
	return []byte(made.Manifest), nil
}

// Notes is what `helm install` prints of the chart.
func Notes(folder string, values map[string]any) (string, error) {
	made, err := helm(folder, Release, values)
	if err != nil {
		return "", err
	}
	return made.Info.Notes, nil
}

func helm(folder, name string, values map[string]any) (*release.Release, error) {
	loaded, err := loader.LoadDir(folder)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{})
	install.ClientOnly, install.DryRun, install.Replace = true, true, true
	install.ReleaseName, install.Namespace = name, Namespace
	return install.Run(loaded, values)
}

// ForKustomize is what deploy/kustomize has of the chart, with that folder's values.
func ForKustomize(deploy string) ([]byte, error) {
	values, err := chartutil.ReadValuesFile(filepath.Join(deploy, "kustomize", "values.yaml"))
	if err != nil {
		return nil, err
	}
	made, err := Helm(filepath.Join(deploy, "chart"), Release, values)
	return append([]byte("# Made of deploy/chart by `just chart-renew`, with values.yaml beside it.\n"), made...), err
}

// Kustomize is `kustomize build` of the folder.
func Kustomize(folder string) ([]byte, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return built.AsYaml()
}
