//go:build engine

package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// source is the module that makes the models, from this package's folder.
const source = "../../../../deploy/engine"

// The models that tests ask for. Names are those of the catalog and of Ollama.
const (
	// tiny answers at once.
	tiny = "engine/tiny"
	// slow takes milliseconds for a token, so that something can happen during its
	// answer.
	slow = "engine/slow"
	// narrow is tiny with a window of narrowWindow tokens.
	narrow       = "engine/narrow"
	narrowWindow = 256
	// vectors is tiny in the catalog's category of embeddings.
	vectors = "engine/vectors"
)

// shapes are the flags of tinygguf. A flat distribution keeps random walks from
// the repetitions at which Ollama breaks off.
var shapes = map[string][]string{
	tiny:   {"-seed", "1", "-sharpness", "4"},
	slow:   {"-seed", "2", "-sharpness", "3", "-width", "256", "-heads", "8", "-layers", "4", "-ff", "1024", "-half"},
	narrow: {"-seed", "1", "-sharpness", "4"},

	vectors: {"-seed", "1", "-sharpness", "4"},
}

// ollama is a server with a store of its own.
type ollama struct {
	program string
	home    string
	models  []string
	// address is a free one at the first start, and the same at the next.
	address string
	group   int
	ended   chan struct{}
	log     *trial.Output
}

// serve runs Ollama with models until the test ends, answering one request at
// a time for each model.
func serve(t *testing.T, models ...string) *ollama {
	t.Helper()
	program := os.Getenv("OLLAMA_BIN")
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("OLLAMA_BIN is not set: run make engine")
		}
		t.Skip("OLLAMA_BIN is not set: run make engine")
	}
	o := &ollama{program: program, home: t.TempDir(), models: models, address: "127.0.0.1:0", log: trial.NewOutput()}
	o.start(t)
	t.Cleanup(func() {
		o.kill()
		if t.Failed() {
			t.Logf("Ollama's log:\n%s", trial.Tail(o.log.Text(), 4_000))
		}
	})
	for _, model := range models {
		o.create(t, model)
	}
	return o
}

var (
	listening = regexp.MustCompile(`Listening on (127\.0\.0\.1:\d+)`)
	// The kept lines of its log are errors, answered requests, and requests that it
	// begins.
	telling = regexp.MustCompile(`level=(WARN|ERROR|FATAL)|^\[GIN\]|Listening on|` + begun)
)

// begun is the line of the log when the model begins to answer.
const begun = `msg="completion request"`

// start runs the server and returns once it listens. It runs in a process group with a
// shell that ends the group when this test's end of a pipe closes, so that neither the
// server nor its runners outlive a test that was killed.
func (o *ollama) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `"$0" serve & read -r _; kill -9 -$$`, o.program)
	cmd.Env = o.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.group, o.ended = cmd.Process.Pid, make(chan struct{})
	ready := make(chan string, 1)
	go func() {
		defer close(o.ended)
		for lines := bufio.NewReader(output); ; {
			line, err := lines.ReadString('\n')
			if telling.MatchString(line) {
				_, _ = io.WriteString(o.log, line)
			}
			if found := listening.FindStringSubmatch(line); found != nil {
				ready <- found[1]
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // it was killed
	}()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	select {
	case o.address = <-ready:
	case <-o.ended:
		t.Fatalf("Ollama did not start:\n%s", o.log.Text())
	case <-ctx.Done():
		o.kill()
		t.Fatalf("Ollama does not listen:\n%s", o.log.Text())
	}
}

func (o *ollama) environment() []string {
	return append(os.Environ(), "OLLAMA_HOST="+o.address, "OLLAMA_MODELS="+filepath.Join(o.home, "models"), "HOME="+o.home,
		"OLLAMA_NUM_PARALLEL=1", "OLLAMA_KEEP_ALIVE=1h", "OLLAMA_NOHISTORY=1", "OLLAMA_NO_CLOUD=1", "OLLAMA_DEBUG=1",
		"NO_COLOR=1")
}

// kill ends the server and its runners as kill -9 does, and returns when they have ended.
// A second call does nothing.
func (o *ollama) kill() {
	select {
	case <-o.ended:
	default:
		_ = syscall.Kill(-o.group, syscall.SIGKILL) // an ended group is as good
		<-o.ended
	}
}

// killRunner ends the process that runs a model, and leaves the server.
func (o *ollama) killRunner(t *testing.T) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,pgid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[1] != strconv.Itoa(o.group) || fields[3] != "runner" {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed != 1 {
		t.Fatalf("runners killed: got %d, want 1", killed)
	}
}

func (o *ollama) url() string { return "http://" + o.address }

// create makes a model from its generated file and the Modelfile of the source.
func (o *ollama) create(t *testing.T, model string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(source, "Modelfile"))
	if err != nil {
		t.Fatal(err)
	}
	window := listedWindow
	if model == narrow {
		window = narrowWindow
	}
	text = bytes.Replace(text, []byte("num_ctx 2048"), []byte("num_ctx "+strconv.Itoa(window)), 1)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Modelfile"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	made := []string{"-o", "tiny.gguf", "-context", strconv.Itoa(listedWindow)}
	run(t, dir, nil, generator(t), append(made, shapes[model]...)...)
	run(t, dir, o.environment(), o.program, "create", model, "-f", "Modelfile")
}

// answering waits until the server has begun n requests since its first start.
func (o *ollama) answering(t *testing.T, n int) {
	t.Helper()
	trial.Until(t, "the engine is at work on request "+strconv.Itoa(n),
		func() bool { return strings.Count(o.log.Text(), begun) >= n })
}

// remove makes the server forget a model.
func (o *ollama) remove(t *testing.T, model string) {
	t.Helper()
	run(t, o.home, o.environment(), o.program, "rm", model)
}

// ask puts a chat completion to the engine itself.
func (o *ollama) ask(t *testing.T, body string) map[string]any {
	t.Helper()
	status, _, answer := trial.CallAt(t, o.url(), http.MethodPost, trial.ChatPath, "", body)
	if status != http.StatusOK {
		t.Fatalf("the engine: got %d, want 200, with %s", status, answer)
	}
	return trial.Decode(t, answer)
}

// built is the model writer, built once.
var built = struct {
	sync.Once
	dir string
	err error
}{}

func TestMain(m *testing.M) {
	trial.Main(m)
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}

// generator is the program that writes models, built from the tree.
func generator(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "tinygguf"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", built.dir, "./cmd/tinygguf")
		build.Dir, build.Env = source, append(os.Environ(), "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = errors.Join(err, errors.New(string(out)))
		}
	})
	if built.err != nil {
		t.Fatalf("build tinygguf: %v", built.err)
	}
	return filepath.Join(built.dir, "tinygguf")
}

func run(t *testing.T, dir string, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
	}
}
