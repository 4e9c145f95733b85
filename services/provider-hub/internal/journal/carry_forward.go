package journal

import "fmt"

// carryStep bounds the bytes copied between two batches, so that copying never delays a
// FINAL for long.
const carryStep = 256 << 10

// idleSegments is how many segments' worth of dead bytes are left alone.
const idleSegments = 4

// carryPaysLocked reports whether the live records of the oldest segment should be
// copied to the head. It does when more than half of the journal is dead, or
// when admission is shut and a fifth is: a pass over the whole journal then
// copies at most as much as it frees, or four times that in the second case.
func (j *Journal) carryPaysLocked() bool {
	x := &j.index
	if j.writer.seg == nil || x.segments[0].number >= j.writer.seg.number {
		return false // the oldest segment is not sealed on disk
	}
	dead := x.bytes - x.liveBytes - int64(len(x.segments))*headerSize
	if dead > x.liveBytes+idleSegments*j.cfg.SegmentBytes {
		return true
	}
	return x.bytes >= j.admissionLimit() && dead > x.liveBytes/4+j.cfg.SegmentBytes
}

// carryForward copies one step's worth of live records from the oldest segment
// into the pending batch. The last copy leaves the segment dead, so the very
// batch that holds it is synced before the segment is deleted.
func (j *Journal) carryForward() error {
	for _, p := range j.pickCarried() {
		r, err := j.read(p.at)
		if err != nil {
			return fmt.Errorf("carry forward: %w", err)
		}
		j.carry(p, r)
	}
	return nil
}

type carried struct {
	entry *entry
	at    place
}

func (j *Journal) pickCarried() []carried {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.carryPaysLocked() {
		return nil
	}
	var picked []carried
	var bytes int64
	for e := j.index.segments[0].live.first; e != nil && bytes < carryStep; e = e.links[bySegment].next {
		picked = append(picked, carried{entry: e, at: e.place})
		bytes += e.size
	}
	return picked
}

// carry writes a copy of the record and of the notes beside it, unless the attempt has
// changed since the record was read.
func (j *Journal) carry(p carried, r record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := p.entry
	if e.gone || e.place != p.at {
		return
	}
	j.enqueueLocked(r)
	if e.state != stateOpen {
		return
	}
	if e.committed {
		j.enqueueLocked(record{kind: KindCommit, key: e.key, at: e.at})
	}
	if e.progress != (Progress{}) {
		j.enqueueLocked(record{kind: KindProgress, key: e.key, at: e.at, payload: e.progress.encode()})
	}
}
