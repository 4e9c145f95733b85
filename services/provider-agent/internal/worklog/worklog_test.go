package worklog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/workreceipt"
)

// dated is a clock that the test sets.
type dated struct {
	clock.Clock
	mu  sync.Mutex
	now time.Time
}

func (d *dated) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *dated) set(text string) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = at
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func receipt(model string, complete bool) workreceipt.Receipt {
	return workreceipt.Receipt{Model: model, Claimed: true, ClaimedPrompt: 7, ClaimedCompletion: 5, SentTokens: 4,
		Complete: complete}
}

// days reads the folder, and prints what it has.
func days(t *testing.T, dir string) string {
	t.Helper()
	all, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(all)
}

func TestEachUTCDayHasOneLineAndARestartCountsOn(t *testing.T) {
	dir, at := t.TempDir(), &dated{}
	at.set("2026-11-28T10:00:00Z")
	l := Open(dir, at, silent())
	l.Chat(receipt("a", true))
	l.Chat(receipt("a", false))
	at.set("2026-11-28T23:55:00Z")
	l.Other("b")
	l.write()
	l = Open(dir, at, silent()) // a restart
	unclaimed := receipt("a", true)
	unclaimed.Claimed = false
	l.Chat(unclaimed)
	at.set("2026-11-29T00:00:00Z")
	l.Chat(receipt("a", true))
	at.set("2026-11-28T23:59:00Z") // the clock goes back
	l.Chat(receipt("a", true))
	l.write()
	const want = "[{2026-11-28 4 1 2 map[a:{3 14 14} b:{1 0 0}]} {2026-11-29 2 0 1 map[a:{2 14 10}]}]"
	if got := days(t, dir); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for file, lines := range map[string]int{daysFile: 1, todayFile: 1} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "\n"); got != lines {
			t.Errorf("%s: lines: got %d, want %d", file, got, lines)
		}
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s: mode: got %o, want 600", file, got)
		}
	}
}

func TestDaysAndModelsAreBounded(t *testing.T) {
	dir, at := t.TempDir(), &dated{now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	l := Open(dir, at, silent())
	for n := range MaxDays + 50 {
		at.now = at.now.AddDate(0, 0, 1)
		l.Chat(receipt("m", true))
		if n%100 == 0 {
			l.write()
		}
	}
	last := at.now.Format(time.DateOnly)
	for n := range MaxModels + 10 {
		l.Chat(receipt(fmt.Sprintf("m%d", n), true))
	}
	l.write()
	all, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != MaxDays {
		t.Fatalf("days: got %d, want %d", len(all), MaxDays)
	}
	text, err := os.ReadFile(filepath.Join(dir, daysFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "\n"); got != MaxDays-1 {
		t.Errorf("lines of the days before: got %d, want %d", got, MaxDays-1)
	}
	today := all[MaxDays-1]
	if today.Day != last {
		t.Errorf("the last day: got %s, want %s", today.Day, last)
	}
	if got := len(today.Models); got != MaxModels+1 {
		t.Errorf("models: got %d, want %d and the others", got, MaxModels)
	}
	if got := today.Models[Others].Requests; got != 11 { // the earlier model m is one of the MaxModels
		t.Errorf("requests of the others: got %d, want 11", got)
	}
	l.days = nil
	for n := range 5 {
		l.days = append(l.days, Day{Day: fmt.Sprintf("2026-01-0%d", n+1),
			Models: map[string]Work{strings.Repeat("x", maxFile/3): {}}})
	}
	if err := l.writeDays(l.days); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, daysFile))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxFile {
		t.Errorf("the file: got %d bytes, want at most %d", info.Size(), maxFile)
	}
}

// An agent may be killed at any moment: between the two files, or while it writes one.
func TestAKilledAgentCountsNoDayTwiceAndLosesNone(t *testing.T) {
	dir, at := t.TempDir(), &dated{}
	at.set("2026-11-28T10:00:00Z")
	l := Open(dir, at, silent())
	l.Chat(receipt("a", true))
	l.write()
	at.set("2026-11-29T10:00:00Z")
	l.Chat(receipt("a", true))
	if err := l.writeDays(l.days); err != nil { // killed before the file of the day is written
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, todayFile+".new"), []byte(`{"day":"2026-11-29","requ`), 0o600); err != nil {
		t.Fatal(err)
	}
	const one = "[{2026-11-28 1 0 0 map[a:{1 7 5}]}]"
	if got := days(t, dir); got != one {
		t.Errorf("between the files: got %s, want %s", got, one)
	}
	l = Open(dir, at, silent())
	l.Chat(receipt("a", true))
	l.write()
	const two = "[{2026-11-28 1 0 0 map[a:{1 7 5}]} {2026-11-29 1 0 0 map[a:{1 7 5}]}]"
	if got := days(t, dir); got != two {
		t.Errorf("after the next start: got %s, want %s", got, two)
	}
	if err := os.WriteFile(filepath.Join(dir, daysFile), []byte("garbage\n{\"day\":\"2026-11-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = "[{2026-11-29 1 0 0 map[a:{1 7 5}]}]"
	if got := days(t, dir); got != rest {
		t.Errorf("with lines that cannot be read: got %s, want %s", got, rest)
	}
}

// counting is the environment variable that makes a process of the test count until it is killed.
const counting = "SVC_TEST_COUNTING"

// A process that counts as fast as it can is killed while it writes, again and again. What is left is
// always whole, and never less than before.
func TestAFileIsWholeWheneverTheAgentIsKilled(t *testing.T) {
	if dir := os.Getenv(counting); dir != "" {
		for l := Open(dir, clock.System, silent()); ; l.write() {
			l.Other("m")
		}
	}
	dir, last := t.TempDir(), int64(0)
	for n := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), counting+"="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for counted(t, dir) < last+5 { // ends with the test's time
			if t.Context().Err() != nil {
				t.Fatal("nothing is counted")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var killed *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &killed) {
			t.Fatalf("the process: got the error %v, want that it was killed", err)
		}
		now := counted(t, dir)
		if now < last+5 {
			t.Fatalf("kill %d: got %d requests, want at least %d", n, now, last+5)
		}
		last = now
	}
}

