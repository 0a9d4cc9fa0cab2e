// What helm and kustomize make of deploy/, for tests that apply it.
//
//	manifests kustomize <folder>
//	manifests helm <folder of the chart> <values as JSON, each over those before it>...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v3/pkg/chartutil"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

func main() {
	text, err := made(os.Args[1:])
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func made(arguments []string) ([]byte, error) {
	switch {
	case len(arguments) == 2 && arguments[0] == "kustomize":
		return render.Kustomize(arguments[1])
	case len(arguments) >= 3 && arguments[0] == "helm":
		merged := map[string]any{}
		for _, text := range arguments[2:] {
			var values map[string]any
			if err := json.Unmarshal([]byte(text), &values); err != nil {
				return nil, fmt.Errorf("%s: %w", text, err)
			}
			merged = chartutil.MergeTables(values, merged)
		}
		return render.Helm(arguments[1], render.Release, merged)
	default:
		return nil, errors.New("kustomize <folder>, or helm <folder> <values>...")
	}
}
