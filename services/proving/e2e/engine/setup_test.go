//go:build engine

package engine

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"svc.internal/pkg/terminaltest"
	"svc.internal/services/proving/internal/trial"
)

// box is a new user's machine: a terminal, and a home folder that has only what was downloaded. Its
// programs do not run as root, even where the test does.
type box struct {
	home string
	// commands counts the lines that the user typed at the shell.
	commands int
}

// downloads is the folder in the box's home with the files of make agents for this system.
const downloads = "Downloads"

// cleanBox makes a box with nothing but the archive of the agent and install.sh.
func cleanBox(t *testing.T) *box {
	t.Helper()
	home, err := os.MkdirTemp("", "box")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	build := exec.Command("go", "run", ".", "-tree", "../..", "-agents", "-platforms", runtime.GOOS+"/"+runtime.GOARCH,
		"-out", filepath.Join(home, downloads))
	build.Dir, build.Env = filepath.FromSlash("../../../../deploy/images"), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make the archive: %v\n%s", err, out)
	}
	b := &box{home: home}
	if user := b.user(); user != nil {
		if err := os.Chown(home, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// user returns the user as whom the box's programs run. Where the test runs as root, that is a user who
// owns nothing else; otherwise it is the user of the test, and user returns nil.
func (b *box) user() *syscall.Credential {
	const nobody = 64_321
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}

// types types a command at a terminal of the box, with the environment of a login.
func (b *box) types(t *testing.T, command string) *terminaltest.Terminal {
	t.Helper()
	b.commands++
	cmd := exec.Command("/bin/sh", "-c", "exec "+command)
	cmd.Env = []string{"HOME=" + b.home, "PATH=" + filepath.Join(b.home, ".local/bin") + ":/usr/local/bin:/usr/bin:/bin",
		"TERM=xterm"}
	cmd.Dir, cmd.SysProcAttr = b.home, &syscall.SysProcAttr{Credential: b.user()}
	return terminaltest.Start(t, cmd)
}

// installs installs the agent, and fails the test unless the script says what it does.
func (b *box) installs(t *testing.T) {
	t.Helper()
	script := b.types(t, "sh "+downloads+"/install.sh")
	for _, want := range []string{"archive: ", "checksum:", "signature: not verified", "program: ", "installed: svc-agent",
		"next: svc-agent setup"} {
		script.Expect(t, want)
	}
	if err := <-script.Done; err != nil {
		t.Fatalf("install.sh: %v", err)
	}
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

// maxCommands bounds the commands that a clean box may need until it earns.
const maxCommands = 5

// A user with an empty home and nothing but the archive types install.sh, setup and run, and a
// consumer's request is served and earned.
func TestThreeCommandsMakeAProviderOfACleanBox(t *testing.T) {
	const wallet, password = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "correct horse battery"
	b := cleanBox(t)
	home := b.home
	m := &market{engine: serve(t, narrow)}
	m.Market = trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	m.list(t, narrow)
	m.account, m.key = m.Consumer(t, "1")

	b.installs(t)
	m.answersSetup(t, b, wallet, password)

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
	serving := b.types(t, "svc-agent run")
	serving.Expect(t, "registered at the hub")
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
	m.earned(t, strings.TrimSpace(string(key)))
	if b.commands > maxCommands {
		t.Errorf("commands until a request is earned: got %d, want at most %d", b.commands, maxCommands)
	}

	// A second setup has a wider model made, and the agent that runs offers it.
	again := b.types(t, "svc-agent setup -yes -offer all -context 1024 -ports "+portOf(t, m.engine.url()))
	if err := <-again.Done; err != nil {
		t.Fatalf("setup again: %v", err)
	}
	serving.Expect(t, "models.json has changed")
	window("1024")
	_, requestID = m.chat(t, trial.Chat(narrow, `,"max_tokens":8`))
	m.settled(t, requestID, "completed")
	if err := syscall.Kill(-serving.Group, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-serving.Done; err != nil {
		t.Errorf("run: got the error %v, want none", err)
	}
	if strings.Contains(serving.Text(), strings.TrimSpace(string(key))) {
		t.Error("the key is in the log")
	}
}

// earned waits until the provider with a key has earned something.
func (m *market) earned(t *testing.T, key string) {
	t.Helper()
	trial.Until(t, "the request is earned", func() bool {
		status, _, body := m.Call(t, http.MethodGet, "/api/v1/provider/earnings", key, "")
		if status != http.StatusOK {
			t.Fatalf("earnings: got status %d, want 200, with %s", status, body)
		}
		told := trial.Decode(t, body)
		for _, part := range []string{"settled_usd_str", "held_usd_str", "settlement_pending_usd_str"} {
			if amount := trial.Text(t, told, part); amount != "0.00" {
				t.Logf("%s: %s", part, amount)
				return true
			}
		}
		return false
	})
}

// answersSetup runs setup in a terminal and answers its questions, the wallet's wrongly at first.
func (m *market) answersSetup(t *testing.T, b *box, wallet, password string) {
	t.Helper()
	// The gateway is among the ports, as it may be on a machine that runs both.
	wizard := b.types(t, "svc-agent setup -ws "+m.WSURL()+" -ports "+portOf(t, m.engine.url())+","+portOf(t, m.Base()))
	wizard.Answer(t, "address, https://", m.Base())
	wizard.Expect(t, "Found ollama")
	wizard.Expect(t, "256")
	wizard.Answer(t, "Models to offer", "1")
	wizard.Answer(t, "wallet address", strings.Replace(wallet, "5aA", "5AA", 1))
	wizard.Expect(t, "its checksum")
	wizard.Answer(t, "wallet address", wallet)
	wizard.Answer(t, "machine's name", "rig")
	wizard.Answer(t, "Requests at once", "2")
	wizard.Answer(t, "Account", "signup")
	wizard.Answer(t, "E-mail address", "ann@example.org")
	wizard.Answer(t, "Password", password)
	wizard.Expect(t, "What blocks earning now")
	wizard.Expect(t, "Next: svc-agent run")
	if err := <-wizard.Done; err != nil {
		t.Fatalf("setup: %v", err)
	}
	switch shown := wizard.Text(); {
	case strings.Contains(shown, password):
		t.Error("the password is shown")
	case strings.Count(shown, "Found ") != 1:
		t.Errorf("engines found: got %d, want 1", strings.Count(shown, "Found "))
	}
}
