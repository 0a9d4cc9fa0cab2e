package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// KnownFile has the names of the official chart's values, for the chart's NOTES.
const KnownFile = "files/official-values.yaml"

// Kubernetes' own objects, which the official chart hands on as they are, and the values of all charts.
var unjudged = []string{
	"global", "deploymentStrategy", "livenessProbe", "podSecurityContext", "readinessProbe", "resources", "securityContext",
}

// object is what a JSON schema says of an object.
type object struct {
	Properties map[string]object `json:"properties"`
}

// Known is the names that the schema of the official chart in our chart has, an empty map for each whose content is not judged.
func Known(chart string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(chart, OfficialFolder, SchemaFile))
	if err != nil {
		return nil, err
	}
	var schema object
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	made, err := yaml.Marshal(schema.names())
	return append([]byte("# The values that charts/external-dns knows, made by `just chart-renew`.\n"), made...), err
}

func (o object) names() map[string]any {
	names := map[string]any{}
	for name, within := range o.Properties {
		if slices.Contains(unjudged, name) {
			within = object{}
		}
		names[name] = within.names()
	}
	return names
}
