package render

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"
)

// OriginFile says where the official chart comes from.
const OriginFile = "charts/_external-dns.yaml"

// OfficialFolder has its files.
const OfficialFolder = "charts/external-dns"

// Origin is what OriginFile says.
type Origin struct {
	Version string `json:"version"` // of the chart
	Licence string `json:"licence"`
	Module  string `json:"module"` // in which ExternalDNS's project has it, by path and version
	Sum     string `json:"sum"`    // of the module, as Go's checksum database has it
	Digest  string `json:"digest"` // of the files: see Digest
}

// ReadOrigin reads the file in the folder of our chart.
func ReadOrigin(folder string) (origin Origin, err error) {
	text, err := os.ReadFile(filepath.Join(folder, OriginFile))
	if err != nil {
		return origin, err
	}
	return origin, yaml.UnmarshalStrict(text, &origin)
}

// Official fetches the module through Go's proxy. It gives the module's checksum, and the files of a chart as `helm package`
// takes them, by name.
func Official(module string) (sum string, files map[string][]byte, err error) {
	// The module may want a newer Go than is there; Go then says so, and tells where the archive is all the same.
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	output, _ := command.Output()
	var downloaded struct{ Zip, Sum string }
	if err := json.Unmarshal(output, &downloaded); err != nil || downloaded.Zip == "" {
		return "", nil, fmt.Errorf("go mod download %s: %v: %s", module, err, output)
	}
	archive, err := zip.OpenReader(downloaded.Zip)
	if err != nil {
		return "", nil, err
	}
	defer archive.Close()
	chart, err := fs.Sub(archive, module+"/charts/external-dns")
	if err != nil {
		return "", nil, err
	}
	folder, err := os.MkdirTemp("", "official-chart")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, chart); err != nil {
		return "", nil, err
	}
	loaded, err := loader.LoadDir(folder)
	if err != nil {
		return "", nil, fmt.Errorf("the chart of %s: %w", module, err)
	}
	files = map[string][]byte{}
	for _, file := range loaded.Raw {
		files[file.Name] = file.Data
	}
	return downloaded.Sum, files, nil
}

// Digest is of all files of a folder, as `find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` in it prints it.
func Digest(folder string) (string, error) {
	lines := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, name))
		lines[name] = fmt.Sprintf("%x  ./%s\n", sha256.Sum256(text), name)
		return err
	})
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		all.Write([]byte(lines[name]))
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil)), err
}
