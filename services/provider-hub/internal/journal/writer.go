package journal

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// zeros is what a segment is made ready with: readyStep bytes at a time.
const readyStep = 256 << 10

var zeros [readyStep]byte

// batch is the work that the writer takes at once. Callers add to it under the mutex
// while it is the journal's pending batch.
type batch struct {
	chunks []chunk
	size   int
	sync   bool
	taken  chan struct{} // closed when the writer has taken it, or never will
	done   chan struct{} // closed when it is written, and synced if asked, or failed
	err    error         // set before done is closed
}

// chunk is the part of a batch that goes to one segment.
type chunk struct {
	seg *segment
	at  int64 // offset in the segment
	buf []byte
}

func newBatch(first chunk) *batch {
	return &batch{
		chunks: []chunk{first},
		taken:  make(chan struct{}),
		done:   make(chan struct{}),
	}
}

func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the journal's disk: %w", context.Cause(ctx))
	}
}

// mark is a position in the journal.
type mark struct {
	segment uint64
	offset  int64
}

func (m mark) covers(p place) bool {
	return p.seg.number < m.segment || p.seg.number == m.segment && p.offset < m.offset
}

// writer is the state of the goroutine that alone touches the disk.
type writer struct {
	file  File
	seg   *segment // that file holds
	end   int64    // behind the last record in file
	ready int64    // file has this length, with zeros from end on
	spare []byte   // buffer of the last batch
}

// enqueueLocked gives the record its place, adds it to the pending batch and updates the
// index.
func (j *Journal) enqueueLocked(r record) {
	size := recordSize(len(r.payload))
	active := j.index.active()
	if active.size+size > j.cfg.SegmentBytes && active.size > headerSize {
		active = j.beginSegment(active.number + 1)
	}
	c := &j.pending.chunks[len(j.pending.chunks)-1]
	at := place{seg: active, offset: active.size, size: size}
	c.buf = j.sums.appendRecord(c.buf, active.number, at.offset, r)
	active.size += size
	j.index.bytes += size
	j.pending.size += int(size)
	var sum uint32
	if r.kind == KindFinal {
		sum = j.sums.plain(r.payload)
	}
	j.index.apply(r, at, sum)
	j.wake.Signal()
}

// beginSegment makes a segment the active one and queues its header.
func (j *Journal) beginSegment(number uint64) *segment {
	s := newSegment(number, headerSize)
	j.index.addSegment(s)
	j.pending.chunks = append(j.pending.chunks, chunk{seg: s, buf: j.sums.appendHeader(nil, number)})
	j.pending.size += headerSize
	return s
}

// demandSyncLocked makes the pending batch a synced one.
func (j *Journal) demandSyncLocked() {
	j.pending.sync = true
	j.wake.Signal()
}

// run is the writer goroutine.
func (j *Journal) run() {
	defer close(j.stopped)
	for {
		last, err := j.cycle()
		if err != nil {
			j.fail(err)
			last = true
		}
		if last {
			break
		}
	}
	if err := j.writer.file.Close(); err != nil {
		j.fail(fmt.Errorf("close segment: %w", err))
	}
}

// cycle waits for work and does one round of it: it copies some live records out of the
// oldest segment if that pays, writes the queue, syncs if somebody waits, and deletes
// segments that nobody needs.
func (j *Journal) cycle() (last bool, err error) {
	j.awaitWork()
	if err := j.carryForward(); err != nil {
		return true, err
	}
	b, dead, end, last := j.take()
	if err := j.flush(b, len(dead) > 0 || last, end); err != nil {
		j.fail(err)
		j.finish(b, j.Err())
		return true, nil
	}
	j.finish(b, nil)
	return last, j.removeSegments(dead)
}

func (j *Journal) awaitWork() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.hasWorkLocked() {
		j.wake.Wait()
	}
}

func (j *Journal) hasWorkLocked() bool {
	return j.pending.size > 0 || j.pending.sync || j.closed || j.carryPaysLocked() ||
		len(j.index.segments) > 1 && j.index.segments[0].live.count == 0
}

// Step does the work that the writer of a stepped journal has by now. Any other journal
// has a goroutine for it, and Step does nothing.
func (j *Journal) Step() {
	for j.cfg.Stepped && j.stepPays() {
		if _, err := j.cycle(); err != nil {
			j.fail(err)
		}
	}
}

func (j *Journal) stepPays() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err == nil && !j.closed && j.hasWorkLocked()
}

