package render

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// SchemaFile judges the values of the chart.
const SchemaFile = "values.schema.json"

var (
	// A setting in the program's help, as "  --dry-run  [DRY_RUN]". A secret has no flag.
	inHelp = regexp.MustCompile(`(?m)^  --\S+  \[([A-Z0-9_]+)\]$`)
	// The settings in the schema.
	inSchema = regexp.MustCompile(`(?s)("settings": \{.*?"properties": \{\n).*?(\n {10}\})`)
)

// Schema is the chart's schema with the settings that the program names in its help.
func Schema(chart, program string) ([]byte, error) {
	help, err := exec.Command(program, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("%q --help: %w", program, err)
	}
	var settings []string
	for _, found := range inHelp.FindAllSubmatch(help, -1) {
		settings = append(settings, fmt.Sprintf(`            "%s": {"$ref": "#/definitions/setting"}`, found[1]))
	}
	text, err := os.ReadFile(filepath.Join(chart, SchemaFile))
	if err != nil {
		return nil, err
	}
	if len(settings) == 0 || len(inSchema.FindAllIndex(text, -1)) != 1 {
		return nil, fmt.Errorf("%d settings in the help of %s, and no place for them in %s", len(settings), program, SchemaFile)
	}
	return inSchema.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(strings.Join(settings, ",\n"), "$", "$$")+"${2}")), nil
}
