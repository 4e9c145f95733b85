package journal_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

// witness knows what the journal has acknowledged and what it was told.
type witness struct {
	mu       sync.Mutex
	final    map[journal.Key]bool // Final was called
	acked    map[journal.Key]bool // Final returned, Settled not called
	settled  map[journal.Key]bool // Settled was called
	opened   map[journal.Key]bool // Dispatch was called
	held     map[journal.Key]bool // Dispatch, then Sync returned; not closed
	progress map[journal.Key]uint64
}

func newWitness() *witness {
	return &witness{
		final: map[journal.Key]bool{}, acked: map[journal.Key]bool{}, settled: map[journal.Key]bool{},
		opened: map[journal.Key]bool{}, held: map[journal.Key]bool{}, progress: map[journal.Key]uint64{},
	}
}

func (w *witness) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *witness) copy() *witness {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &witness{
		final: maps.Clone(w.final), acked: maps.Clone(w.acked), settled: maps.Clone(w.settled),
		opened: maps.Clone(w.opened), held: maps.Clone(w.held), progress: maps.Clone(w.progress),
	}
}

// check compares what a reopened journal found with what the witness knows.
func (w *witness) check(t *testing.T, rec *journal.Recovery) {
	t.Helper()
	found := map[journal.Key]bool{}
	for _, k := range finals(t, rec.Finals()) {
		found[k] = true
		if !w.final[k] {
			t.Fatalf("%v is final and never was", k)
		}
	}
	open := dispatches(t, rec)
	for k, u := range open {
		if !w.opened[k] {
			t.Fatalf("%v is open with progress: w.opened[k]: got false, want true", k)
		}
		if u.Progress.Tokens > w.progress[k] {
			t.Fatalf("%v is open with progress: u.Progress.Tokens: got %d, want at most %d", k, u.Progress.Tokens, w.progress[k])
		}
		if found[k] {
			t.Fatalf("%v is both open and final", k)
		}
	}
	for k := range w.acked {
		if !found[k] {
			t.Fatalf("acknowledged final %v is lost", k)
		}
	}
	for k := range w.held {
		if _, ok := open[k]; !ok && !found[k] {
			t.Fatalf("synced dispatch %v is lost", k)
		}
	}
}

// adopt makes the witness expect what the reopened journal holds.
func adopt(t *testing.T, rec *journal.Recovery, old *witness) *witness {
	t.Helper()
	w := newWitness()
	for _, k := range finals(t, rec.Finals()) {
		w.opened[k], w.final[k], w.acked[k] = true, true, true
	}
	for k, u := range dispatches(t, rec) {
		w.opened[k], w.held[k], w.progress[k] = true, true, max(u.Progress.Tokens, old.progress[k])
	}
	// What was settled and lost the record of it may come back for good.
	return w
}

// history drives one journal until the disk has crashed and a little further.
type history struct {
	dice *rand.Rand
	next int
	j    *journal.Journal
	w    *witness
}

func (h *history) step(t *testing.T) {
	switch h.dice.IntN(12) {
	case 0, 1, 2:
		k := keyOf(h.next)
		h.next++
		h.w.note(func() { h.w.opened[k] = true })
		must(t, h.j.Dispatch(k, dispatchPayload(k)))
	case 3:
		if k, ok := h.pick(true); ok {
			must(t, h.j.Commit(k))
		}
	case 4:
		if k, ok := h.pick(true); ok {
			var n uint64
			h.w.note(func() { h.w.progress[k] += 256; n = h.w.progress[k] })
			must(t, h.j.Progress(k, journal.Progress{Tokens: n}))
		}
	case 5, 6, 7:
		h.finishSome(t, 1+h.dice.IntN(4))
	case 8, 9, 10:
		if k, ok := h.pick(false); ok {
			h.w.note(func() { delete(h.w.acked, k); h.w.settled[k] = true })
			must(t, h.j.Settled(k))
		}
	default:
		h.voidOrSync(t)
	}
}

func (h *history) voidOrSync(t *testing.T) {
	if k, ok := h.pick(true); ok && h.dice.IntN(2) == 0 {
		h.w.note(func() { delete(h.w.held, k); h.w.settled[k] = true })
		must(t, h.j.Void(k))
		return
	}
	before := h.openKeys()
	must(t, h.j.Sync(t.Context()))
	h.w.note(func() {
		for _, k := range before {
			h.w.held[k] = true
		}
	})
}

