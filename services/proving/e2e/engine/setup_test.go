//go:build engine

package engine

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// agent builds svc-agent from the tree.
func agent(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "svc-agent")
	build := exec.Command("go", "build", "-o", program, "svc.internal/services/provider-agent/cmd/svc-agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build svc-agent: %v\n%s", err, out)
	}
	return program
}

// portOf is the port of a URL.
func portOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// A user with an empty home and nothing but the program types setup and run, and a
// consumer's request is served and earned.
func TestTwoCommandsMakeAProviderOfAnEmptyHome(t *testing.T) {
	const wallet, password = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "correct horse battery"
	program, home := agent(t), t.TempDir()
	m := &market{engine: serve(t, narrow)}
	m.Market = trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	m.list(t, narrow)
	m.account, m.key = m.Consumer(t, "1")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env, cmd.Dir = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm"}, home
		return cmd
	}

	m.answersSetup(t, command, wallet, password)

	key, err := os.ReadFile(filepath.Join(home, ".config", "svc-agent", "provider-key"))
	if err != nil {
		t.Fatal(err)
	}
	status := func() map[string]any {
		_, _, body := m.Call(t, http.MethodGet, "/api/v1/provider/status", strings.TrimSpace(string(key)), "")
		return trial.Decode(t, body)
	}
	provider := trial.Text(t, status(), "provider_id")
	m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+provider+"/qualification",
		`{"collateral":true,"gpu_waived":true,"reason":"test"}`)
	serving := at(t, command("run"))
	serving.expect(t, "registered at the hub")
	m.WaitOffered(t, narrow, provider)

	// The engine cuts longer prompts in silence, so its own window is what is offered.
	window := func(want string) {
		t.Helper()
		trial.Until(t, "the window is "+want, func() bool {
			_, _, body := m.Call(t, http.MethodGet, "/api/v1/models?page_size=200", "", "")
			return strings.Contains(string(body), `"max_reported_context_length":`+want+`,`)
		})
	}
	window("256")
	_, requestID := m.chat(t, trial.Chat(narrow, `,"max_tokens":8`))
	m.settled(t, requestID, "completed")

	// A second setup has a wider model made, and the agent that runs offers it.
	again := at(t, command("setup", "-yes", "-offer", "all", "-context", "1024", "-ports", portOf(t, m.engine.url())))
	if err := <-again.done; err != nil {
		t.Fatalf("setup again: %v", err)
	}
	serving.expect(t, "models.json has changed")
	window("1024")
	_, requestID = m.chat(t, trial.Chat(narrow, `,"max_tokens":8`))
	m.settled(t, requestID, "completed")
	if err := syscall.Kill(-serving.group, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-serving.done; err != nil {
		t.Errorf("run: got the error %v, want none", err)
	}
	if strings.Contains(serving.text(), strings.TrimSpace(string(key))) {
		t.Error("the key is in the log")
	}
}

// answersSetup runs setup in a terminal and answers its questions, the wallet's wrongly at first.
func (m *market) answersSetup(t *testing.T, command func(...string) *exec.Cmd, wallet, password string) {
	t.Helper()
	// The gateway is among the ports, as it may be on a machine that runs both.
	wizard := at(t, command("setup", "-ws", m.WSURL(), "-ports", portOf(t, m.engine.url())+","+portOf(t, m.Base())))
	wizard.answers(t, "address, https://", m.Base())
	wizard.expect(t, "Found ollama")
	wizard.expect(t, "256")
	wizard.answers(t, "Models to offer", "1")
	wizard.answers(t, "wallet address", strings.Replace(wallet, "5aA", "5AA", 1))
	wizard.expect(t, "its checksum")
	wizard.answers(t, "wallet address", wallet)
	wizard.answers(t, "machine's name", "rig")
	wizard.answers(t, "Requests at once", "2")
	wizard.answers(t, "Account", "signup")
	wizard.answers(t, "E-mail address", "ann@example.org")
	wizard.answers(t, "Password", password)
	wizard.expect(t, "What blocks earning now")
	wizard.expect(t, "Next: svc-agent run")
	if err := <-wizard.done; err != nil {
		t.Fatalf("setup: %v", err)
	}
	switch shown := wizard.text(); {
	case strings.Contains(shown, password):
		t.Error("the password is shown")
	case strings.Count(shown, "Found ") != 1:
		t.Errorf("engines found: got %d, want 1", strings.Count(shown, "Found "))
	}
}
