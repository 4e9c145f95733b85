package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/guarantee"
	"svc.internal/services/catalog/internal/weights"
)

// outside is a store and a router whose answers a test sets.
type outside struct {
	mu       sync.Mutex
	revision int64
	ids      []string
	weighed  int64
	weights  map[string]weights.Set
	supply   map[string]guarantee.Supply
	err      error
	loads    int
}

func (o *outside) Load(_ context.Context, known int64) (int64, []entry.Model, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.loads++
	if o.err != nil || o.revision == known {
		return o.revision, nil, false, o.err
	}
	models := make([]entry.Model, len(o.ids))
	for i, id := range o.ids {
		models[i] = entry.Model{Draft: entry.Draft{ID: id, ContextTokens: 100}}
	}
	return o.revision, models, true, nil
}

func (o *outside) LoadWeights(_ context.Context, known int64) (int64, map[string]weights.Set, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.weighed == known {
		return o.weighed, nil, false, o.err
	}
	return o.weighed, o.weights, true, nil
}

func (o *outside) Supply(context.Context) (map[string]guarantee.Supply, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.supply, o.err
}

func (o *outside) set(change func(*outside)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

var pace = Config{SupplyInterval: time.Second, SupplyExpiry: 30 * time.Second, RepairInterval: 30 * time.Second}

// run is a keeper that runs inside a synctest bubble until the test ends.
func run(t *testing.T, o *outside) *Keeper {
	t.Helper()
	k := NewKeeper(pace, Deps{Entries: o, Supplies: o, Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		<-k.Stopped()
	})
	go k.Run(ctx)
	synctest.Wait()
	return k
}

// pass lets time go by in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func now(t *testing.T, k *Keeper) *Snapshot {
	t.Helper()
	s, _, err := k.Current()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChangesAreSeenOnAHintAndWithoutOneAtTheRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{ids: []string{"a"}, revision: 1}
		k := run(t, o)
		o.set(func(o *outside) { o.ids, o.revision = []string{"a", "b"}, 2 })
		k.Hint()
		synctest.Wait()
		if n := len(now(t, k).Models); n != 2 {
			t.Fatalf("models after the hint: got %d, want 2", n)
		}
		o.set(func(o *outside) { o.ids, o.revision = []string{"a"}, 3 })
		pass(pace.RepairInterval - time.Millisecond)
		if n := len(now(t, k).Models); n != 2 {
			t.Fatalf("models although nobody looked: got %d, want 2", n)
		}
		pass(time.Millisecond)
		if n := len(now(t, k).Models); n != 1 {
			t.Fatalf("models after the repair: got %d, want 1", n)
		}
	})
}

func TestAStoreThatIsAwayIsAskedAgainEachSecondAndMeanwhileServedFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{ids: []string{"a"}, revision: 1, err: errors.New("away")}
		k := run(t, o)
		if _, _, err := k.Current(); !fault.Is(err, fault.ServiceUnavailable) {
			t.Fatalf("before the first snapshot: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
		}
		o.set(func(o *outside) { o.err = nil })
		pass(time.Second)
		first := now(t, k)
		o.set(func(o *outside) { o.err, o.ids, o.revision = errors.New("away"), []string{"b"}, 2 })
		k.Hint()
		pass(10 * time.Second)
		if now(t, k) != first {
			t.Error("the snapshot changed while the store was away")
		}
		o.set(func(o *outside) { o.err = nil })
		pass(time.Second)
		if _, found := now(t, k).Find("b"); !found {
			t.Error("the store is back and was not read")
		}
	})
}

func TestHintsDoNotQueueUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{revision: 1}
		k := run(t, o)
		var before int
		o.set(func(o *outside) { // nobody can read meanwhile
			before = o.loads
			for range 1000 {
				k.Hint()
			}
		})
		synctest.Wait()
		// One hint may be taken while the rest come; they make one more.
		if n := o.loads - before; n < 1 || n > 2 {
			t.Errorf("readings for 1000 hints: got %d, want 1 to 2", n)
		}
		if n := len(k.hints); n != 0 {
			t.Errorf("len(k.hints): got %d, want 0", n)
		} else if cap(k.hints) != 1 {
			t.Errorf("cap(k.hints): got %d, want 1", cap(k.hints))
		}
	})
}

