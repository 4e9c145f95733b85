package sessions

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// book is a set of texts, with what serves by node.
type book struct {
	*Set[string, string]
	serving map[string]string
	removed int
}

func newBook(limit int) *book {
	b := &book{serving: map[string]string{}}
	b.Set = New(limit, Hooks[string, string]{
		Serve:   func(r *Record[string, string]) { b.serving[r.node] = fmt.Sprint(r.Hub(), " ", r.Value) },
		Retire:  func(r *Record[string, string]) { delete(b.serving, r.node) },
		Removed: func(*Record[string, string]) { b.removed++ },
	})
	return b
}

// said is a report with what it says of sessions.
type said struct {
	Report
	named []named
	ended []int64
}

type named struct {
	epoch       int64
	node, value string
}

func (b *book) apply(s said, now time.Time) bool {
	h := b.Hear(s.Report, now)
	if h == nil {
		return false
	}
	for _, n := range s.named {
		rec, fresh := b.Put(h, n.epoch, n.node)
		switch {
		case rec == nil:
		case fresh:
			rec.Value = n.value
			b.Add(rec)
		default:
			b.Change(rec, func() { rec.Value = n.value })
		}
	}
	for _, epoch := range s.ended {
		b.End(h, epoch)
	}
	return b.Complete(h)
}

func report(hub string, incarnation int64, revision uint64) Report {
	return Report{Hub: hub, Incarnation: incarnation, Revision: revision}
}

func part(revision uint64, part, parts uint32) Report {
	return Report{Hub: "a", Incarnation: 1, Revision: revision, Full: true, Part: part, Parts: parts}
}

func (b *book) want(t *testing.T, when string, want map[string]string) {
	t.Helper()
	if !maps.Equal(b.serving, want) {
		t.Errorf("what serves %s: got %v, want %v", when, b.serving, want)
	}
}

func TestReportsInAnyOrderEndInTheSameSet(t *testing.T) {
	history := []said{
		{Report: report("a", 1, 1), named: []named{{1, "x", "old"}, {2, "y", "first"}}},
		{Report: report("a", 1, 2), named: []named{{2, "y", "second"}}},
		{Report: report("a", 1, 3), ended: []int64{1}},
		{Report: part(4, 0, 2), named: []named{{2, "y", "third"}}},
		{Report: part(5, 1, 2), named: []named{{4, "z", "full"}}},
		{Report: report("a", 1, 6), named: []named{{5, "z", "newer"}}},
		{Report: report("b", 1, 1), named: []named{{3, "z", "elsewhere"}}},
	}
	for seed := range uint64(200) {
		b := newBook(10)
		random := rand.New(rand.NewPCG(seed, 1))
		order := append(random.Perm(len(history)), random.Perm(len(history))...)
		for _, i := range order {
			b.apply(history[i], start)
		}
		b.want(t, fmt.Sprint("after ", order), map[string]string{"y": "a third", "z": "a newer"})
	}
}

func TestANewerIncarnationReplacesAllOfAnOlder(t *testing.T) {
	b := newBook(10)
	b.apply(said{Report: report("a", 1, 9), named: []named{{1, "x", "old"}}}, start)
	b.apply(said{Report: report("a", 2, 1), named: []named{{2, "y", "new"}}}, start)
	b.apply(said{Report: report("a", 1, 10), named: []named{{3, "z", "late"}}}, start)
	b.want(t, "at the newer incarnation", map[string]string{"y": "a new"})
}

func TestASessionThatNothingConfirmsIsRemoved(t *testing.T) {
	b := newBook(10)
	b.apply(said{Report: report("a", 1, 1), named: []named{{1, "x", "v"}}}, start)
	b.Expire(start.Add(Expiry-1), nil)
	b.want(t, "before the expiry", map[string]string{"x": "a v"})
	b.Confirm(start.Add(Expiry - 1))
	kept := 0
	b.Expire(start.Add(Expiry), func(*Record[string, string]) { kept++ })
	if kept != 1 {
		t.Errorf("sessions kept after a confirmation: got %d, want 1", kept)
	}
	b.Expire(start.Add(2*Expiry), nil)
	b.want(t, "after the expiry", map[string]string{})
	if _, _, hubs, _ := b.Size(); hubs != 0 {
		t.Errorf("hubs after the expiry: got %d, want 0", hubs)
	}
	if b.removed != 1 {
		t.Errorf("sessions removed: got %d, want 1", b.removed)
	}
}

func TestOnlyAWholeFullReportRemovesWhatItDoesNotName(t *testing.T) {
	b := newBook(10)
	b.apply(said{Report: report("a", 1, 1), named: []named{{1, "x", "v"}}}, start)
	var complete []bool
	for _, p := range []Report{part(2, 0, 3), part(2, 0, 3), part(4, 2, 3)} {
		complete = append(complete, b.apply(said{Report: p}, start))
	}
	b.want(t, "while a part is missing", map[string]string{"x": "a v"})
	complete = append(complete, b.apply(said{Report: part(3, 1, 3)}, start))
	b.want(t, "after the last part", map[string]string{})
	if want := []bool{false, false, false, true}; !slices.Equal(complete, want) {
		t.Errorf("reports that were completed: got %v, want %v", complete, want)
	}
}

func TestTheSetIsBounded(t *testing.T) {
	b := newBook(3)
	for i := range int64(5) {
		b.apply(said{Report: report("a", 1, uint64(i)+1), named: []named{{i + 1, fmt.Sprint(i), "v"}}}, start)
	}
	for i := range MaxHubs + 4 {
		b.apply(said{Report: report(fmt.Sprint("hub", i), 1, 1)}, start)
	}
	sessions, _, hubs, dropped := b.Size()
	if sessions != 3 {
		t.Errorf("sessions: got %d, want 3", sessions)
	}
	if hubs != MaxHubs {
		t.Errorf("hubs: got %d, want %d", hubs, MaxHubs)
	}
	if want := int64(2 + 5); dropped != want {
		t.Errorf("dropped: got %d, want %d", dropped, want)
	}
	for i := range uint64(100) {
		b.apply(said{Report: part(100+2*i, 0, 5)}, start)
	}
	if n := len(b.hubs["a"].assemblies); n != maxAssemblies {
		t.Errorf("unfinished reports kept: got %d, want %d", n, maxAssemblies)
	}
	many := said{Report: report("a", 1, 1_000)}
	for i := range int64(maxEnded + 10) {
		many.ended = append(many.ended, 100+i)
	}
	b.apply(many, start)
	if n := len(b.hubs["a"].ended); n > maxEnded {
		t.Errorf("epochs remembered as ended: got %d, want at most %d", n, maxEnded)
	}
}
