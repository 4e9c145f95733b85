package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/crash/crashtest"
)

// come has one process after the other come to a point, and counts those that have gone on.
func come(t *testing.T, points *crashtest.Controller, point string, processes int) *atomic.Int64 {
	t.Helper()
	var passed atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for range processes {
			conn, err := net.Dial("unix", points.Socket())
			if err != nil {
				t.Error(err)
				return
			}
			_, err = fmt.Fprintf(conn, "%s 17\n", point)
			_, answered := bufio.NewReader(conn).ReadString('\n')
			if err := errors.Join(err, answered, conn.Close()); err != nil {
				t.Error(err)
				return
			}
			passed.Add(1)
		}
	})
	t.Cleanup(wg.Wait) // nobody is left standing
	return &passed
}

func controller(t *testing.T) *crashtest.Controller {
	t.Helper()
	points, err := crashtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := points.Close(); err != nil {
			t.Error(err)
		}
	})
	return points
}

// Penalties come to the moments of payouts too, and before them.
func TestEachProcessStandsUntilTheChainWasLookedAt(t *testing.T) {
	t.Parallel()
	const point, looks = "a.sent", 3
	points := controller(t)
	stand := points.Arm(point, 1)
	passed := come(t, points, point, looks+2)
	<-stand.Reached()
	looked := int64(0)
	err := moment{points: points, point: point}.each(t.Context(), stand.Release, time.Hour, func() (bool, error) {
		if got := passed.Load(); got != looked {
			t.Errorf("processes that have gone on: got %d, want %d", got, looked)
		}
		looked++
		return looked == looks, nil
	})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	if looked != looks {
		t.Errorf("looks: got %d, want %d", looked, looks)
	}
}

func TestAMomentThatIsOverIsMissed(t *testing.T) {
	t.Parallel()
	points := controller(t)
	over := make(chan struct{})
	at := moment{points: points, point: "a.sent", over: over}
	stand := points.Arm("a.sent", 1)
	come(t, points, "a.sent", 1)
	<-stand.Reached()
	err := at.each(t.Context(), stand.Release, time.Hour, func() (bool, error) { close(over); return false, nil })
	if !errors.Is(err, errMissed) {
		t.Errorf("got the error %v, want %v", err, errMissed)
	}
	come(t, points, "a.sent", 1)
}

// A process that another fault stops on its way comes late, and what it has sent is there all the same.
func TestAMomentThatNobodyComesToIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	points := controller(t)
	looks := 0
	err := moment{points: points, point: "a.sent"}.each(t.Context(), func() {}, time.Millisecond,
		func() (bool, error) { looks++; return looks == 3, nil })
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}
