package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// memory is Slices that note what they are asked.
type memory struct {
	mu     sync.Mutex
	called []string
	admits bool
	leave  error
	owner  [16]byte
}

func (m *memory) note(call string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.called = append(m.called, call)
}

func (m *memory) Admit(_ context.Context, r Reservation) (Decision, Pin, bool) {
	m.note("admit")
	if !m.admits {
		return Decision{}, Pin{}, false
	}
	return Decision{Outcome: Admitted}, Pin{Request: r.Request, Epoch: 7}, true
}

func (m *memory) Leave(context.Context, ids.KeyID) error {
	m.note("leave")
	return m.leave
}

func (m *memory) Recall(context.Context, ids.AccountID) error {
	m.note("recall")
	return m.leave
}

func (m *memory) Saw(_ Reservation, d Decision) { m.note("saw " + string(d.Outcome)) }

func (m *memory) Owns(open SliceOpen) bool { return open.Owner == m.owner }

// exact is a Decider that meets a slice at some keys, for as often as it is told.
type exact struct {
	mu      sync.Mutex
	memory  *memory
	meets   map[ids.KeyID]int
	owner   [16]byte
	batches []int
	// names reports whether an error names the slices of all keys.
	names bool
}

func (e *exact) Admit(_ context.Context, reservations []Reservation) ([]Decision, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.memory.note("decide")
	e.batches = append(e.batches, len(reservations))
	decisions := make([]Decision, 0, len(reservations))
	open := SliceOpen{Account: ids.AccountID{1}, Owner: e.owner}
	met := SlicesOpen{First: open, Of: map[ids.KeyID]SliceOpen{}}
	for _, r := range reservations {
		if e.meets[r.Key] > 0 && e.names {
			met.Of[r.Key] = open
			continue
		}
		if e.meets[r.Key] > 0 {
			e.meets[r.Key]--
			return nil, fmt.Errorf("decide: %w", open)
		}
		decisions = append(decisions, Decision{Outcome: Admitted})
	}
	if len(met.Of) > 0 {
		return nil, fmt.Errorf("decide: %w", met)
	}
	return decisions, nil
}

// withSlices runs test with an admitter that asks a memory first.
func withSlices(t *testing.T, test func(t *testing.T, a *Admitter, m *memory, e *exact, observed map[Outcome]int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{owner: [16]byte{5}}
		e := &exact{memory: m, meets: map[ids.KeyID]int{}, owner: m.owner}
		observed := map[Outcome]int{}
		prices := testAdmitter(&gate{}, 1, 1).prices
		a := NewAdmitter(Config{Batch: 8, Queue: 10, Writers: 1, Timeout: time.Second}, Deps{Prices: prices, Store: e,
			Slices: m, Observe: func(o Outcome, n int) { observed[o] += n }})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { a.Run(ctx) })
		synctest.Wait()
		test(t, a, m, e, observed)
		stop()
		running.Wait()
	})
}

func TestWhatIsAdmittedFromMemoryHasAPin(t *testing.T) {
	withSlices(t, func(t *testing.T, a *Admitter, m *memory, e *exact, observed map[Outcome]int) {
		m.admits = true
		got, err := a.Admit(t.Context(), AdmitRequest{Model: "m", Request: ids.RequestID{3}})
		if err != nil {
			t.Fatal(err)
		}
		if got.Pin == nil {
			t.Fatal("pin: got none, want the request's")
		}
		equal(t, "request of the pin", got.Pin.Request, ids.RequestID{3})
		equal(t, "epoch of the pin", got.Pin.Epoch, 7)
		if want := []string{"admit"}; !slices.Equal(m.called, want) {
			t.Errorf("called: got %v, want %v", m.called, want)
		}
		equal(t, "admissions observed", observed[Admitted], 1)
	})
}

func TestWhatMemoryDoubtsIsDecidedByTheStoreAfterTheSliceIsLeft(t *testing.T) {
	withSlices(t, func(t *testing.T, a *Admitter, m *memory, _ *exact, observed map[Outcome]int) {
		got, err := a.Admit(t.Context(), AdmitRequest{Model: "m"})
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		}
		if got.Pin != nil {
			t.Errorf("got the pin %+v, want none", got.Pin)
		}
		if want := []string{"admit", "leave", "decide", "saw admitted"}; !slices.Equal(m.called, want) {
			t.Errorf("got %v, want %v", m.called, want)
		}
		synctest.Wait()
		if observed[Admitted] != 1 {
			t.Errorf("got %d admissions observed, want 1", observed[Admitted])
		}
	})
}

func TestASliceThatCannotBeLeftIsUnavailable(t *testing.T) {
	withSlices(t, func(t *testing.T, a *Admitter, m *memory, e *exact, _ map[Outcome]int) {
		m.leave = errors.New("store down")
		if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
			t.Errorf("got the error %v, want %v", err, fault.AdmissionUnavailable)
		}
		if len(e.batches) > 0 {
			t.Errorf("got %d decisions of the store, want none", len(e.batches))
		}
	})
}

