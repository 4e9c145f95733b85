package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
)

// ensureSoon ensures a stream as soon as the cluster has a leader, who answers none of the
// requests from before.
func ensureSoon(t *testing.T, c *bus.Conn, cfg bus.StreamConfig) {
	t.Helper()
	patient := patientContext(t)
	try := func() error {
		ctx, cancel := context.WithTimeout(patient, time.Second)
		defer cancel()
		return c.EnsureStream(ctx, cfg)
	}
	for err := try(); err != nil; err = try() {
		if patient.Err() != nil {
			t.Fatalf("ensure %s: got the error %v, want none", cfg.Name, err)
		}
	}
}

// fill says facts of 1 KiB on further subjects until one is refused, and returns how many
// were taken and the error.
func fill(t *testing.T, c *bus.Conn) (taken int, err error) {
	t.Helper()
	for ; taken < 64; taken++ {
		if err = sayBytes(t, c, fmt.Sprint("fact.", taken), "first", 1<<10); err != nil {
			return taken, err
		}
	}
	return taken, nil
}

func sayBytes(t *testing.T, c *bus.Conn, subject, round string, size int) error {
	t.Helper()
	_, err := c.PublishStream(patientContext(t), subject, subject+" "+round, make([]byte, size), nil)
	return err
}

// A cluster counts a message before it knows which one the message replaces.
func TestAFullStreamOfAClusterTakesChangesOfFacts(t *testing.T) {
	t.Parallel()
	c := join(t, bus.Config{URL: cluster(t, 3), Replicas: 3})
	small := facts
	small.MaxBytes = 32 << 10
	ensureSoon(t, c, small)
	taken, err := fill(t, c)
	if err == nil {
		t.Fatalf("facts in 32 KiB: got %d of 1 KiB taken, want some refused", taken)
	}
	for round := range 3 {
		for n := range taken {
			if err := sayBytes(t, c, fmt.Sprint("fact.", n), fmt.Sprint(round), 1<<10); err != nil {
				t.Fatalf("round %d, fact %d of %d: got the error %v, want none", round, n, taken, err)
			}
		}
	}
	if n := countSoon(t, c, small); n != taken {
		t.Errorf("facts read: got %d, want the %d that were taken", n, taken)
	}
}

// countSoon returns how many facts a stream has. A stream of a cluster has no leader for
// moments when the machine is busy, so the reading is repeated.
func countSoon(t *testing.T, c *bus.Conn, cfg bus.StreamConfig) int {
	t.Helper()
	patient := patientContext(t)
	for {
		n, err := c.ReadLast(patient, cfg, func(bus.Message) {})
		if err == nil {
			return n
		}
		if patient.Err() != nil {
			t.Fatalf("read %s: got the error %v, want none", cfg.Name, err)
		}
	}
}

// What grows stands beside what it replaces for a moment, so the last eighth stays free.
func TestFactsGrowIntoTheRoomThatFurtherFactsDoNotGetAndNoFurther(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	small := facts
	small.MaxBytes = 32 << 10
	ensureSoon(t, c, small)
	taken, err := fill(t, c)
	if !errors.Is(err, bus.ErrFull) {
		t.Fatalf("after %d facts: got the error %v, want %v", taken, err, bus.ErrFull)
	}
	if taken < 18 || taken > 24 {
		t.Errorf("facts of 1 KiB in 32 KiB: got %d, want 18 to 24", taken)
	}
	grown := 0
	for err = nil; grown < taken; grown++ {
		if err = sayBytes(t, c, fmt.Sprint("fact.", grown), "grown", 2<<10); err != nil {
			break
		}
	}
	if !errors.Is(err, bus.ErrFull) {
		t.Errorf("after %d of %d grew: got the error %v, want %v", grown, taken, err, bus.ErrFull)
	}
	if grown < 2 {
		t.Errorf("facts that grew by 1 KiB: got %d, want 2 or more in 4 KiB", grown)
	}
	if err := sayBytes(t, c, fmt.Sprint("fact.", taken-1), "same", 1<<10); err != nil {
		t.Errorf("a fact of the same size: got the error %v, want none", err)
	}
}

func TestFactsUnderWayCountBeforeTheyAreStored(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	small := facts
	small.MaxBytes = 32 << 10
	ensureSoon(t, c, small)
	var futures []*bus.Future
	for n := range 64 {
		subject := fmt.Sprint("fact.", n)
		f, err := c.PublishStreamAsync(patientContext(t), subject, subject, make([]byte, 1<<10), nil)
		if errors.Is(err, bus.ErrFull) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	for n, f := range futures {
		if _, err := f.Wait(patientContext(t)); err != nil {
			t.Errorf("message %d of %d that were let in: got the error %v, want none", n, len(futures), err)
		}
	}
	if len(futures) > 24 {
		t.Errorf("messages let in: got %d of 1 KiB, want at most 24 in three quarters of 32 KiB", len(futures))
	}
}

func TestAPublisherLooksAtStreamsOfFactsAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"trust.v1.*", "trust.v1.p-1", true},
		{"trust.v1.*", "trust.v1", false},
		{"trust.v1.*", "trust.v1.p-1.x", false},
		{"trust.v1", "trust.v1", true},
		{"trust.>", "trust.v1.p-1", true},
		{"trust.>", "trust", false},
		{"trust.sync.v1", "trust.v1.p-1", false},
	} {
		if got := bus.Listens(c.pattern, c.subject); got != c.want {
			t.Errorf("%s takes %s: got %t, want %t", c.pattern, c.subject, got, c.want)
		}
	}
}

func TestTheVerifierReadsWhatItsReportReplaces(t *testing.T) {
	t.Parallel()
	const call = "$JS.API.STREAM.MSG.GET.TRUST"
	for name, s := range servers(t) {
		for _, id := range everybody() {
			nc := s.dial(t, id)
			if err := nc.Publish(call, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if got, want := refused(t, nc, publication, call), id.Name() != "verifier"; got != want {
				t.Errorf("%s: %s by %s: got refused %t, want %t", name, call, id.Name(), got, want)
			}
		}
	}
}
