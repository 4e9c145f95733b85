//go:build crashpoints

package crash_test

import (
	"os"
	"testing"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/crash/crashtest"
)

// patience bounds every wait; nothing should come near it.
const patience = 90 * time.Second

func harness(t *testing.T) *crashtest.Controller {
	t.Helper()
	c, err := crashtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(crash.EnvSocket, c.Socket())
	return c
}

// reach calls At and tells when it has returned.
func reach(point string) <-chan struct{} {
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		crash.At(point)
	}()
	return passed
}

func within[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("still not: %s", what)
	}
	return v
}

func TestAnArmedPointStandsUntilReleased(t *testing.T) {
	c := harness(t)
	stand := c.Arm("test.armed", 2)
	within(t, "the first hit passes", reach("test.armed"))
	passed := reach("test.armed")
	if pid := within(t, "the second hit stands", stand.Reached()); pid != os.Getpid() {
		t.Errorf("told of process: got %d, want %d", pid, os.Getpid())
	}
	within(t, "the third hit passes", reach("test.armed"))
	within(t, "another point passes", reach("test.other"))
	select {
	case <-passed:
		t.Fatal("the point was passed without leave")
	default:
	}
	stand.Release()
	within(t, "the second hit goes on", passed)
	if c.Hits("test.armed") != 3 {
		t.Errorf("counted: got %d, want 3", c.Hits("test.armed"))
	} else if c.Hits("test.other") != 1 {
		t.Errorf(`c.Hits("test.other"): got %d, want 1`, c.Hits("test.other"))
	}
}

func TestReleasedBeforeItIsReachedAPointPasses(t *testing.T) {
	c := harness(t)
	stand := c.Arm("test.armed", 1)
	stand.Release()
	within(t, "the hit passes", reach("test.armed"))
	stand.Release()
}

func TestWithoutAHarnessEveryPointPasses(t *testing.T) {
	c := harness(t)
	stand := c.Arm("test.armed", 1)
	passed := reach("test.armed")
	within(t, "the hit stands", stand.Reached())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	within(t, "the end of the harness is leave to go on", passed)
	within(t, "a harness that is gone holds nobody", reach("test.armed"))
	t.Setenv(crash.EnvSocket, "")
	within(t, "without a socket nobody is asked", reach("test.armed"))
}

func TestOnlyWhatIsNamedIsPlanted(t *testing.T) {
	t.Setenv(crash.EnvPlant, crash.SkipPrimaryKey+","+crash.JournalWithoutFsync)
	for name, want := range map[string]bool{
		crash.SkipPrimaryKey: true, crash.JournalWithoutFsync: true, crash.SettledBeforeCommit: false, "": false,
	} {
		if crash.Planted(name) != want {
			t.Errorf("%q is planted: %v", name, !want)
		}
	}
	t.Setenv(crash.EnvPlant, "")
	if crash.Planted(crash.SkipPrimaryKey) {
		t.Error("a fault is planted that nobody asked for")
	}
}
