// Takes the official chart into deploy/chart as it is in a version of ExternalDNS's module, the settings into our chart's schema
// as the program that WEBHOOK_BINARY names has them, lists the official chart's values, and makes deploy/kustomize of our chart.
//
//	renew <deploy/> <version of ExternalDNS>
//	renew <deploy/>
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "error: renew <deploy/> [<version of ExternalDNS>]")
		os.Exit(1)
	}
	err := error(nil)
	if len(os.Args) == 3 {
		err = renewOfficial(filepath.Join(os.Args[1], "chart"), "sigs.k8s.io/external-dns@"+os.Args[2])
	}
	if err == nil {
		err = errors.Join(renewKnown(filepath.Join(os.Args[1], "chart")), renewSchema(filepath.Join(os.Args[1], "chart")))
	}
	if err == nil {
		err = renewKustomize(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func renewOfficial(chart, module string) error {
	sum, files, err := render.Official(module)
	if err != nil {
		return err
	}
	folder := filepath.Join(chart, render.OfficialFolder)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
			return err
		}
	}
	metadata, err := chartutil.LoadChartfile(filepath.Join(folder, chartutil.ChartfileName))
	if err != nil {
		return err
	}
	digest, err := render.Digest(folder)
	if err != nil {
		return err
	}
	origin, err := yaml.Marshal(render.Origin{
		Version: metadata.Version, Licence: "Apache-2.0", Module: module, Sum: sum, Digest: digest,
	})
	if err != nil {
		return err
	}
	const head = "# Where external-dns/ comes from; `just chart-renew <version of ExternalDNS>` makes both anew. They are the project's own files,\n" +
		"# but those that the chart's .helmignore leaves out. The licence's text is LICENSE-APACHE at the top of this repository.\n" +
		"# The digest: find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum\n"
	return os.WriteFile(filepath.Join(chart, render.OriginFile), append([]byte(head), origin...), 0o644)
}

func renewKnown(chart string) error {
	made, err := render.Known(chart)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(chart, render.KnownFile), made, 0o644)
}

func renewSchema(chart string) error {
	made, err := render.Schema(chart, os.Getenv("WEBHOOK_BINARY"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(chart, render.SchemaFile), made, 0o644)
}

func renewKustomize(deploy string) error {
	made, err := render.ForKustomize(deploy)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(deploy, "kustomize", render.Release+".yaml"), made, 0o644)
}