// await waits for a batch, and does the writer's work meanwhile if nobody else does.
func (j *Journal) await(ctx context.Context, b *batch) error {
	j.Step()
	return b.wait(ctx)
}

// take swaps the pending batch for an empty one and, in the same moment, picks the
// segments that nobody needs: the records that closed them are in this batch or an
// earlier one.
func (j *Journal) take() (b *batch, dead []*segment, end mark, last bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b = j.pending
	dead = j.index.takeDead()
	active := j.index.active()
	end = mark{segment: active.number, offset: active.size}
	j.pending = newBatch(chunk{seg: active, at: active.size, buf: j.writer.spare[:0]})
	j.writer.spare = nil
	close(b.taken)
	return b, dead, end, j.closed
}

// flush writes the batch and syncs it if the batch or the caller asks.
func (j *Journal) flush(b *batch, force bool, end mark) error {
	for _, c := range b.chunks {
		if err := j.rotateTo(c.seg); err != nil {
			return err
		}
		if len(c.buf) == 0 {
			continue
		}
		if err := j.writer.write(c, j.cfg.SegmentBytes); err != nil {
			return fmt.Errorf("write segment %d: %w", c.seg.number, err)
		}
	}
	if !b.sync && !force {
		return nil
	}
	if err := j.writer.file.Sync(); err != nil {
		return fmt.Errorf("sync segment %d: %w", j.writer.seg.number, err)
	}
	j.mu.Lock()
	j.durable = end
	j.mu.Unlock()
	return nil
}

// write puts a chunk where its records have their place. Where the chunk ends behind the
// part of the file that is ready, zeros are written behind it, at most up to the size at
// which a segment is sealed. The sync of most batches then has no new length to store,
// which costs a file system more than the records.
func (w *writer) write(c chunk, sealed int64) error {
	if _, err := w.file.WriteAt(c.buf, c.at); err != nil {
		return err
	}
	w.end = c.at + int64(len(c.buf))
	if w.end <= w.ready {
		return nil
	}
	w.ready = max(w.end, min((w.end/readyStep+1)*readyStep, sealed))
	_, err := w.file.WriteAt(zeros[:w.ready-w.end], w.end)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		w.ready = w.end // records need less room than zeros, and may find it
		return nil
	}
	return err
}

// finish wakes the callers that wait for the batch and keeps its buffer for the next one.
func (j *Journal) finish(b *batch, err error) {
	b.err = err
	close(b.done)
	if buf := b.chunks[0].buf; cap(buf) <= 2*j.cfg.MaxBatch {
		j.writer.spare = buf
	}
}

// rotateTo makes s the file that is written. The file before it is cut to its records and
// synced first, so that only the newest segment can be torn or end with zeros.
func (j *Journal) rotateTo(s *segment) error {
	if j.writer.seg == s {
		return nil
	}
	if j.writer.file != nil {
		if err := j.writer.file.Truncate(j.writer.end); err != nil {
			return fmt.Errorf("cut segment %d: %w", j.writer.seg.number, err)
		}
		if err := j.writer.file.Sync(); err != nil {
			return fmt.Errorf("sync segment %d before the next: %w", j.writer.seg.number, err)
		}
		if err := j.writer.file.Close(); err != nil {
			return fmt.Errorf("close segment %d: %w", j.writer.seg.number, err)
		}
	}
	file, err := j.space.begin(func() (File, error) { return j.disk.Create(s.name()) })
	if err != nil {
		return fmt.Errorf("create segment %d: %w", s.number, err)
	}
	j.writer.file, j.writer.seg, j.writer.end, j.writer.ready = file, s, 0, 0
	if err := j.disk.Sync(); err != nil {
		return fmt.Errorf("sync journal folder after segment %d was created: %w", s.number, err)
	}
	return nil
}

// removeSegments deletes segments oldest first and syncs after each, because a file
// system may lose removals in any order.
func (j *Journal) removeSegments(dead []*segment) error {
	for _, s := range dead {
		if err := j.disk.Remove(s.name()); err != nil {
			return fmt.Errorf("remove segment %d: %w", s.number, err)
		}
		if err := j.disk.Sync(); err != nil {
			return fmt.Errorf("sync journal folder after segment %d was removed: %w", s.number, err)
		}
	}
	return nil
}

// fail poisons the journal and wakes everybody who waits.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	j.err = errors.Join(errors.New("journal: failed, nothing more is recorded"), err)
	close(j.failed)
	b := j.pending
	b.err = j.err
	close(b.taken)
	close(b.done)
}
