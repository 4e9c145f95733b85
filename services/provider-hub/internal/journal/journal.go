// Package journal is the hub's write-ahead file: the durable record of what was served,
// kept until billing says that it is settled.
//
// For each attempt to serve a request the hub writes DISPATCH before the first byte
// leaves, COMMIT and PROGRESS while the answer is relayed, and FINAL with the usage. Only
// Final waits for the disk. Callers that arrive while a sync is under way share the next
// one, so a thousand writers cost as many syncs as the disk can do, not a thousand.
// SETTLED (billing's end-to-end acknowledgement) or VOID (nothing billable) closes the
// attempt. Payloads are opaque.
//
// Durability: an acknowledged FINAL survives a crash of process or machine. The other
// records survive a crash of the process once the writer goroutine has handed them to the
// kernel, which it does at once unless a sync is under way. They survive a crash of the
// machine from the next sync on. Sync forces one.
//
// Files: segments of about SegmentBytes, written by one goroutine, each cut to its records
// and synced whole before the next is begun. The newest segment ends with up to 256 KiB of
// zeros, which records are written over, because a sync that has to store a new length
// costs a file system more. Recovery takes zeros for the end. A record verifies only in its
// segment and at its offset, so old blocks that a file system shows there are never read
// as records. Segments are deleted oldest first, and only after everything
// that made them needless is itself synced, so a record that closes an attempt always
// outlives the record that it closes. When few live attempts keep many dead bytes, their
// records are copied to the head and synced before the old segment is deleted. The
// copying exceeds what it frees by a constant factor at most.
//
// Bounds: memory is about 200 bytes for each open or unsettled attempt, at most MaxKeys
// of them, plus two batches of about MaxBatch bytes. Open reads one segment at a time
// into memory. Dispatch is refused (ErrFull) above 80 % of MaxBytes. Every record behind
// a dispatch is accepted, so the files may pass the quota only by the records that open
// attempts still have to write.
//
// A disk that others fill: room for the segment that is written and for the next one is
// reserved ahead. Dispatch is refused (ErrSpace) while room for the next segment cannot
// be reserved, or less than two segments are free beside the reserve. So attempts under
// way can be recorded, and the journal takes dispatches again by itself once there is
// room.
//
// Failure: after any failed write, sync or removal the journal is poisoned. Failed is
// closed, and each later call returns that first error. Nothing is tried again on the
// same file, because a kernel that failed to write a page may well call it clean. The way
// back is a new Open, which also works on a full disk as long as deleting dead segments
// leaves room for a header.
package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors that callers must tell apart. Any other error is the disk's and means
// that the journal is poisoned.
var (
	// ErrFull refuses a dispatch: the journal holds 80 % of its quota, or
	// MaxKeys attempts.
	ErrFull = errors.New("journal: too much is unsettled")
	// ErrBusy refuses a dispatch: the disk is too slow and the queue is full.
	ErrBusy = errors.New("journal: queue is full")
	// ErrDuplicate refuses a dispatch of an attempt that is open or unsettled.
	ErrDuplicate = errors.New("journal: attempt was dispatched before")
	// ErrUnknown means that the attempt was never dispatched or is closed.
	ErrUnknown = errors.New("journal: attempt is not open")
	// ErrConflict means that the attempt has a FINAL with another payload.
	ErrConflict = errors.New("journal: attempt has another final payload")
	// ErrBillable refuses to void an attempt that has a FINAL.
	ErrBillable = errors.New("journal: attempt has usage and cannot be void")
	// ErrPayload means that a payload exceeds MaxPayload.
	ErrPayload = errors.New("journal: payload is too large")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("journal: closed")
)

// Clock gives the time that is stored with each record. It is used only for the age of a
// FINAL.
type Clock interface{ Now() time.Time }

// Config says where the journal lives and how large it may grow.
type Config struct {
	// Dir is the folder of the segments, used by this journal only. It is created if
	// absent. Ignored when Disk is set.
	Dir string
	// Disk replaces the operating system's file system. The journal closes it.
	Disk Disk
	// Clock is required.
	Clock Clock
	// SegmentBytes is the size at which a segment is sealed. A segment takes at least one
	// record whatever its size. Default 64 MiB, 1 KiB to 1 GiB.
	SegmentBytes int64
	// MaxBytes is the quota for all segments, at least 8 segments. Default 8 GiB.
	MaxBytes int64
	// MaxBatch bounds the bytes that wait for the writer. Beyond it Dispatch fails with
	// ErrBusy, Progress is left out and Final waits. Default 4 MiB.
	MaxBatch int
	// MaxKeys bounds the attempts that are open or unsettled. Default 1,048,576.
	MaxKeys int
	// Stepped starts no goroutine. A caller that waits for the disk does the writer's
	// work, and all other records wait for Step. So one thread, such as a simulator's,
	// runs the same history every time.
	Stepped bool
}

