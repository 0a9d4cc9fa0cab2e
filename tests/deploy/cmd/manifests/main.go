// What helm and kustomize make of deploy/, for tests that apply it.
//
//	manifests kustomize <folder>
//	manifests helm <version of the chart> <more values as JSON> <values file>...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"external-dns-cloudflare-tunnel-webhook/deploy/render"
)

func main() {
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(output io.Writer, arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "kustomize":
		text, err := render.Kustomize(arguments[1])
		if err != nil {
			return err
		}
		_, err = output.Write(text)
		return err
	case len(arguments) >= 4 && arguments[0] == "helm":
		return helm(output, arguments[1], arguments[2], arguments[3:])
	default:
		return errors.New("kustomize <folder>, or helm <version> <more values> <values file>...")
	}
}

func helm(output io.Writer, version, values string, files []string) error {
	found := slices.IndexFunc(render.Charts, func(chart render.Chart) bool { return chart.Version == version })
	if found < 0 {
		return fmt.Errorf("no chart %s", version)
	}
	official, err := render.Charts[found].Load()
	if err != nil {
		return err
	}
	var more map[string]any
	if err := json.Unmarshal([]byte(values), &more); err != nil {
		return fmt.Errorf("%s: %w", values, err)
	}
	rendered, err := render.Helm(official, more, files...)
	if err != nil {
		return err
	}
	for _, text := range rendered {
		if _, err := fmt.Fprintf(output, "---\n%s\n", text); err != nil {
			return err
		}
	}
	return nil
}
