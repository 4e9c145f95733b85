package proc

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestANameMayHoldBlanksAndBrackets(t *testing.T) {
	s, err := parseStat([]byte("42 (a) (b)) S 7 42 42 0 -1 4194304 1 2 3 4 150 50 20 30 20 0 1 0"))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case s.name != "a) (b)":
		t.Errorf(`read: s.name: got %q, want "a) (b)"`, s.name)
	case s.ppid != 7:
		t.Errorf("read: s.ppid: got %d, want 7", s.ppid)
	case s.cpu != 2:
		t.Errorf("read: s.cpu: got %v, want 2", s.cpu)
	case s.dead != 0.5:
		t.Errorf("read: s.dead: got %v, want 0.5", s.dead)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 7", ")("} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestPssIsReadInBytes(t *testing.T) {
	n, err := parsePss(
		[]byte("55c9-7ffc ---p 00000000 00:00 0   [rollup]\nRss:      1808 kB\nPss:       284 kB\nPss_Dirty:  1 kB\n"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if n != 284<<10 {
		t.Errorf("read: got %d, want 284<<10", n)
	}
	for _, bad := range []string{"", "Rss: 1 kB\n", "Pss: many kB\n", "Pss: 12\n"} {
		if _, err := parsePss([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestRunningIsTheFourthField(t *testing.T) {
	n, err := parseRunning([]byte("2.34 1.79 0.88 4/111 18293\n"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if n != 4 {
		t.Errorf("running: got %d, want 4", n)
	}
	for _, bad := range []string{"", "1 2 3", "1 2 3 4 5", "1 2 3 x/9 5"} {
		if _, err := parseRunning([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestSpentIsByNameAndInAll(t *testing.T) {
	by, sum := Spent(map[string]float64{"a": 1, "gone": 5}, map[string]float64{"a": 3, "new": 4})
	if want := (map[string]float64{"a": 2, "new": 4}); !maps.Equal(by, want) {
		t.Errorf("by name: got %v, want %v", by, want)
	}
	if sum != 6 {
		t.Errorf("sum: got %v, want 6", sum)
	}
}

// A hundredth of a second, which is as fine as /proc counts, is too coarse for
// loads of a few hundred requests.
func TestCPUIsFinerThanAHundredthOfASecond(t *testing.T) {
	for range 100 {
		cpu, err := cpuClock(os.Getpid())
		if err != nil {
			t.Skip(err)
		}
		if cpu%(10*time.Millisecond) != 0 {
			return
		}
	}
	t.Error("a hundred readings: got whole hundredths of a second alone, want some between")
}

// child starts a process that waits for its input to end.
func child(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestAGroupHasItsChildrenButForTheExcepted(t *testing.T) {
	pid := child(t)
	if all := (Group{Roots: []int{os.Getpid()}}).Pids(); !slices.Contains(all, pid) {
		t.Errorf("all: got %v, want %d in it", all, pid)
	} else if !slices.Contains(all, os.Getpid()) {
		t.Errorf("all: got %v, want %d in it", all, os.Getpid())
	}
	if some := (Group{Roots: []int{os.Getpid()}, Except: []string{"cat"}}).Pids(); slices.Contains(some, pid) {
		t.Errorf("with one excepted: got %v, want it without %d", some, pid)
	}
	if twice := (Group{Roots: []int{pid, pid}}).Pids(); len(twice) != 1 {
		t.Errorf("processes of a root named twice: got %d, want 1, in %v", len(twice), twice)
	}
}

func TestALongNameIsComparedAsTheKernelCutsIt(t *testing.T) {
	if !(Group{Except: []string{"a-very-long-process-name"}}).excepts("a-very-long-pro") {
		t.Error("the name was compared whole")
	}
}

func TestTheListenerOfAPortIsFound(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	pids, err := Listeners(lis.Addr().(*net.TCPAddr).Port)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if want := os.Getpid(); !slices.Contains(pids, want) {
		t.Errorf("found: got %v, want %d in it", pids, want)
	}
}

func TestMemoryIsThatOfTheProcess(t *testing.T) {
	if m := Memory([]int{os.Getpid()}); m < 1<<20 {
		t.Errorf("memory of this process: got %d, want at least 1<<20", m)
	}
}