func (c Config) withDefaults() Config {
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 64 << 20
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 8 << 30
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = 4 << 20
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = 1 << 20
	}
	return c
}

func (c Config) check() error {
	var faults []error
	if c.Dir == "" && c.Disk == nil {
		faults = append(faults, errors.New("dir is empty"))
	}
	if c.Clock == nil {
		faults = append(faults, errors.New("clock is missing"))
	}
	if c.SegmentBytes < 1<<10 || c.SegmentBytes > 1<<30 {
		faults = append(faults, fmt.Errorf("segment bytes %d are not within 1 KiB and 1 GiB", c.SegmentBytes))
	}
	if c.MaxBytes < 8*c.SegmentBytes {
		faults = append(faults, fmt.Errorf("quota of %d bytes is below 8 segments of %d", c.MaxBytes, c.SegmentBytes))
	}
	if c.MaxBatch < 1 || c.MaxKeys < 1 {
		faults = append(faults, errors.New("max batch and max keys must be positive"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("journal config: %w", err)
	}
	return nil
}

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	cfg  Config
	disk Disk
	sums checksummer

	mu      sync.Mutex
	wake    sync.Cond // the writer waits on it for work
	index   index
	pending *batch
	durable mark  // everything below is on disk
	err     error // the first disk error
	closed  bool

	space space
	// watching ends with the writer.
	watching sync.WaitGroup
	failed   chan struct{} // closed when err is set
	stopped  chan struct{} // closed when the writer has ended
	writer   writer        // owned by the writer goroutine
}

// Dispatch records that the attempt is about to leave for a provider. It does
// not wait for the disk. It fails with ErrFull, ErrBusy, ErrDuplicate or
// ErrPayload, and then nothing may be sent.
func (j *Journal) Dispatch(key Key, payload []byte) error {
	if len(payload) > MaxPayload {
		return ErrPayload
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usableLocked(); err != nil {
		return err
	}
	if _, _, err := j.index.stateOf(key).transition(KindDispatch); err != nil {
		return err
	}
	if j.index.bytes >= j.admissionLimit() || len(j.index.entries) >= j.cfg.MaxKeys {
		return ErrFull
	}
	if j.space.low.Load() {
		return ErrSpace
	}
	if j.pending.size >= j.cfg.MaxBatch {
		return ErrBusy
	}
	j.enqueueLocked(j.stamped(KindDispatch, key, payload))
	return nil
}

// Commit records that the gateway has committed to the attempt. It does not
// wait for the disk; a second call does nothing.
func (j *Journal) Commit(key Key) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	write, err := j.admitsLocked(key, KindCommit)
	if err != nil || !write || j.index.entries[key].committed {
		return err
	}
	j.enqueueLocked(j.stamped(KindCommit, key, nil))
	return nil
}

// Progress records how much has been relayed since the attempt began. It does not wait
// for the disk. Because counts are cumulative, a record that finds the queue full, or
// says no more than the last, is left out without an error.
func (j *Journal) Progress(key Key, p Progress) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	write, err := j.admitsLocked(key, KindProgress)
	if err != nil || !write || j.index.entries[key].progress == p || j.pending.size >= j.cfg.MaxBatch {
		return err
	}
	j.enqueueLocked(j.stamped(KindProgress, key, p.encode()))
	return nil
}

// Final records the usage of the attempt and returns once it is durable. When ctx ends
// first, the record may still be written: call again with the same payload to learn its
// fate. Another payload fails with ErrConflict.
func (j *Journal) Final(ctx context.Context, key Key, payload []byte) error {
	if len(payload) > MaxPayload {
		return ErrPayload
	}
	b, err := j.queueFinal(ctx, key, payload)
	if err != nil {
		return err
	}
	return j.await(ctx, b)
}

func (j *Journal) queueFinal(ctx context.Context, key Key, payload []byte) (*batch, error) {
	for {
		j.mu.Lock()
		write, err := j.admitsLocked(key, KindFinal)
		if err == nil && !write && !j.sameFinalLocked(key, payload) {
			err = ErrConflict
		}
		b := j.pending
		full := write && b.size >= j.cfg.MaxBatch
		if err == nil && !full {
			if write {
				j.enqueueLocked(j.stamped(KindFinal, key, payload))
			}
			j.demandSyncLocked()
		}
		j.mu.Unlock()
		if err != nil || !full {
			return b, err
		}
		j.Step()
		select {
		case <-b.taken:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for room in the journal: %w", context.Cause(ctx))
		}
	}
}

