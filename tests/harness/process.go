package harness

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// A state that has not come after so long does not come.
	patience = 30 * time.Second
	// How often a state is looked at.
	glance = 20 * time.Millisecond
	// How long a process may take to end after SIGTERM.
	endingPatience = 15 * time.Second
)

// Process is a child whose output is kept, and printed when its test fails.
type Process struct {
	name    string
	command *exec.Cmd
	output  *transcript
	ended   chan struct{}
	failure error // why it ended; to be read after ended is closed
}

// Start runs the binary with this environment and nothing of ours, and ends it with the test.
func Start(t *testing.T, name, binary string, environment []string, arguments ...string) *Process {
	t.Helper()
	child := &Process{
		name:    name,
		command: exec.Command(binary, arguments...),
		output:  &transcript{},
		ended:   make(chan struct{}),
	}
	child.command.Env = environment
	child.command.Stdout = child.output
	child.command.Stderr = child.output
	// A test process that is killed takes its children along.
	child.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.command.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		child.failure = child.command.Wait()
		close(child.ended)
	}()
	t.Cleanup(func() {
		child.Stop(t)
		if t.Failed() {
			t.Logf("---- output of %s (%s)\n%s", child.name, child.command, child.output)
		}
	})
	return child
}

// Alive fails the test when the process has ended.
func (p *Process) Alive(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("%s has ended: %v", p.name, p.failure)
	default:
	}
}

// HasEnded says whether the process has, by itself or otherwise.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Output is all that the process has written. A test that looks for what must not be there needs the whole.
func (p *Process) Output(t *testing.T) string {
	t.Helper()
	text, missed := p.output.whole()
	if missed > 0 {
		t.Fatalf("%s wrote %d bytes more than are kept", p.name, missed)
	}
	return text
}

// ExitCode awaits the end of a process that ends by itself.
func (p *Process) ExitCode(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * patience):
		t.Fatalf("%s has not ended after %s", p.name, 2*patience)
	}
	return p.command.ProcessState.ExitCode()
}

// Stop asks the process to end and awaits it. A process that has ended already is left.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(endingPatience):
		_ = p.command.Process.Kill()
		<-p.ended
		t.Errorf("%s did not end within %s of SIGTERM", p.name, endingPatience)
	}
}

// transcript is what a process wrote, up to a bound: its beginning and its end.
type transcript struct {
	mutex  sync.Mutex
	head   bytes.Buffer
	tail   []byte
	missed int
}

const transcriptHalf = 64 * 1024

func (t *transcript) Write(chunk []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	room := min(transcriptHalf-t.head.Len(), len(chunk))
	t.head.Write(chunk[:room])
	t.tail = append(t.tail, chunk[room:]...)
	if surplus := len(t.tail) - transcriptHalf; surplus > 0 {
		t.missed += surplus
		t.tail = append(t.tail[:0], t.tail[surplus:]...)
	}
	return len(chunk), nil
}

// whole is what was written, without as many bytes of its middle as it says.
func (t *transcript) whole() (text string, missed int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.missed == 0 {
		return t.head.String() + string(t.tail), 0
	}
	return fmt.Sprintf("%s\n[... %d bytes ...]\n%s", t.head.String(), t.missed, t.tail), t.missed
}

func (t *transcript) String() string {
	text, _ := t.whole()
	return text
}

// Eventually awaits a state, and fails the test with what the last look said.
func Eventually(t *testing.T, what string, look func() error) {
	t.Helper()
	EventuallyWithin(t, patience, what, look)
}

// EventuallyWithin awaits a state for so long.
func EventuallyWithin(t *testing.T, bound time.Duration, what string, look func() error) {
	t.Helper()
	deadline := time.Now().Add(bound)
	for {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s: %v", bound, what, err)
		}
		time.Sleep(glance)
	}
}

// What FreePort chooses from: below the ports that systems give to outgoing connections, one of which could have the
// port before its process listens.
const firstPort, portCount = 15_000, 15_000

// FreePort is a port of loopback that no process listens on. Ports handed out are not handed out again.
func FreePort(t *testing.T) string {
	t.Helper()
	portsMutex.Lock()
	defer portsMutex.Unlock()
	for range portCount {
		port := firstPort + rand.IntN(portCount)
		if portsGiven[port] {
			continue
		}
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		portsGiven[port] = true
		return strconv.Itoa(port)
	}
	t.Fatal("no port is free")
	return ""
}

var (
	portsMutex sync.Mutex
	portsGiven = map[int]bool{}
)

// BareEnvironment is what a container has; no proxy or token of the machine reaches a child.
func BareEnvironment(variables ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}, variables...)
}
