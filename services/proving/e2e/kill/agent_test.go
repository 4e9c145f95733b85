package kill

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// child is a process of a program that is killed and started again.
type child struct {
	path string
	args []string
	env  []string
	log  *trial.Output
	cmd  *exec.Cmd
}

// start starts the process if it does not run.
func (c *child) start(t *testing.T) {
	t.Helper()
	if c.cmd != nil {
		return
	}
	c.cmd = exec.Command(c.path, c.args...)
	c.cmd.Env = append(os.Environ(), c.env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", c.path, err)
	}
}

// kill kills the process if it runs, and returns once it is dead.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if c.cmd == nil {
		return
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill %s: %v", c.path, err)
	}
	_ = c.cmd.Wait() // it reports that it was killed
	c.cmd = nil
}

// agentProcess is a provider's agent.
type agentProcess struct{ child }

// newAgent starts an agent that offers the models from an engine.
func newAgent(t *testing.T, program, wsURL, key, engineURL string, models ...string) *agentProcess {
	t.Helper()
	dir := t.TempDir()
	type offer struct {
		ModelID       string `json:"model_id"`
		EngineURL     string `json:"engine_url"`
		LocalModel    string `json:"local_model"`
		ContextLength int64  `json:"context_length"`
		Capacity      int    `json:"capacity"`
	}
	var list []offer
	for _, id := range models {
		list = append(list, offer{id, engineURL + "/v1", id, 8192, 64})
	}
	text, err := json.Marshal(map[string]any{"models": list})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "models.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &agentProcess{child{path: program, args: []string{"run"}, log: trial.NewOutput(), env: []string{
		"SVC_WS_URL=" + wsURL, "SVC_PROVIDER_KEY=" + key, "SVC_MODELS=" + file, "SVC_STATE_DIR=" + dir, "SVC_LOG_LEVEL=warn",
	}}}
	a.start(t)
	t.Cleanup(func() { a.kill(t) })
	return a
}