// sameFinalLocked compares by length and checksum, as the payload is on disk only.
func (j *Journal) sameFinalLocked(key Key, payload []byte) bool {
	e := j.index.entries[key]
	return e.size == recordSize(len(payload)) && e.sum == j.sums.plain(payload)
}

// Settled records that billing has settled the attempts. It does not wait for the disk.
// Unknown attempts are ignored, so repeating is harmless.
func (j *Journal) Settled(keys ...Key) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range keys {
		write, err := j.admitsLocked(key, KindSettled)
		if err != nil {
			return err
		}
		if write {
			j.enqueueLocked(j.stamped(KindSettled, key, nil))
		}
	}
	return j.usableLocked()
}

// Void records that the attempt ended with nothing billable. It does not wait
// for the disk; a second call does nothing. After a FINAL it is ErrBillable.
func (j *Journal) Void(key Key) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	write, err := j.admitsLocked(key, KindVoid)
	if err != nil || !write {
		return err
	}
	j.enqueueLocked(j.stamped(KindVoid, key, nil))
	return nil
}

// Sync returns once everything recorded before the call is durable.
func (j *Journal) Sync(ctx context.Context) error {
	j.mu.Lock()
	if err := j.usableLocked(); err != nil {
		j.mu.Unlock()
		return err
	}
	b := j.pending
	j.demandSyncLocked()
	j.mu.Unlock()
	return j.await(ctx, b)
}

// Usage is how full the journal is.
type Usage struct {
	Bytes      int64 // of all segments, with what waits for the writer
	LiveBytes  int64 // of the records still needed
	QuotaBytes int64
	Segments   int
	Open       int // attempts without usage
	Unsettled  int // attempts with usage that billing has not settled
	Keys       int // attempts of either kind
	MaxKeys    int
	// NoSpace reports that dispatches are refused because the disk is nearly full.
	NoSpace bool
}

// Fraction is the used part of the journal's bounds: of its bytes or of its attempts,
// whichever is more. Dispatches are refused at 0.8 of the bytes and at all of the
// attempts.
func (u Usage) Fraction() float64 {
	return max(float64(u.Bytes)/float64(u.QuotaBytes), float64(u.Keys)/float64(u.MaxKeys))
}

// Usage reports how full the journal is.
func (j *Journal) Usage() Usage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Usage{
		Bytes:      j.index.bytes,
		LiveBytes:  j.index.liveBytes,
		QuotaBytes: j.cfg.MaxBytes,
		Segments:   len(j.index.segments),
		Open:       j.index.open.count,
		Unsettled:  j.index.final.count,
		Keys:       len(j.index.entries),
		MaxKeys:    j.cfg.MaxKeys,
		NoSpace:    j.space.low.Load(),
	}
}

// Failed is closed when the disk has failed and the hub must take no more work.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err returns the disk error that poisoned the journal, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close writes and syncs what is queued, stops the writer and releases the
// folder. It returns the error of a poisoned journal. Calling it again is
// harmless.
func (j *Journal) Close() error {
	j.mu.Lock()
	first := !j.closed
	j.closed = true
	j.wake.Signal()
	j.mu.Unlock()
	if first && j.cfg.Stepped {
		j.run()
	}
	<-j.stopped
	j.watching.Wait()
	err := j.Err()
	if !first {
		return err
	}
	if cerr := j.disk.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close journal folder: %w", cerr))
	}
	return err
}

// usableLocked fails when the journal is poisoned or closed.
func (j *Journal) usableLocked() error {
	if j.err != nil {
		return j.err
	}
	if j.closed {
		return ErrClosed
	}
	return nil
}

// admitsLocked reports whether a record of the kind may follow, and whether it has to be
// written.
func (j *Journal) admitsLocked(key Key, kind Kind) (write bool, err error) {
	if err := j.usableLocked(); err != nil {
		return false, err
	}
	_, write, err = j.index.stateOf(key).transition(kind)
	return write, err
}

func (j *Journal) admissionLimit() int64 { return j.cfg.MaxBytes / 5 * 4 }

func (j *Journal) stamped(kind Kind, key Key, payload []byte) record {
	return record{kind: kind, key: key, at: j.cfg.Clock.Now().UnixNano(), payload: payload}
}