func (h *history) finishSome(t *testing.T, n int) {
	keys := h.openKeys()
	h.dice.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	var group sync.WaitGroup
	for _, k := range keys[:min(n, len(keys))] {
		h.w.note(func() { h.w.final[k] = true })
		group.Go(func() {
			if err := h.j.Final(t.Context(), k, finalPayload(k)); err != nil {
				t.Error(err)
				return
			}
			h.w.note(func() { h.w.acked[k] = true; delete(h.w.held, k) })
		})
	}
	group.Wait()
}

func (h *history) openKeys() []journal.Key {
	var keys []journal.Key
	h.w.note(func() {
		for k := range h.w.opened {
			if !h.w.final[k] && !h.w.settled[k] {
				keys = append(keys, k)
			}
		}
	})
	slices.SortFunc(keys, func(a, b journal.Key) int { return slices.Compare(a.Request[:], b.Request[:]) })
	return keys
}

func (h *history) pick(open bool) (journal.Key, bool) {
	keys := h.openKeys()
	if !open {
		h.w.note(func() { keys = slices.Collect(maps.Keys(h.w.acked)) })
		slices.SortFunc(keys, func(a, b journal.Key) int { return slices.Compare(a.Request[:], b.Request[:]) })
	}
	if len(keys) == 0 {
		return journal.Key{}, false
	}
	// Mostly young ones, so that old ones get stuck and are carried forward.
	young := max(0, len(keys)-5)
	if h.dice.IntN(10) == 0 {
		young = 0
	}
	return keys[young+h.dice.IntN(len(keys)-young)], true
}

func TestAcknowledgedFinalSurvivesACrashAtAnyPoint(t *testing.T) {
	histories := 3000
	if testing.Short() {
		histories = 200
	}
	for seed := range histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := seeded(uint64(seed))
			disk, w, next := simdisk.New(), newWitness(), 0
			for range 3 { // each generation starts on what the crash before it left
				disk, w, next = crashOnce(t, dice, disk, w, next)
			}
			_, rec := open(t, config(disk))
			w.check(t, rec)
		})
	}
}

// crashOnce opens the disk, checks it, runs a history on it and crashes the
// disk in front of a random operation.
func crashOnce(
	t *testing.T, dice *rand.Rand, disk *simdisk.Disk, told *witness, next int,
) (*simdisk.Disk, *witness, int) {
	t.Helper()
	var (
		after *simdisk.Disk
		known *witness
		left  = 1 + dice.IntN(150)
		w     = told
		loss  = seeded(dice.Uint64())
		mu    sync.Mutex
	)
	disk.Hook = func(simdisk.Op, string) error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			// The witness first: what is acknowledged after this look does not
			// count, what was acknowledged before it must be on the disk.
			known = w.copy()
			after = disk.Crash(loss)
		}
		return nil
	}
	j, rec, err := journal.Open(config(disk))
	must(t, err)
	told.check(t, rec)
	fresh := adopt(t, rec, told)
	mu.Lock()
	w = fresh
	mu.Unlock()
	h := &history{dice: dice, next: next, j: j, w: w}
	for range 400 {
		h.step(t)
		mu.Lock()
		crashed := after != nil
		mu.Unlock()
		if crashed {
			break
		}
	}
	must(t, j.Close())
	if after == nil {
		return disk.Crash(loss), w.copy(), h.next
	}
	return after, known, h.next
}

func TestRecordOfAKilledProcessIsDurableOnceReopened(t *testing.T) {
	for seed := range uint64(50) {
		disk, gate := gated(simdisk.OpSync)
		j, _ := open(t, config(disk))
		k := keyOf(1)
		must(t, j.Dispatch(k, dispatchPayload(k)))
		gate.shut()
		written := make(chan error)
		go func() { written <- j.Final(t.Context(), k, finalPayload(k)) }()
		// The sync that Final asks for comes after its write.
		for disk.Count(simdisk.OpSync) < 2 {
			runtime.Gosched()
		}
		after := disk.Kill()
		gate.open()
		must(t, <-written)
		j, rec := open(t, config(after))
		if rec.Unsettled != 1 {
			t.Fatalf("seed %d: finals of the killed process: got %d, want 1", seed, rec.Unsettled)
		}
		_, rec = open(t, config(after.Crash(seeded(seed))))
		if rec.Unsettled != 1 {
			t.Fatalf("seed %d: finals that Recovery showed, after a crash: got %d, want 1", seed, rec.Unsettled)
		}
		must(t, j.Close())
	}
}