func TestASnapshotIsMadeOnlyWhenSomethingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{ids: []string{"a"}, revision: 1, supply: map[string]guarantee.Supply{"a": {Online: 1}}}
		k := run(t, o)
		pass(time.Second)
		before := now(t, k)
		o.set(func(o *outside) {
			o.supply = map[string]guarantee.Supply{"a": {Online: 1}, "not in the catalog": {Online: 5}}
		})
		pass(2 * pace.RepairInterval)
		if after := now(t, k); after != before {
			t.Errorf("snapshot: got %p, want %p", after, before)
		}
		o.set(func(o *outside) { o.supply = map[string]guarantee.Supply{"a": {Online: 2}} })
		pass(pace.SupplyInterval)
		switch after := now(t, k); {
		case after.Revision != before.Revision+1:
			t.Errorf("after another provider came: after.Revision: got %d, want %d", after.Revision, before.Revision+1)
		case after.Models[0].Supply.Online != 2:
			t.Errorf("after another provider came: after.Models[0].Supply.Online: got %d, want 2", after.Models[0].Supply.Online)
		case before.Models[0].Supply.Online != 1:
			t.Errorf("after another provider came: before.Models[0].Supply.Online: got %d, want 1",
				before.Models[0].Supply.Online)
		}
	})
}

func TestSupplyIsKeptForItsTimeWhileTheRouterIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{ids: []string{"a"}, revision: 1, supply: map[string]guarantee.Supply{"a": {Online: 3}}}
		k := run(t, o)
		pass(time.Second)
		o.set(func(o *outside) { o.err = errors.New("away") })
		pass(pace.SupplyExpiry - time.Second)
		if n := now(t, k).Models[0].Supply.Online; n != 3 {
			t.Fatalf("online before the expiry: got %d, want 3", n)
		}
		if age, known := k.SupplyAge(); !known {
			t.Error("known of k.SupplyAge(): got false, want true")
		} else if age != pace.SupplyExpiry-time.Second {
			t.Errorf("the answer: got %v, want %v", age, pace.SupplyExpiry-time.Second)
		}
		pass(2 * time.Second)
		if s := now(t, k).Models[0].Supply; s.Online != 0 {
			t.Fatalf("after the expiry: s.Online: got %d, want 0", s.Online)
		} else if s.Basis != guarantee.NoOnlineProviders {
			t.Fatalf("after the expiry: s.Basis: got %v, want %v", s.Basis, guarantee.NoOnlineProviders)
		}
	})
}

func TestASlowWatcherFindsOnlyTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{ids: []string{"a"}, revision: 1}
		k := run(t, o)
		first, replaced, err := k.Current()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			o.set(func(o *outside) { o.revision++; o.ids = []string{strconv.Itoa(i)} })
			if err := k.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		<-replaced
		newest, replaced, err := k.Current()
		switch {
		case err != nil:
			t.Errorf("after 100 changes: got the error %v, want none", err)
		case newest.Revision != first.Revision+100:
			t.Errorf("after 100 changes: newest.Revision: got %d, want %d", newest.Revision, first.Revision+100)
		case newest.Models[0].ID != "99":
			t.Errorf(`after 100 changes: newest.Models[0].ID: got %q, want "99"`, newest.Models[0].ID)
		}
		select {
		case <-replaced:
			t.Error("another change waits behind the newest")
		default:
		}
	})
}

func TestManyReadersAtOnceNeverSeeTheCatalogGoBack(t *testing.T) {
	o := &outside{ids: []string{"a"}, revision: 1}
	k := NewKeeper(pace, Deps{Entries: o, Supplies: o, Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var seen uint64
			for range 200 {
				o.set(func(o *outside) { o.revision++ })
				if err := k.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
				if s, _, err := k.Current(); err != nil {
					t.Errorf("got the error %v, want none", err)
				} else if s.Revision < seen {
					t.Errorf("revision: got %d, want at least %d", s.Revision, seen)
				} else {
					seen = s.Revision
				}
			}
		})
	}
	all.Wait()
	if k.revision != o.revision {
		t.Errorf("the last reading is of revision: got %d, want %d", k.revision, o.revision)
	}
}

