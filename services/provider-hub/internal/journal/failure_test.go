package journal_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// valve holds back operations of one kind while it is shut.
type valve struct {
	mu   sync.Mutex
	wait chan struct{}
}

func gated(op simdisk.Op) (*simdisk.Disk, *valve) {
	v := &valve{}
	d := simdisk.New()
	d.Hook = func(o simdisk.Op, _ string) error {
		v.mu.Lock()
		wait := v.wait
		v.mu.Unlock()
		if o == op && wait != nil {
			<-wait
		}
		return nil
	}
	return d, v
}

func (v *valve) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wait = make(chan struct{})
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.wait)
	v.wait = nil
}

func TestConcurrentFinalsShareOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, gate := gated(simdisk.OpSync)
		cfg := config(disk)
		cfg.SegmentBytes, cfg.MaxBytes = 1<<20, 8<<20
		j, _ := open(t, cfg)
		const writers = 64
		for n := range writers {
			must(t, j.Dispatch(keyOf(n), nil))
		}
		synctest.Wait()
		before := disk.Count(simdisk.OpSync)
		gate.shut()
		var done sync.WaitGroup
		for n := range writers {
			done.Go(func() {
				if err := j.Final(t.Context(), keyOf(n), nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // one sync is under way, everybody else is queued
		gate.open()
		done.Wait()
		if got := disk.Count(simdisk.OpSync) - before; got > 2 {
			t.Fatalf("%d finals took: got %d syncs, want at most 2", writers, got)
		}
		must(t, j.Close())
	})
}

func TestDispatchDoesNotSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := simdisk.New()
		cfg := config(disk)
		cfg.SegmentBytes, cfg.MaxBytes = 1<<20, 8<<20
		j, _ := open(t, cfg)
		before := disk.Count(simdisk.OpSync)
		for n := range 100 {
			must(t, j.Dispatch(keyOf(n), dispatchPayload(keyOf(n))))
			must(t, j.Commit(keyOf(n)))
			must(t, j.Progress(keyOf(n), journal.Progress{Tokens: 1}))
		}
		synctest.Wait()
		if got := disk.Count(simdisk.OpSync) - before; got != 0 {
			t.Fatalf("lazy records took: got %d, want 0", got)
		}
		_, rec := open(t, config(disk.Kill()))
		if len(dispatches(t, rec)) != 100 {
			t.Fatal("written dispatches do not survive the process")
		}
		must(t, j.Close())
	})
}

func TestAnyDiskErrorPoisonsForGood(t *testing.T) {
	for _, op := range []simdisk.Op{simdisk.OpWrite, simdisk.OpSync, simdisk.OpCreate, simdisk.OpTruncate,
		simdisk.OpSyncDir, simdisk.OpRemove} {
		t.Run(string(op), func(t *testing.T) {
			disk := simdisk.New()
			var broken atomic.Bool
			disk.Hook = func(o simdisk.Op, _ string) error {
				if o == op && broken.Load() {
					return syscall.EIO
				}
				return nil
			}
			j, _ := open(t, config(disk))
			acknowledged := 0
			for ; acknowledged < 3; acknowledged++ {
				serve(t, j, keyOf(acknowledged))
			}
			broken.Store(true)
			settled := churnUntilFailure(t, j)
			<-j.Failed()
			if !errors.Is(j.Err(), syscall.EIO) {
				t.Fatalf("j.Err(): got the error %v, want %v", j.Err(), syscall.EIO)
			}
			broken.Store(false) // the disk recovers, the journal must not
			syncs := disk.Count(simdisk.OpSync)
			for name, err := range map[string]error{
				"dispatch": j.Dispatch(keyOf(5000), nil),
				"commit":   j.Commit(keyOf(0)),
				"progress": j.Progress(keyOf(0), journal.Progress{Tokens: 1}),
				"final":    j.Final(t.Context(), keyOf(0), finalPayload(keyOf(0))),
				"settled":  j.Settled(keyOf(0)),
				"void":     j.Void(keyOf(0)),
				"sync":     j.Sync(t.Context()),
				"close":    j.Close(),
			} {
				if !errors.Is(err, syscall.EIO) {
					t.Errorf("%s after the failure: got the error %v, want %v", name, err, syscall.EIO)
				}
			}
			if got := disk.Count(simdisk.OpSync); got != syncs {
				t.Errorf("syncs after the failure: got %d, want %d", got, syncs)
			}
			_, rec := open(t, config(disk.Crash(seeded(2))))
			left := map[journal.Key]bool{}
			for _, k := range finals(t, rec.Finals()) {
				left[k] = true
			}
			for n := range acknowledged {
				if !left[keyOf(n)] && !settled {
					t.Errorf("acknowledged final %d is lost", n)
				}
			}
		})
	}
}

// churnUntilFailure serves until the disk fails, and then settles everything so
// that removal is tried too; it reports whether it settled.
func churnUntilFailure(t *testing.T, j *journal.Journal) (settled bool) {
	t.Helper()
	for n := 100; n < 200; n++ {
		k := keyOf(n)
		if j.Dispatch(k, dispatchPayload(k)) != nil || j.Final(t.Context(), k, finalPayload(k)) != nil {
			return false
		}
	}
	for n := range 200 {
		if j.Settled(keyOf(n)) != nil {
			return true
		}
	}
	return true
}

func TestFullDiskPoisonsAndOpenRecovers(t *testing.T) {
	disk := simdisk.New()
	var full atomic.Bool
	disk.Hook = func(o simdisk.Op, _ string) error {
		if full.Load() && (o == simdisk.OpWrite || o == simdisk.OpCreate) {
			return syscall.ENOSPC
		}
		return nil
	}
	j, _ := open(t, config(disk))
	serve(t, j, keyOf(1))
	must(t, j.Dispatch(keyOf(2), dispatchPayload(keyOf(2))))
	must(t, j.Sync(t.Context()))
	full.Store(true)
	if err := j.Final(t.Context(), keyOf(2), finalPayload(keyOf(2))); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got the error %v, want %v", err, syscall.ENOSPC)
	}
	if err := j.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got the error %v, want %v", err, syscall.ENOSPC)
	}
	if _, _, err := journal.Open(config(disk)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("open on a full disk: got the error %v, want %v", err, syscall.ENOSPC)
	}
	full.Store(false)
	j, rec := open(t, config(disk))
	if got := finals(t, rec.Finals()); len(got) != 1 {
		t.Fatalf("len(got): got %d, want 1, in %v", len(got), got)
	} else if got[0] != keyOf(1) {
		t.Fatalf("got[0]: got %v, want %v", got[0], keyOf(1))
	}
	if len(dispatches(t, rec)) != 1 {
		t.Fatal("dispatch is lost")
	}
	must(t, j.Final(t.Context(), keyOf(2), finalPayload(keyOf(2))))
}

func TestOpenOnAFullDiskFreesDeadSegmentsFirst(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	serve(t, j, keyOf(1))
	must(t, j.Settled(keyOf(1)))
	must(t, j.Close())
	var freed atomic.Bool
	disk.Hook = func(o simdisk.Op, _ string) error {
		if o == simdisk.OpRemove {
			freed.Store(true)
		}
		if !freed.Load() && (o == simdisk.OpWrite || o == simdisk.OpCreate) {
			return syscall.ENOSPC
		}
		return nil
	}
	j, _ = open(t, config(disk))
	serve(t, j, keyOf(2))
}