func TestASliceThatOpensHereMeanwhileIsAskedThenRecalled(t *testing.T) {
	for met, want := range map[int][]string{
		1: {"admit", "leave", "decide", "admit", "leave", "decide", "saw admitted"},
		2: {"admit", "leave", "decide", "admit", "leave", "decide", "recall", "admit", "leave", "decide", "saw admitted"},
	} {
		withSlices(t, func(t *testing.T, a *Admitter, m *memory, e *exact, _ map[Outcome]int) {
			e.meets[ids.KeyID{}] = met
			if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); err != nil {
				t.Errorf("met %d times: got the error %v, want none", met, err)
			}
			if !slices.Equal(m.called, want) {
				t.Errorf("met %d times: got %v, want %v", met, m.called, want)
			}
		})
	}
}

func TestADecisionOfAnotherReplicaIsUnavailableAndNamesIt(t *testing.T) {
	check := func(t *testing.T, a *Admitter, e *exact) {
		t.Helper()
		_, err := a.Admit(t.Context(), AdmitRequest{Model: "m"})
		open, _ := AsSliceOpen(err)
		equal(t, "owner that the error names", open.Owner, e.owner)
		f, ok := fault.As(err)
		if !ok {
			t.Fatalf("got the error %v, want a fault", err)
		}
		equal(t, "kind", f.Kind, fault.Unavailable)
		equal(t, "time to ask again", f.RetryAfter, time.Second)
	}
	withSlices(t, func(t *testing.T, a *Admitter, _ *memory, e *exact, _ map[Outcome]int) {
		e.owner, e.meets[ids.KeyID{}] = [16]byte{6}, 100
		check(t, a, e)
		if len(e.batches) != 1 {
			t.Errorf("another's slice: got %d decisions, want 1", len(e.batches))
		}
		e.owner = [16]byte{5}
		check(t, a, e)
		if len(e.batches) != 1+maxDecisions {
			t.Errorf("an own slice: got %d decisions, want %d", len(e.batches)-1, maxDecisions)
		}
		a.slices = nil
		check(t, a, e)
	})
}

// Requests of other accounts that wait for the same batch are decided all the same.
func TestAnOpenSliceFailsTheRequestsOfItsKeyAlone(t *testing.T) {
	var m memory
	e := &exact{memory: &m, meets: map[ids.KeyID]int{{15: 2}: 3}}
	observed := map[Outcome]int{}
	b := newBatcher(Config{Batch: 8, Queue: 10, Writers: 1, Timeout: time.Second}, e,
		func(o Outcome, n int) { observed[o] += n })
	var batch []*ticket
	for _, key := range []byte{1, 2, 1, 3, 2} {
		r := Reservation{AdmitRequest: AdmitRequest{Key: ids.KeyID{15: key}}}
		batch = append(batch, &ticket{ctx: t.Context(), reservation: r, answered: make(chan answer, 1)})
	}
	b.commit(t.Context(), batch)
	for i, want := range []bool{true, false, true, true, false} {
		got := <-batch[i].answered
		equal(t, fmt.Sprintf("request %d: decided", i), got.err == nil, want)
		_, open := AsSliceOpen(got.err)
		equal(t, fmt.Sprintf("request %d: met a slice", i), open, !want)
	}
	if want := []int{5, 2, 3, 2, 1}; !slices.Equal(e.batches, want) {
		t.Errorf("batches: got %v, want %v", e.batches, want)
	}
	equal(t, "admissions observed", observed[Admitted], 3)
}

func TestOpenSlicesThatAreNamedCostTheOthersOneMoreTransaction(t *testing.T) {
	var m memory
	e := &exact{memory: &m, meets: map[ids.KeyID]int{}, names: true}
	b := newBatcher(Config{Batch: 64, Queue: 64, Writers: 1, Timeout: time.Second}, e, func(Outcome, int) {})
	var batch []*ticket
	for i := range byte(16) {
		key := ids.KeyID{15: i}
		if i%4 != 0 {
			e.meets[key] = 1
		}
		r := Reservation{AdmitRequest: AdmitRequest{Key: key}}
		batch = append(batch, &ticket{ctx: t.Context(), reservation: r, answered: make(chan answer, 1)})
	}
	b.commit(t.Context(), batch)
	for i := range batch {
		_, open := AsSliceOpen((<-batch[i].answered).err)
		equal(t, fmt.Sprintf("request %d: met a slice", i), open, i%4 != 0)
	}
	if want := []int{16, 4}; !slices.Equal(e.batches, want) {
		t.Errorf("batches: got %v, want %v", e.batches, want)
	}
}

func TestAnAdmitterThatDoesNotRunAdmitsNothingFromMemory(t *testing.T) {
	m := &memory{admits: true}
	prices := testAdmitter(&gate{}, 1, 1).prices
	a := NewAdmitter(Config{Batch: 1, Queue: 1, Writers: 1, Timeout: time.Second}, Deps{Prices: prices,
		Store: &exact{memory: m}, Slices: m, Observe: func(Outcome, int) {}})
	if _, err := a.Admit(t.Context(), AdmitRequest{Model: "m"}); !fault.Is(err, fault.AdmissionUnavailable) {
		t.Errorf("got the error %v, want %v", err, fault.AdmissionUnavailable)
	}
}
