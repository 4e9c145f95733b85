package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"
)

// pageEntries is how many attempts an iterator notes before it releases the mutex.
const pageEntries = 128

// Final is the usage of an attempt that billing has not settled.
type Final struct {
	Key     Key
	At      time.Time // when Final was called
	Payload []byte    // nil beside an error
}

// Unfinished is an attempt that was dispatched and has no usage.
type Unfinished struct {
	Key       Key
	At        time.Time // when Dispatch was called
	Payload   []byte    // of the dispatch; nil beside an error
	Committed bool      // the gateway had committed to the attempt
	Progress  Progress  // last noted; zero when there was none
}

// Unsettled yields the attempts whose FINAL was recorded before the given time and that
// billing has not settled, in the order in which they were first recorded. Payloads are
// read from disk one by one, and the journal is not locked in between, so a consumer may
// be as slow as publishing is. Only durable records are yielded. A payload that cannot be
// read is yielded as an error beside its key.
func (j *Journal) Unsettled(before time.Time) iter.Seq2[Final, error] {
	j.mu.Lock()
	upTo := j.index.seq
	j.mu.Unlock()
	return j.finals(upTo, func(at time.Time) bool { return at.Before(before) })
}

// finals yields the unsettled attempts up to a sequence number whose time is wanted; a
// nil wanted accepts all.
func (j *Journal) finals(upTo uint64, wanted func(time.Time) bool) iter.Seq2[Final, error] {
	return func(yield func(Final, error) bool) {
		for e := range j.walk(stateFinal, upTo) {
			at := time.Unix(0, e.at)
			if wanted != nil && !wanted(at) {
				continue
			}
			r, ok, err := j.readEntry(e)
			if ok && !yield(Final{Key: e.key, At: at, Payload: r.payload}, err) {
				return
			}
		}
	}
}

func (j *Journal) unfinished(upTo uint64) iter.Seq2[Unfinished, error] {
	return func(yield func(Unfinished, error) bool) {
		for e := range j.walk(stateOpen, upTo) {
			r, ok, err := j.readEntry(e)
			if !ok {
				continue
			}
			j.mu.Lock()
			u := Unfinished{Key: e.key, At: time.Unix(0, e.at), Payload: r.payload, Committed: e.committed, Progress: e.progress}
			j.mu.Unlock()
			if !yield(u, err) {
				return
			}
		}
	}
}

// walk yields the entries in a state, oldest first, up to a sequence number. It holds the
// mutex only while it notes a page of them.
func (j *Journal) walk(s state, upTo uint64) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		var last *entry
		page := make([]*entry, 0, pageEntries)
		for {
			page = j.page(page[:0], s, last, upTo)
			for _, e := range page {
				if !yield(e) {
					return
				}
				last = e
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

func (j *Journal) page(page []*entry, s state, last *entry, upTo uint64) []*entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.index.listOf(s).first
	if last != nil {
		e = last.links[byAge].next
	}
	for ; e != nil && e.seq <= upTo && len(page) < cap(page); e = e.links[byAge].next {
		if !e.gone {
			page = append(page, e)
		}
	}
	return page
}

// readEntry reads the record that an entry needs; ok is false when the attempt has
// changed its state. The record may still be written, or be carried to another segment,
// between the look-up and the read. In those cases readEntry looks it up again.
func (j *Journal) readEntry(e *entry) (r record, ok bool, err error) {
	for {
		j.mu.Lock()
		gone, at, durable := e.gone, e.place, j.durable.covers(e.place)
		j.mu.Unlock()
		if gone {
			return record{}, false, nil
		}
		if !durable {
			// A sync always ends, because the writer ends it with success or failure.
			if err := j.Sync(context.Background()); err != nil {
				return record{}, true, err
			}
			continue
		}
		r, err := j.read(at)
		if !errors.Is(err, fs.ErrNotExist) || !j.moved(e, at) {
			return r, true, err
		}
	}
}

func (j *Journal) moved(e *entry, from place) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return e.gone || e.place != from
}

// read reads and verifies the record at a place that has been written.
func (j *Journal) read(at place) (record, error) {
	r, err := j.readRecord(at)
	if err != nil {
		return record{}, fmt.Errorf("read segment %d at offset %d: %w", at.seg.number, at.offset, err)
	}
	return r, nil
}

func (j *Journal) readRecord(at place) (record, error) {
	file, err := j.disk.Open(at.seg.name())
	if err != nil {
		return record{}, err
	}
	defer file.Close()
	buf := make([]byte, at.size)
	if n, err := file.ReadAt(buf, at.offset); n < len(buf) {
		return record{}, err
	}
	r, _, err := j.sums.decodeRecord(buf, at.seg.number, at.offset)
	return r, err
}