func TestARefreshGivesUpWithItsCaller(t *testing.T) {
	o := &outside{}
	k := NewKeeper(pace, Deps{Entries: o, Supplies: o, Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	k.loading <- struct{}{} // somebody reads
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("refresh behind a stuck one: got the error %v, want %v", err, context.Canceled)
	}
}

func TestPagesCoverEachItemOnce(t *testing.T) {
	for total := range 12 {
		for size := 1; size <= 5; size++ {
			var got []int
			for page := 1; page <= 13; page++ {
				start, end := Window(total, page, size)
				switch {
				case start > end:
					t.Fatalf("page %d of %d items: start: got %d, want at most %d", page, total, start, end)
				case end > total:
					t.Fatalf("page %d of %d items: end: got %d, want at most %d", page, total, end, total)
				case end-start > size:
					t.Fatalf("page %d of %d items: end-start: got %d, want at most %d", page, total, end-start, size)
				}
				for i := start; i < end; i++ {
					got = append(got, i)
				}
			}
			if len(got) != total {
				t.Errorf("%d items by %d: len(got): got %d, want %d, in %v", total, size, len(got), total, got)
			} else if !slices.IsSorted(got) {
				t.Errorf("%d items by %d: slices.IsSorted(got): got false, want true, with %v", total, size, got)
			}
		}
	}
	if start, end := Window(10, math.MaxInt32, 200); start != 10 {
		t.Errorf("the last page there can be: start: got %d, want 10", start)
	} else if end != 10 {
		t.Errorf("the last page there can be: end: got %d, want 10", end)
	}
}

func BenchmarkSupplyOfAFullCatalog(b *testing.B) {
	entries := make([]entry.Model, entry.MaxModels)
	supply := map[string]guarantee.Supply{}
	for i := range entries {
		entries[i].ID = strconv.Itoa(i)
		supply[entries[i].ID] = guarantee.Supply{Online: 3, Reporting: 3, MinReported: 1, MaxReported: 2,
			Quantizations: []string{"q8", "fp16"}}
	}
	models, _ := merge(entries, supply, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, changed := merge(entries, supply, models); changed {
			b.Fatal("nothing had changed")
		}
	}
}

func TestWeightsAreReadWhenTheyChangeAndKeptWhenTheyCannotBe(t *testing.T) {
	of := func(name string) map[string]weights.Set {
		return map[string]weights.Set{"a": weights.NewSet("", []weights.File{{Name: name}})}
	}
	o := &outside{ids: []string{"a"}, weights: of("first")}
	k := NewKeeper(pace, Deps{Entries: o, Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	named := func() string {
		t.Helper()
		current, _, err := k.Current()
		switch {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case len(current.Models) != 1:
			t.Fatalf("len(current.Models): got %d, want 1, in %+v", len(current.Models), current)
		case current.Weights["a"].Empty():
			t.Fatal(`current.Weights["a"].Empty(): got true, want false`)
		}
		return current.Weights["a"].Files[0].Name
	}
	if err := k.Refresh(t.Context()); err != nil {
		t.Errorf("at first: got the error %v, want none", err)
	} else if named() != "first" {
		t.Errorf(`at first: named(): got %q, want "first"`, named())
	}
	_, replaced, _ := k.Current()
	if err := k.Refresh(t.Context()); err != nil {
		t.Errorf("when nothing has changed: got the error %v, want none", err)
	} else if closed(replaced) {
		t.Error("when nothing has changed: closed(replaced): got true, want false")
	}
	o.set(func(o *outside) { o.weighed, o.weights, o.err = 1, of("second"), errors.New("away") })
	if err := k.Refresh(t.Context()); err == nil {
		t.Error("without the store: got no error, want one")
	} else if named() != "first" {
		t.Errorf(`without the store: named(): got %q, want "first"`, named())
	}
	o.set(func(o *outside) { o.err = nil })
	switch err := k.Refresh(t.Context()); {
	case err != nil:
		t.Errorf("afterwards: got the error %v, want none", err)
	case named() != "second":
		t.Errorf(`afterwards: named(): got %q, want "second"`, named())
	case !closed(replaced):
		t.Error("afterwards: closed(replaced): got false, want true")
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
