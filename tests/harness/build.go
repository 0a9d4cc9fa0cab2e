package harness

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The programs, as absolute paths, once they are built.
var (
	webhookBinary   string
	emulatorBinary  string
	etcdBinary      string
	apiServerBinary string
)

// BuildPrograms builds the program and the emulator.
func BuildPrograms() (err error) {
	if webhookBinary, err = binary("WEBHOOK_BINARY", cargo("external-dns-cloudflare-tunnel-webhook")); err != nil {
		return err
	}
	emulatorBinary, err = binary("EMULATOR_BINARY", cargo("cloudflare-emulator"))
	return err
}

// BuildKubernetes builds etcd and the API server, which takes minutes once.
func BuildKubernetes() (err error) {
	if etcdBinary, err = binary("ETCD_BINARY", golang("cluster", "./cmd/etcd")); err != nil {
		return err
	}
	version, err := kubernetesVersion()
	if err != nil {
		return err
	}
	// Kubernetes' own build says it in this way too; ExternalDNS and the definitions of kinds ask for it.
	stamp := "-X k8s.io/component-base/version."
	apiServerBinary, err = binary("KUBE_APISERVER_BINARY", golang("cluster", "./cmd/kube-apiserver", "-ldflags", fmt.Sprintf(
		"-s -w %sgitVersion=v%s.%s.%s %sgitMajor=%s %sgitMinor=%s", stamp, version[0], version[1], version[2], stamp, version[0], stamp, version[1])))
	return err
}

// kubernetesVersion is that of the module: major, minor, patch.
func kubernetesVersion() ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "tests", "cluster", "go.mod"))
	if err != nil {
		return nil, err
	}
	found := regexp.MustCompile(`k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)`).FindStringSubmatch(string(text))
	if found == nil {
		return nil, errors.New("tests/cluster/go.mod has no k8s.io/kubernetes")
	}
	return found[1:], nil
}

// Newest is the version of ExternalDNS that the tests run, but for those of older ones.
const Newest = "v0.23.0"

// Versions of ExternalDNS that each version's tests know, oldest first.
var Versions = []string{"v0.14.2", "v0.16.1", "v0.18.0", "v0.21.0", "v0.22.0", Newest}

// versionsVariable has the versions to try, separated by blanks: "all", "oldest" and "newest" are words for some.
const versionsVariable = "EXTERNAL_DNS_VERSIONS"

// VersionsAsked are those that this run has to try, oldest first.
func VersionsAsked() (versions []string, err error) {
	asked := map[string]bool{}
	for _, word := range strings.Fields(os.Getenv(versionsVariable)) {
		switch {
		case word == "all":
			for _, version := range Versions {
				asked[version] = true
			}
		case word == "oldest":
			asked[Versions[0]] = true
		case word == "newest":
			asked[Newest] = true
		case slices.Contains(Versions, word):
			asked[word] = true
		default:
			return nil, fmt.Errorf("%s: %s is none of %q", versionsVariable, word, Versions)
		}
	}
	return slices.DeleteFunc(slices.Clone(Versions), func(version string) bool { return !asked[version] }), nil
}

// BuildExternalDNS builds the newest: it wants a newer Go than the tests, which Go fetches.
func BuildExternalDNS() (string, error) {
	return binary("EXTERNAL_DNS_BINARY", func() (string, error) { return BuildExternalDNSOf(Newest) })
}

// BuildExternalDNSOf builds a version: of its module in tests/externaldns, where it has one. The others need no `replace`.
func BuildExternalDNSOf(version string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(root, "tests", "externaldns", version)); err == nil {
		return golang("externaldns/"+version, ".")()
	}
	target, err := Target()
	if err != nil {
		return "", err
	}
	directory := filepath.Join(target, "external-dns", version)
	binary := filepath.Join(directory, "external-dns")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	return binary, Run(target, "env", "GOBIN="+directory, "go", "install", "sigs.k8s.io/external-dns@"+version)
}

// ExternalDNSFile is a file of the newest ExternalDNS or of a module that it is built of.
func ExternalDNSFile(module, path string) ([]byte, error) {
	folder, err := moduleFolder(module)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(folder, path))
}

var (
	foldersMutex sync.Mutex
	folders      = map[string]string{}
)

