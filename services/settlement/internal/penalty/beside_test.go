package penalty

import (
	"context"
	"errors"
	"testing"
	"time"

	"svc.internal/pkg/fault"
)

// standing is a penalty of a state beside which another is opened.
func standing(s State, model string, kind Kind, share int32) Penalty {
	return Penalty{Draft: Draft{ModelID: model, Kind: kind, ShareBasisPoints: share}, State: s}
}

func TestPenaltiesStandSideBySideWithinTheWholeCollateral(t *testing.T) {
	t.Parallel()
	const m = "acme/tiny-1b" // the draft's model; its kind is Benchmark and its share 1,000
	for name, c := range map[string]struct {
		beside []Penalty
		want   fault.Reason
	}{
		"alone":                      {nil, ""},
		"beside another kind":        {[]Penalty{standing(Proposed, m, Misrepresentation, 3_000)}, ""},
		"beside another model":       {[]Penalty{standing(Appealed, "other", Benchmark, 3_000)}, ""},
		"beside its like, executed":  {[]Penalty{standing(Executed, m, Benchmark, 1_000)}, ""},
		"beside its like, proposed":  {[]Penalty{standing(Proposed, m, Benchmark, 1)}, AlreadyOpen},
		"beside its like, appealed":  {[]Penalty{standing(Appealed, m, Benchmark, 1)}, AlreadyOpen},
		"beside its like, upheld":    {[]Penalty{standing(Upheld, m, Benchmark, 1)}, AlreadyOpen},
		"the rest of the collateral": {[]Penalty{standing(Upheld, "a", Benchmark, 9_000)}, ""},
		"more than the rest":         {[]Penalty{standing(Upheld, "a", Benchmark, 9_001)}, SharesExceeded},
		"with one that was executed": {[]Penalty{standing(Executed, "a", Benchmark, 6_000),
			standing(Proposed, "b", Benchmark, 3_001)}, SharesExceeded},
	} {
		err := draft().fits(c.beside)
		if c.want == "" && err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
		if c.want != "" && !fault.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want %s", name, err, c.want)
		}
	}
}

// queue is a store in which penalties are due, some of which cannot be changed.
type queue struct {
	Store
	due      []Place
	failing  map[ID]bool
	executed map[ID]int
}

var errStuck = errors.New("stuck")

func (q *queue) Due(_ context.Context, behind Place, limit int) ([]Place, error) {
	var list []Place
	for _, at := range q.due {
		if at.Since.After(behind.Since) && q.executed[at.ID] == 0 && len(list) < limit {
			list = append(list, at)
		}
	}
	return list, nil
}

func (q *queue) Change(
	_ context.Context, id ID, _ func(*Penalty, time.Time) (Entry, error),
) (Penalty, Entry, error) {
	if q.failing[id] {
		return Penalty{}, Entry{}, errStuck
	}
	q.executed[id]++
	return Penalty{State: Executed}, Entry{Cause: string(Expire)}, nil
}

// Those that fail are due longest, and there are more of them than one batch has.
func TestPenaltiesThatCannotBeExecutedKeepNoneBehindThemWaiting(t *testing.T) {
	t.Parallel()
	const stuck, all = 2*MaxBatch + 7, 3 * MaxBatch
	q := &queue{failing: map[ID]bool{}, executed: map[ID]int{}}
	for n := range all {
		id := ID{byte(n), byte(n >> 8)}
		q.due = append(q.due, Place{Since: opened.Add(time.Duration(n) * time.Second), ID: id})
		q.failing[id] = n < stuck
	}
	k := NewKeeper(q, func(context.Context, Penalty) {})
	more, calls := true, 0
	for ; more && calls < 10; calls++ {
		var err error
		if _, more, err = k.ExecuteDue(t.Context()); err != nil && !errors.Is(err, errStuck) {
			t.Fatal(err)
		}
	}
	if got, want := len(q.executed), all-stuck; got != want {
		t.Errorf("executed in %d calls: got %d, want %d", calls, got, want)
	}
	// The next look begins anew, so that what failed is tried again.
	clear(q.failing)
	for range calls {
		if _, _, err := k.ExecuteDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(q.executed); got != all {
		t.Errorf("executed once nothing fails: got %d, want %d", got, all)
	}
}
