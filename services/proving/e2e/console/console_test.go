package console

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/proving/internal/trial"
)

// patience bounds the browser's tests. They take some two minutes on two cores.
const patience = 30 * time.Minute

// pages is the folder of the console's sources.
var pages = filepath.Join("..", "..", "..", "console")

// town is the folder of the flows that need chains and a time that passes.
const town = "town"

// chosen are the parts of names of files of tests that CONSOLE_TESTS chooses; empty for all.
func chosen() []string { return strings.Fields(os.Getenv("CONSOLE_TESTS")) }

// TestEachPageAndFlowOfTheConsoleWorksInABrowser runs the browser's tests of the console but those in town.
// CONSOLE_TESTS chooses files of them by parts of their names, and SCREENSHOTS names a folder for pictures of
// each page.
func TestEachPageAndFlowOfTheConsoleWorksInABrowser(t *testing.T) {
	if testing.Short() || slices.Contains(chosen(), town) {
		t.Skip("it takes minutes, and was not chosen")
	}
	chromium := needBrowser(t)
	address, letters := "http://"+trial.FreeAddress(t), t.TempDir()
	m := trial.StartIn(t, t.TempDir(), append(visited(),
		"DATABASE_URL="+pgtest.URL(t), "SVC_HTTP_ADDR="+strings.TrimPrefix(address, "http://"),
		"SVC_MAIL_SENDER=file", "SVC_MAIL_FOLDER="+letters, "SVC_MAIL_SITE_URL="+address)...)
	browse(t, m, nil, append(chosen(), "--exclude", "e2e/"+town+"/**"),
		"CHROMIUM="+chromium, "SVC_MAIL_FOLDER="+letters,
		"SVC_INVITATION_FORMS="+invitation(t, m, "forms.admin"),
		"SVC_INVITATION_PAGES="+invitation(t, m, "pages.admin"),
		"SVC_INVITATION_OPERATOR="+invitation(t, m, "operator.admin"))
}

// visited are the settings of a marketplace whose visitors each say that they come from an address of their own,
// because an address may open few accounts an hour.
func visited() []string {
	return []string{"SVC_LOG_LEVEL=error", "SVC_GATEWAY_TRUSTED_PROXIES=127.0.0.1"}
}

// browse runs the browser's tests that args choose on a marketplace. Meanwhile it does what comes by acts.
func browse(t *testing.T, m *trial.Market, acts <-chan func(), args []string, environ ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel() // also where an act fails
	run := exec.CommandContext(ctx, "npm", append([]string{"run", "--silent", "e2e", "--"}, args...)...)
	run.Dir = pages
	run.Env = append(os.Environ(), "NO_COLOR=1")
	for name, value := range m.Env {
		run.Env = append(run.Env, name+"="+value)
	}
	run.Env = append(run.Env, environ...) // the last one of a name counts
	run.Stdout, run.Stderr = t.Output(), t.Output()
	endWithGroup(run)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	for {
		select {
		case act := <-acts:
			act()
		case err := <-ended:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Fatalf("the browser's tests are not over after %v", patience)
			}
			if err != nil {
				t.Fatalf("the browser's tests: got %v, want none failed", err)
			}
			return
		}
	}
}

// endWithGroup has a command that is stopped end with all that it started, which are node and Chromium.
func endWithGroup(run *exec.Cmd) {
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) }
	run.WaitDelay = 10 * time.Second
}

// invitation has an admin of the marketplace invite another.
func invitation(t *testing.T, m *trial.Market, name string) string {
	t.Helper()
	return trial.Text(t, m.Staff(t, http.MethodPost, "operators", `{"name":"`+name+`","role":"admin"}`), "invitation")
}

// needBrowser returns the path of Chromium. The test is skipped where a program is missing, unless it must
// not be. The packages of the console's lock file are installed if they are not there.
func needBrowser(t *testing.T) (chromium string) {
	t.Helper()
	for _, program := range []string{"node", "npm", "chromium"} {
		path, err := exec.LookPath(program)
		switch {
		case err == nil:
			chromium = path
		case os.Getenv("CI") == "true":
			t.Fatalf("%s: got %v, want it installed: run make prepare", program, err)
		default:
			t.Skipf("%s is not installed: make prepare installs Chromium", program)
		}
	}
	root := filepath.Join("..", "..", "..", "..")
	install := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", root,
		"console-packages")
	if said, err := install.CombinedOutput(); err != nil {
		t.Fatalf("the console's packages: %v\n%s", err, said)
	}
	return chromium
}