// counted returns the number of requests of all days.
func counted(t *testing.T, dir string) (requests int64) {
	t.Helper()
	all, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		requests += d.Requests
	}
	return requests
}

func TestAFullDiskCostsNoCount(t *testing.T) {
	dir, at := t.TempDir(), &dated{}
	at.set("2026-11-28T10:00:00Z")
	l := Open(dir, at, silent())
	blocked := filepath.Join(dir, todayFile+".new")
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil { // nothing can be written there
		t.Fatal(err)
	}
	l.Chat(receipt("a", true))
	l.write()
	l.write()
	if got := days(t, dir); got != "[]" {
		t.Errorf("while nothing can be written: got %s, want none", got)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	l.write()
	if got := days(t, dir); got != "[{2026-11-28 1 0 0 map[a:{1 7 5}]}]" {
		t.Errorf("afterwards: got %s, want the count", got)
	}
}

// A machine may start with its clock years ahead, and set the clock right later.
func TestAStartWithAClockInTheFutureTakesNoCountsOfOtherDays(t *testing.T) {
	dir, at := t.TempDir(), &dated{}
	start := func(now string) *Log {
		at.set(now)
		l := Open(dir, at, silent())
		l.Chat(receipt("a", true))
		l.write()
		return l
	}
	start("2031-05-05T10:00:00Z")
	l := start("2026-11-28T10:00:00Z")
	at.set("2026-11-29T10:00:00Z")
	l.Chat(receipt("a", true))
	l.write()
	start("2026-11-29T11:00:00Z")
	const want = "[{2026-11-28 1 0 0 map[a:{1 7 5}]} {2026-11-29 2 0 0 map[a:{2 14 10}]} " +
		"{2031-05-05 1 0 0 map[a:{1 7 5}]}]"
	if got := days(t, dir); got != want {
		t.Errorf("after the clock was set right:\ngot  %s\nwant %s", got, want)
	}
	// The clock leaps again, and back. The agent is killed each time before the file of the day under
	// way is written.
	l = start("2031-05-05T10:00:00Z")
	const leapt = "[{2026-11-28 1 0 0 map[a:{1 7 5}]} {2026-11-29 2 0 0 map[a:{2 14 10}]} " +
		"{2031-05-05 2 0 0 map[a:{2 14 10}]}]"
	at.set("2026-11-29T12:00:00Z")
	l.Chat(receipt("a", true))
	if err := l.writeDays(l.days); err != nil {
		t.Fatal(err)
	}
	if got := days(t, dir); got != leapt {
		t.Errorf("killed after it leapt back:\ngot  %s\nwant %s", got, leapt)
	}
	start("2026-11-29T13:00:00Z")
	const back = "[{2026-11-28 1 0 0 map[a:{1 7 5}]} {2026-11-29 3 0 0 map[a:{3 21 15}]} " +
		"{2031-05-05 2 0 0 map[a:{2 14 10}]}]"
	if got := days(t, dir); got != back {
		t.Errorf("after the next start:\ngot  %s\nwant %s", got, back)
	}
}

// A file that somebody has put where the temporary one goes is not written to.
func TestALeftOverFileIsNeitherFollowedNorUsedAgain(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
	path := filepath.Join(dir, todayFile)
	if err := os.WriteFile(elsewhere, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, []byte("mine")); err != nil {
		t.Fatalf("a link: got the error %v, want none", err)
	}
	text, err := os.ReadFile(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != "theirs" {
		t.Errorf("the file behind the link: got %q, want %q", text, "theirs")
	}
	left := path + ".new"
	if err := errors.Join(os.WriteFile(left, nil, 0o600), os.Chmod(left, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, []byte("mine")); err != nil {
		t.Fatalf("a file: got the error %v, want none", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != 0o600 {
		t.Errorf("a file: mode: got %v, want that of a file which its owner alone reads", got)
	}
}
