//go:build engine

package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

const (
	// source is the module that writes models, from this package's folder.
	source = "../../../../deploy/engine"
	// patience is how long the engine may take for anything.
	patience = 2 * time.Minute
)

// ollama is a server with a store of its own.
type ollama struct {
	program, home, writer string
	url                   string
	logged                bytes.Buffer // of the reading goroutine until ended
	ended                 chan struct{}
}

// start runs Ollama until the test ends, in a process group with a shell that ends the
// group when this test's end of a pipe closes, so that no runner outlives a killed test.
func start(t *testing.T) *ollama {
	t.Helper()
	o := &ollama{
		program: os.Getenv("OLLAMA_BIN"), home: t.TempDir(), url: "http://127.0.0.1:0", ended: make(chan struct{}),
	}
	if o.program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("OLLAMA_BIN is not set: run make engine")
		}
		t.Skip("OLLAMA_BIN is not set: run make engine")
	}
	o.writer = filepath.Join(o.home, "tinygguf")
	o.run(t, source, append(os.Environ(), "GOWORK=off"), "go", "build", "-o", o.writer, "./cmd/tinygguf")
	cmd := exec.Command("/bin/sh", "-c", `"$0" serve & read -r _; kill -9 -$$`, o.program)
	cmd.Env, cmd.SysProcAttr = o.environment(), &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatalf("make a pipe: %v", err)
	}
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatalf("make a pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Ollama: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an ended group is as good
		<-o.ended
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("Ollama's errors:\n%s", o.logged.String())
		}
	})
	ready := make(chan string, 1)
	go o.watch(output, ready)
	select {
	case o.url = <-ready:
	case <-o.ended:
		t.Fatalf("Ollama did not start:\n%s", o.logged.String())
	case <-time.After(patience):
		t.Fatal("Ollama does not listen")
	}
	return o
}

var listening = regexp.MustCompile(`Listening on (127\.0\.0\.1:\d+)`)

// watch reads the log to its end and keeps its errors.
func (o *ollama) watch(from io.Reader, ready chan<- string) {
	defer close(o.ended)
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		if found := listening.FindStringSubmatch(line); found != nil {
			ready <- "http://" + found[1]
		}
		if strings.Contains(line, "level=ERROR") {
			o.logged.WriteString(line)
		}
		if err != nil {
			return
		}
	}
}

func (o *ollama) environment() []string {
	return append(os.Environ(), "OLLAMA_HOST="+strings.TrimPrefix(o.url, "http://"),
		"OLLAMA_MODELS="+filepath.Join(o.home, "models"), "HOME="+o.home, "OLLAMA_NUM_PARALLEL=1",
		"OLLAMA_MAX_LOADED_MODELS=8", "OLLAMA_KEEP_ALIVE=1h", "OLLAMA_NOHISTORY=1", "OLLAMA_NO_CLOUD=1", "NO_COLOR=1")
}

// model is how one is made: flags of tinygguf, the class of Ollama's quantizer, and the
// window where it is not that of the Modelfile.
type model struct {
	flags    []string
	quantize string
	window   string
}

// create makes a model of the engine.
func (o *ollama) create(t *testing.T, name string, m model) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(source, "Modelfile"))
	if err != nil {
		t.Fatalf("read the Modelfile: %v", err)
	}
	if m.window != "" {
		text = bytes.Replace(text, []byte("num_ctx 2048"), []byte("num_ctx "+m.window), 1)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Modelfile"), text, 0o600); err != nil {
		t.Fatalf("write the Modelfile: %v", err)
	}
	o.run(t, dir, nil, o.writer, append([]string{"-o", "tiny.gguf"}, m.flags...)...)
	args := []string{"create", name, "-f", "Modelfile"}
	if m.quantize != "" {
		args = append(args, "--quantize", m.quantize)
	}
	o.run(t, dir, o.environment(), o.program, args...)
}

func (o *ollama) run(t *testing.T, dir string, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
	}
}

// call sends a request and returns the body of the answer, which must be 200. A nil body
// is a GET.
func (o *ollama) call(t *testing.T, path string, body any) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	method, sent := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			t.Fatalf("write a request: %v", err)
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, o.url+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the answer of %s: %v", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d, want 200, with %s", path, resp.StatusCode, raw)
	}
	return raw
}