// moduleFolder is where a module is unpacked, in the version that the newest ExternalDNS is built of. Go is asked once.
func moduleFolder(module string) (string, error) {
	foldersMutex.Lock()
	defer foldersMutex.Unlock()
	if folder, known := folders[module]; known {
		return folder, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Dir = filepath.Join(root, "tests", "externaldns", Newest)
	command.Env = append(os.Environ(), "GOTOOLCHAIN=auto")
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command, err, output)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		return "", err
	}
	folders[module] = downloaded.Dir
	return downloaded.Dir, nil
}

// BuildManifests builds what renders deploy/.
func BuildManifests() (string, error) { return golang("deploy", "./cmd/manifests")() }

// BuildKubectl builds Kubernetes' own.
func BuildKubectl() (string, error) {
	return binary("KUBECTL_BINARY", golang("deploy", "./cmd/kubectl", "-ldflags", "-s -w"))
}

// BuildHelm builds Helm's own.
func BuildHelm() (string, error) {
	return binary("HELM_BINARY", golang("deploy", "helm.sh/helm/v3/cmd/helm", "-ldflags", "-s -w"))
}

// binary is the path the variable names, or else what making gives.
func binary(variable string, making func() (string, error)) (string, error) {
	if path := os.Getenv(variable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return filepath.Abs(path)
	}
	return making()
}

// Root is the repository's folder: that of Cargo.lock, seen from the package under test.
func Root() (string, error) {
	for directory := "."; ; directory = filepath.Join(directory, "..") {
		absolute, err := filepath.Abs(directory)
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(absolute, "Cargo.lock")); err == nil {
			return absolute, nil
		}
		if absolute == "/" {
			return "", fmt.Errorf("no Cargo.lock is above the tests")
		}
	}
}

// Main builds what the tests of a package run, and runs them. That there is no such version is seen before.
func Main(m *testing.M, build func() error) {
	if _, err := VersionsAsked(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "building what the tests run:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Target is the folder where everything is built.
func Target() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = "target"
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(root, target)
	}
	return target, nil
}

func cargo(name string) func() (string, error) {
	return func() (string, error) {
		root, err := Root()
		if err != nil {
			return "", err
		}
		target, err := Target()
		if err != nil {
			return "", err
		}
		// Of the whole workspace, whose crates `cargo test --workspace` has built with the same features.
		return filepath.Join(target, "debug", name), Run(root, "cargo", "build", "--locked", "--workspace", "--bin", name)
	}
}

// golang builds a main package of a module in tests/, unless it was built of the same sources.
func golang(module, main string, flags ...string) func() (string, error) {
	return func() (string, error) {
		root, err := Root()
		if err != nil {
			return "", err
		}
		target, err := Target()
		if err != nil {
			return "", err
		}
		directory := filepath.Join(root, "tests", module)
		sum, err := sources(directory, flags)
		if err != nil {
			return "", err
		}
		output := filepath.Join(target, "golang", strings.ReplaceAll(module, "/", "-")+"-"+sum, filepath.Base(filepath.Join(module, main)))
		if _, err := os.Stat(output); err == nil {
			return output, nil
		}
		// No version control stamp: the checkout may be a tree without its history. "auto": as new a Go as the module wants.
		arguments := append([]string{"GOTOOLCHAIN=auto", "go", "build", "-buildvcs=false"}, flags...)
		return output, Run(directory, "env", append(arguments, "-o", output, main)...)
	}
}

// sources is a short hash of what decides a module's main packages, its tests left out.
func sources(directory string, flags []string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, flags)
	err := filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "doc.go") {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		fmt.Fprintln(hash, strings.TrimPrefix(path, directory))
		_, err = io.Copy(hash, file)
		return err
	})
	return fmt.Sprintf("%x", hash.Sum(nil)[:6]), err
}

// Run runs a command in a folder, its output with that of the tests, and says how long it took.
func Run(directory, name string, arguments ...string) error {
	begun := time.Now()
	command := exec.Command(name, arguments...)
	command.Dir = directory
	command.Stdout = os.Stdout
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	fmt.Printf("%s: %.0f s\n", command, time.Since(begun).Seconds())
	return nil
}
