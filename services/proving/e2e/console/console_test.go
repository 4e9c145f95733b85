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

// isChosen reports whether the tests of a folder of their own are to run.
func isChosen(folder string) bool { return len(chosen()) == 0 || slices.Contains(chosen(), folder) }

// chosenHere are those of chosen that are not in folders of their own.
func chosenHere() []string {
	return slices.DeleteFunc(chosen(), func(part string) bool { return part == town || part == pictures })
}

// named chooses single tests: those whose names fit the regular expression CONSOLE_NAMES, if there is one.
func named() []string {
	if names := os.Getenv("CONSOLE_NAMES"); names != "" {
		return []string{"--testNamePattern", names}
	}
	return nil
}

// TestEachPageAndFlowOfTheConsoleWorksInABrowser runs the browser's tests of the console but those in town and the
// pictures. CONSOLE_TESTS chooses files of them by parts of their names, CONSOLE_NAMES single tests, and SCREENSHOTS
// names a folder for pictures of each page.
func TestEachPageAndFlowOfTheConsoleWorksInABrowser(t *testing.T) {
	if testing.Short() || len(chosen()) > 0 && len(chosenHere()) == 0 {
		t.Skip("it takes minutes, and was not chosen")
	}
	chromium := needBrowser(t)
	address, letters := "http://"+trial.FreeAddress(t), t.TempDir()
	m := trial.StartIn(t, t.TempDir(), append(visited(),
		"DATABASE_URL="+pgtest.URL(t), "SVC_HTTP_ADDR="+strings.TrimPrefix(address, "http://"),
		"SVC_MAIL_SENDER=file", "SVC_MAIL_FOLDER="+letters, "SVC_MAIL_SITE_URL="+address)...)
	browse(t, m, nil, slices.Concat(named(), chosenHere(),
		[]string{"--exclude", "e2e/" + town + "/**", "--exclude", "e2e/" + pictures + "/**"}), append(inCI(t),
		"CHROMIUM="+chromium, "SVC_MAIL_FOLDER="+letters,
		"SVC_INVITATION_FORMS="+invitation(t, m, "forms.admin"),
		"SVC_INVITATION_PAGES="+invitation(t, m, "pages.admin"),
		"SVC_INVITATION_OPERATOR="+invitation(t, m, "operator.admin"))...)
}

// inCI has CI keep one picture of each page, wide and light, unless SCREENSHOTS says otherwise: all four would take
// minutes.
func inCI(t *testing.T) []string {
	t.Helper()
	if os.Getenv("CI") != "true" || os.Getenv("SCREENSHOTS") != "" {
		return nil
	}
	folder, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".run", "screenshots"))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"SCREENSHOTS=" + folder, "SCREENSHOTS_ONLY=1440-light"}
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
