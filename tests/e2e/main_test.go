package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The programs, as absolute paths.
var (
	externalDNSBinary string
	webhookBinary     string
	emulatorBinary    string
	apiServerBinary   string
	// Where everything is built that is not Go's own.
	targetDirectory string
)

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "building what the tests run:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func build() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	targetDirectory = os.Getenv("CARGO_TARGET_DIR")
	if targetDirectory == "" {
		targetDirectory = filepath.Join(root, "target")
	} else if !filepath.IsAbs(targetDirectory) {
		targetDirectory = filepath.Join(root, targetDirectory)
	}
	cargo := func(name string) (string, error) {
		binary := filepath.Join(targetDirectory, "debug", name)
		return binary, run(root, "cargo", "build", "--locked", "--package", name, "--bin", name)
	}
	if webhookBinary, err = binary("WEBHOOK_BINARY", func() (string, error) {
		return cargo("external-dns-cloudflare-tunnel-webhook")
	}); err != nil {
		return err
	}
	if emulatorBinary, err = binary("EMULATOR_BINARY", func() (string, error) {
		return cargo("cloudflare-emulator")
	}); err != nil {
		return err
	}
	directory := filepath.Join(root, "tests", "e2e")
	golang := func(name string) (string, error) {
		output := filepath.Join(directory, "bin", name)
		// No version control stamp: the checkout may be a tree without its history.
		return output, run(directory, "go", "build", "-buildvcs=false", "-o", output, "./cmd/"+name)
	}
	if externalDNSBinary, err = binary("EXTERNAL_DNS_BINARY", func() (string, error) {
		return golang("external-dns")
	}); err != nil {
		return err
	}
	apiServerBinary, err = binary("API_SERVER_BINARY", func() (string, error) { return golang("api-server") })
	return err
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

func run(directory, name string, arguments ...string) error {
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
