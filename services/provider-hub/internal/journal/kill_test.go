package journal_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/provider-hub/internal/journal"
)

const childFolder = "JOURNAL_TEST_CHILD_FOLDER"

// TestMain lets the test binary be the process that gets killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		fmt.Fprintln(os.Stderr, serveForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveForever records finals from several goroutines, and prints the key of each final
// that was acknowledged.
func serveForever(dir string) error {
	j, rec, err := journal.Open(realConfig(dir))
	if err != nil {
		return err
	}
	first := (rec.Unsettled + rec.Unfinished) * 10 // beyond all that is recorded
	var out sync.Mutex
	failed := make(chan error)
	for writer := range 8 {
		go func() {
			for n := first + writer; ; n += 8 {
				k := keyOf(n)
				if err := j.Dispatch(k, dispatchPayload(k)); err != nil {
					failed <- err
					return
				}
				if err := j.Final(contextForever(), k, finalPayload(k)); err != nil {
					failed <- err
					return
				}
				out.Lock()
				fmt.Fprintf(os.Stdout, "%s\n", hex.EncodeToString(k.Request[:]))
				out.Unlock()
			}
		}()
	}
	return <-failed
}

func TestAcknowledgedFinalSurvivesKill9(t *testing.T) {
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range 5 {
		killChildAfter(t, dir, 200+300*round, acked)
		j, rec, err := journal.Open(realConfig(dir))
		must(t, err)
		found := map[string]bool{}
		for _, k := range finals(t, rec.Finals()) {
			found[hex.EncodeToString(k.Request[:])] = true
		}
		for k := range acked {
			if !found[k] {
				t.Fatalf("round %d: acknowledged %s is lost", round, k)
			}
		}
		if rec.DamageTotal != 0 {
			t.Fatalf("round %d: damage: got %d, want 0", round, rec.DamageTotal)
		}
		t.Logf("round %d: %d acknowledged, %d found, %d unfinished, torn %v", round, len(acked), rec.Unsettled,
			rec.Unfinished, rec.Torn)
		must(t, j.Close())
	}
}

// killChildAfter runs a child until it has printed n keys, kills it, and adds
// every key it managed to print.
func killChildAfter(t *testing.T, dir string, n int, acked map[string]bool) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir)
	var complaints strings.Builder
	child.Stderr = &complaints
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	defer child.Wait() //nolint:errcheck // it was killed, so it always fails
	lines := bufio.NewScanner(out)
	printed := 0
	for lines.Scan() {
		if len(lines.Text()) == 32 {
			acked[lines.Text()] = true
		}
		if printed++; printed == n {
			must(t, child.Process.Kill())
		}
	}
	if printed < n {
		t.Fatalf("child ended after %d keys: %s: got %d, want at least %d", printed, complaints.String(), printed, n)
	}
}

func TestSecondProcessCannotOpenTheSameFolder(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, realConfig(dir))
	if _, _, err := journal.Open(realConfig(dir)); err == nil {
		t.Fatal("opened twice")
	}
	must(t, j.Close())
	open(t, realConfig(dir))
}
