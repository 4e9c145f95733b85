package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode"

	"svc.internal/pkg/terminaltest"
	"svc.internal/services/provider-agent/internal/control"
)

// isAgent is the variable by which a test makes its own program run as svc-agent.
const isAgent = "BE_SVC_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(isAgent) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// hostile is a name that would set the title of a terminal, empty its screen and colour it.
const hostile = "evil\x1b]0;owned\a\x1b[2J\u009b31m\r\nname"

// counting is an agent that counts how often it is asked, and reports that number as requests served.
type counting struct{ asked atomic.Int64 }

func (c *counting) State() control.State {
	counts := control.Counts{Served: c.asked.Add(1)}
	return control.State{
		Connection: control.Connected, Hub: "wss://" + hostile, Requests: counts,
		Models: []control.Model{{ModelID: "good", Healthy: true}, {ModelID: hostile, Reason: hostile},
			{ModelID: strings.Repeat("长", 200), Healthy: true}},
		Failures: []control.Failure{{ModelID: hostile, RequestID: hostile, Reason: hostile}},
		Account:  control.Account{Warning: hostile},
	}
}

func (c *counting) Pause(bool) {}
func (c *counting) Drain()     {}

// statusOf is the command svc-agent status, with a running agent and an account at a marketplace.
func statusOf(t *testing.T, environ ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	server, err := control.Listen(dir, &counting{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "status")
	cmd.Env = append([]string{isAgent + "=1", "TERM=xterm", "SVC_STATE_DIR=" + dir, "SVC_PROVIDER_KEY=sk-prov-x",
		"SVC_SERVICE_URL=" + serving(t, 200, answer)}, environ...)
	return cmd
}

// codes are the control codes that the live view may send.
var codes = regexp.MustCompile(`\x1b\[(\?1049[hl]|\?25[hl]|\?7[hl]|H|J|K|[0-9]*m)`)

// wantHarmless fails the test if other control codes than those of the view reach the terminal.
func wantHarmless(t *testing.T, shown string) {
	t.Helper()
	for _, r := range codes.ReplaceAllString(shown, "") {
		if unicode.IsControl(r) && r != '\r' && r != '\n' {
			t.Errorf("the terminal was sent %U, want none but the codes of the view", r)
		}
	}
}

func TestTheLiveViewIsRenewedAndFitsTheTerminal(t *testing.T) {
	term := terminaltest.Open(t)
	term.Resize(t, 100, 200)
	term.Run(t, statusOf(t))
	for _, want := range []string{"0 under way, 1 served", "Active (Probation)", "0 under way, 2 served",
		"0 under way, 3 served"} {
		term.Expect(t, want)
	}
	term.Resize(t, 8, 30)
	term.Expect(t, "more lines")
	term.Expect(t, "\x1b[J")
	shown := term.Text()
	frame := shown[strings.LastIndex(shown, "\x1b[H"):]
	lines := strings.Split(strings.TrimSuffix(codes.ReplaceAllString(frame, ""), "\r\n"), "\r\n")
	if len(lines) > 8 {
		t.Errorf("lines in a terminal of 8: got %d, want at most 8", len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > 30 {
			t.Errorf("a line in a terminal of 30 columns: got %d characters, want at most 30: %q", n, line)
		}
	}
	wantHarmless(t, shown)
}

func TestTheTerminalIsAsBeforeAfterTheLiveView(t *testing.T) {
	for what, leave := range map[string]func(t *testing.T, term *terminaltest.Terminal){
		"q":      func(t *testing.T, term *terminaltest.Terminal) { term.Type(t, "xq") },
		"Ctrl-C": func(t *testing.T, term *terminaltest.Terminal) { term.Type(t, "\x03") },
		"SIGTERM": func(t *testing.T, term *terminaltest.Terminal) {
			if err := syscall.Kill(-term.Group, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			term := terminaltest.Open(t)
			before := term.Modes(t)
			term.Run(t, statusOf(t))
			term.Expect(t, "served")
			if term.Modes(t) == before {
				t.Error("in the view: the terminal shows what is typed, want that it does not")
			}
			leave(t, term)
			if err := <-term.Done; err != nil {
				t.Errorf("got the error %v, want none", err)
			}
			if got := term.Modes(t); got != before {
				t.Errorf("the modes: got %v, want %v as before", got, before)
			}
			if shown := term.Text(); !strings.HasSuffix(shown, leaveView) {
				t.Errorf("the end: got %q, want that the first screen is back", shown[max(0, len(shown)-100):])
			}
		})
	}
}

func TestWhatIsNoTerminalGetsTextOnce(t *testing.T) {
	text, err := statusOf(t).Output()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(text, '\x1b') {
		t.Errorf("got %q, want no codes", text)
	}
	if got := bytes.Count(text, []byte("served")); got != 1 {
		t.Errorf("how often the requests are printed: got %d, want 1", got)
	}
	term := terminaltest.Start(t, statusOf(t, "TERM=dumb"))
	if err := <-term.Done; err != nil {
		t.Errorf("a dumb terminal: got the error %v, want none", err)
	}
	if shown := term.Text(); strings.ContainsRune(shown, '\x1b') {
		t.Errorf("a dumb terminal: got %q, want no codes", shown)
	}
}
