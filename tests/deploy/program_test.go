package deploy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program that has not said a thing after so long does not say it.
const patience = 30 * time.Second

// program is the webhook, started as a file of deploy/ says.
type program struct {
	observation string
	lines       []string
}

// command runs the program with this environment and these arguments. Only what cannot be here is put right: the token's
// file, Cloudflare's address (where nothing answers), and the ports, which must be free.
func command(t *testing.T, environment map[string]string, arguments []string) *exec.Cmd {
	t.Helper()
	binary := os.Getenv("WEBHOOK_BINARY")
	if binary == "" {
		t.Fatal("WEBHOOK_BINARY names no program")
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-the-test-0123456789-abcdefghi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"SERVER_PORT", "SERVER_HOST", "METRICS_PORT", "METRICS_HOST"} {
		if _, set := environment[variable]; set {
			t.Errorf("%s is set: the defaults are what the chart's probes need", variable)
		}
	}
	command := exec.Command(binary, arguments...)
	for name, value := range environment {
		if name == "CF_API_TOKEN_FILE" {
			value = token
		}
		command.Env = append(command.Env, name+"="+value)
	}
	command.Env = append(command.Env, "CF_API_BASE_URL=http://127.0.0.1:9/client/v4",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "METRICS_HOST=127.0.0.1", "METRICS_PORT=0")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// startProgram starts it, and awaits that it says where it listens.
func startProgram(t *testing.T, environment map[string]string, arguments []string) *program {
	t.Helper()
	command := command(t, environment, arguments)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})

	listening := regexp.MustCompile(`metrics=(\S+)`)
	found := make(chan *program, 1)
	go func() {
		defer close(found)
		started := &program{}
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			started.lines = append(started.lines, scanner.Text())
			if match := listening.FindStringSubmatch(scanner.Text()); match != nil {
				started.observation = match[1]
				found <- started
				break
			}
		}
		if started.observation == "" {
			found <- started
		}
		_, _ = io.Copy(io.Discard, stderr)
	}()
	select {
	case started := <-found:
		if started.observation == "" {
			t.Fatalf("with %v and %v it does not start:\n%s", environment, arguments, strings.Join(started.lines, "\n"))
		}
		return started
	case <-time.After(patience):
		t.Fatal("it says nothing")
	}
	panic("unreachable")
}

func (p *program) status(t *testing.T, path string) int {
	t.Helper()
	client := http.Client{Timeout: patience}
	answer, err := client.Get(fmt.Sprintf("http://%s%s", p.observation, path))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
