package effects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/probe"
)

// outbox is an outbox in memory, and the services that are called. It notes what happens.
type outbox struct {
	mu    sync.Mutex
	list  []Effect
	noted []string
	err   error
	// hang is closed when settlement answers; nil for at once.
	hang chan struct{}
}

func (o *outbox) note(format string, args ...any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noted = append(o.noted, fmt.Sprintf(format, args...))
	return nil
}

func (o *outbox) TakeEffects(_ context.Context, _ string, limit int) ([]Effect, error) {
	n := min(limit, len(o.list))
	taken := o.list[:n]
	o.list = o.list[n:]
	return taken, nil
}

func (o *outbox) EffectDone(_ context.Context, _ string, id int64) error {
	return o.note("done %d", id)
}

func (o *outbox) EffectFailed(_ context.Context, _ string, id int64, problem string) error {
	return o.note("delay %d %s", id, problem)
}

func (o *outbox) EffectRefused(_ context.Context, _ string, id int64, problem string) error {
	return o.note("refuse %d %s", id, problem)
}

func (o *outbox) Benchmark(
	_ context.Context, _ ids.ProviderID, passed bool, _ time.Time, revision int64, reason string,
) error {
	_ = o.note("benchmark %t %d %s", passed, revision, reason)
	return o.err
}

func (o *outbox) Expel(_ context.Context, _ ids.ProviderID, v probe.VerdictID, _ string) error {
	_ = o.note("expel %d", v[15])
	return o.err
}

func (o *outbox) Reinstate(_ context.Context, _ ids.ProviderID, v probe.VerdictID, _ string) error {
	_ = o.note("reinstate %d", v[15])
	return o.err
}

func (o *outbox) Open(_ context.Context, p peers.Penalty) (time.Time, error) {
	if o.hang != nil {
		<-o.hang
	}
	_ = o.note("open %d", p.BasisPoints)
	return time.Time{}, o.err
}

func worker(o *outbox) *Worker {
	return &Worker{Replica: "one", Outbox: o, Hubs: o, Settlement: o, Log: slog.New(slog.DiscardHandler),
		Ended: func(_ context.Context, k Kind, how string) { _ = o.note("%s %s", k, how) }}
}

func TestEachKindIsOneCallOfItsService(t *testing.T) {
	t.Parallel()
	o := &outbox{}
	for i, k := range Kinds() {
		o.list = []Effect{{ID: int64(i), Kind: k, Subject: probe.VerdictID{15: byte(i)}, Revision: 7, Passed: true,
			Summary: "s", Penalty: peers.Penalty{BasisPoints: 1000}}}
		n, err := worker(o).Pass(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n != 1 {
			t.Errorf("effects taken: got %d, want 1", n)
		}
	}
	want := []string{"open 1000", "open_penalty done", "done 0", "expel 1", "expel done", "done 1", "reinstate 2",
		"reinstate done", "done 2", "benchmark true 7 s", "report_benchmark done", "done 3"}
	if !slices.Equal(o.noted, want) {
		t.Errorf("got %q, want %q", o.noted, want)
	}
}

// A settlement that does not answer must not keep a provider from its activation.
func TestACallThatHangsKeepsNoOtherProviderWaiting(t *testing.T) {
	t.Parallel()
	o := &outbox{hang: make(chan struct{}), list: []Effect{{ID: 1, Kind: OpenPenalty}, {ID: 2, Kind: ReportBenchmark}}}
	w := worker(o)
	w.Ended = func(_ context.Context, k Kind, how string) {
		_ = o.note("%s %s", k, how)
		if k == ReportBenchmark {
			close(o.hang) // only then settlement answers
		}
	}
	if _, err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := o.noted[len(o.noted)-1], "done 1"; got != want {
		t.Errorf("the last: got %q, want %q", got, want)
	}
}

func TestWhatIsRefusedForGoodIsTriedNoMore(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]string{
		fault.Invalid: "refuse", fault.NotFound: "refuse", fault.Precondition: "refuse", fault.Conflict: "refuse",
		fault.Unavailable: "delay", fault.Timeout: "delay", fault.Denied: "delay", fault.Internal: "delay",
		fault.Exhausted: "delay", fault.Canceled: "delay",
	} {
		o := &outbox{list: []Effect{{ID: 3, Kind: Expel}}, err: fault.New(kind, "some_reason", "text")}
		if _, err := worker(o).Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := o.noted[len(o.noted)-1]; !strings.HasPrefix(got, want+" 3 some_reason: text") {
			t.Errorf("kind %v: got %q, want %s", kind, got, want)
		}
	}
}

// A hub whose clock is behind the database's refuses a benchmark of today.
func TestWhatIsRefusedForATimeInTheFutureIsTriedAgain(t *testing.T) {
	t.Parallel()
	refusal := fault.ToStatus(fault.New(fault.Precondition, fault.TimeInFuture, "passed_at is in the future"))
	o := &outbox{list: []Effect{{ID: 3, Kind: ReportBenchmark}}, err: fault.FromError(refusal)}
	if _, err := worker(o).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := o.noted[len(o.noted)-1], "delay 3 time_in_future: passed_at is in the future"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The text of an error that is no fault may hold anything, so nobody shows it.
func TestAnErrorThatIsNoFaultIsDelayedWithoutItsText(t *testing.T) {
	t.Parallel()
	o := &outbox{list: []Effect{{ID: 3, Kind: Expel}}, err: errors.New("secret")}
	if _, err := worker(o).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := o.noted[len(o.noted)-1], "delay 3 the call failed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnEffectOfNoKindIsRefused(t *testing.T) {
	t.Parallel()
	o := &outbox{list: []Effect{{ID: 3, Kind: "x"}}}
	if _, err := worker(o).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := o.noted[len(o.noted)-1]; !strings.HasPrefix(got, "refuse 3") {
		t.Errorf("got %q, want it refused", got)
	}
}

func TestTextsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	got := cut(strings.Repeat("ä", 200))
	if !utf8.ValidString(got) {
		t.Errorf("got %q, want whole characters", got)
	}
	if len(got) > maxReason-64 {
		t.Errorf("got %d bytes, want at most %d", len(got), maxReason-64)
	}
}
