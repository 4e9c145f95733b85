package journal

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// maxDamage bounds the list of damage that Recovery keeps.
const maxDamage = 1024

// Damage is a range of bytes of a segment in which no record verifies. The records behind
// it, in the segment and in later ones, were read.
type Damage struct {
	Segment  uint64
	From, To int64 // offsets in bytes; both are 0 when the whole file is missing
	Missing  bool  // the segment's file is missing
}

// Recovery is what Open found. Its iterators cover the attempts of that time and skip the
// attempts that were closed since.
type Recovery struct {
	Segments   int // files read
	Records    int // records that verified
	Unsettled  int // attempts with usage that billing has not settled
	Unfinished int // attempts without usage

	// Torn is the end of the newest segment that a crash left half written, with the zeros
	// behind it. It is cut off now; nil when there was none, or nothing but zeros. No
	// acknowledged record is lost by it.
	Torn *Damage
	// Damage lists the ranges that could not be read elsewhere, at most 1,024. After a
	// crash of the machine, a range in the newest segment may be writes that nobody had
	// waited for; any other range is a fault of the disk.
	Damage []Damage
	// DamageTotal counts the ranges, listed or not.
	DamageTotal int

	journal *Journal
	upTo    uint64
}

// Finals yields the attempts that were unsettled, in the order of their FINAL. A payload
// that cannot be read is yielded as an error beside its key.
func (r *Recovery) Finals() iter.Seq2[Final, error] {
	return r.journal.finals(r.upTo, nil)
}

// Dispatches yields the attempts that were open, in the order of their DISPATCH, with
// their last COMMIT and PROGRESS. Final or Void may be called for each during the
// iteration.
func (r *Recovery) Dispatches() iter.Seq2[Unfinished, error] {
	return r.journal.unfinished(r.upTo)
}

func (r *Recovery) damaged(d Damage) {
	r.DamageTotal++
	if len(r.Damage) < maxDamage {
		r.Damage = append(r.Damage, d)
	}
}

// Open replays the journal, repairs its end and starts its writer. Appending
// begins in a new segment.
func Open(cfg Config) (*Journal, *Recovery, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, nil, err
	}
	disk := cfg.Disk
	if disk == nil {
		f, err := openFolder(cfg.Dir)
		if err != nil {
			return nil, nil, err
		}
		disk = f
	}
	j := &Journal{
		cfg:     cfg,
		disk:    disk,
		sums:    newChecksummer(),
		index:   newIndex(),
		failed:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
	j.wake.L = &j.mu
	if d, ok := disk.(spacious); ok {
		j.space.disk, j.space.segment = d, cfg.SegmentBytes
	}
	rec := &Recovery{journal: j}
	if err := j.start(rec); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open journal: %w", err), j.abandon())
	}
	if !cfg.Stepped {
		go j.run()
		if j.space.disk != nil {
			j.watching.Go(j.watch)
		}
	}
	return j, rec, nil
}

// abandon releases what a failed start holds.
func (j *Journal) abandon() error {
	if j.writer.file == nil {
		return j.disk.Close()
	}
	return errors.Join(j.writer.file.Close(), j.disk.Close())
}

func (j *Journal) start(rec *Recovery) error {
	next, err := j.replay(rec)
	if err != nil {
		return err
	}
	rec.Unsettled, rec.Unfinished = j.index.final.count, j.index.open.count
	rec.upTo = j.index.seq
	j.pending = newBatch(chunk{})
	j.pending.chunks = nil
	j.beginSegment(next)
	// Dead segments are removed before the new one is created, because on a full disk
	// they make room for it. Everything that was replayed has been synced.
	b, dead, end, _ := j.take()
	if err := j.removeSegments(dead); err != nil {
		return err
	}
	if err := j.flush(b, true, end); err != nil {
		return err
	}
	j.finish(b, nil)
	return nil
}

// replay reads all segments into the index and returns the number for the next.
func (j *Journal) replay(rec *Recovery) (next uint64, err error) {
	numbers, err := j.segmentNumbers()
	if err != nil {
		return 0, err
	}
	next = 1
	var buf []byte
	for i, number := range numbers {
		if i > 0 {
			for lost := next; lost < number && rec.DamageTotal < maxDamage; lost++ {
				rec.damaged(Damage{Segment: lost, Missing: true})
			}
		}
		kept := false
		if buf, kept, err = j.replaySegment(rec, number, i == len(numbers)-1, buf); err != nil {
			return 0, err
		}
		next = number
		if kept {
			next++
		}
	}
	return next, nil
}

func (j *Journal) segmentNumbers() ([]uint64, error) {
	names, err := j.disk.List()
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var numbers []uint64
	for _, name := range names {
		if n, ok := parseSegmentName(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// blank reports whether b has nothing but the zeros that make a segment ready.
func blank(b []byte) bool {
	for len(b) > readyStep {
		if !bytes.Equal(b[:readyStep], zeros[:]) {
			return false
		}
		b = b[readyStep:]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// replaySegment reads one segment, using buf if it is large enough. It also repairs the
// newest one: it cuts it behind its last sound record, or removes it when it has no whole
// header (kept is false then), and syncs it, because a process that was killed may have
// left writes that only the kernel holds.
func (j *Journal) replaySegment(
	rec *Recovery, number uint64, newest bool, buf []byte,
) (grown []byte, kept bool, err error) {
	file, err := j.disk.Open(segmentName(number))
	if err != nil {
		return buf, false, fmt.Errorf("open segment %d: %w", number, err)
	}
	defer file.Close()
	buf, err = readAll(file, buf)
	if err != nil {
		return buf, false, fmt.Errorf("read segment %d: %w", number, err)
	}
	rec.Segments++
	seg := newSegment(number, int64(len(buf)))
	records := 0
	gaps, err := j.sums.scan(buf, number, func(offset int64, size int, r record) {
		records++
		j.index.apply(r, place{seg: seg, offset: offset, size: int64(size)}, j.sums.plain(r.payload))
	})
	if err != nil {
		return buf, false, err
	}
	rec.Records += records
	if n := len(gaps); newest && n > 0 && gaps[n-1].to == int64(len(buf)) {
		seg.size = gaps[n-1].from
		if !blank(buf[seg.size:]) {
			rec.Torn = &Damage{Segment: number, From: seg.size, To: int64(len(buf))}
		}
		gaps = gaps[:n-1]
	}
	for _, g := range gaps {
		rec.damaged(Damage{Segment: number, From: g.from, To: g.to})
	}
	if !newest {
		j.index.addSegment(seg)
		return buf, true, nil
	}
	if seg.size < headerSize {
		return buf, false, j.removeSegments([]*segment{seg})
	}
	if err := repair(file, seg.size, int64(len(buf))); err != nil {
		return buf, false, fmt.Errorf("repair segment %d: %w", number, err)
	}
	j.index.addSegment(seg)
	return buf, true, nil
}

// repair cuts a file to its records, and gives up the room that was reserved behind them.
func repair(file File, size, found int64) error {
	_, reserves := file.(reserver)
	if size < found || reserves {
		if err := file.Truncate(size); err != nil {
			return err
		}
	}
	return file.Sync()
}

func readAll(file File, buf []byte) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return buf, err
	}
	buf = slices.Grow(buf[:0], int(size))[:size]
	if n, err := file.ReadAt(buf, 0); n < len(buf) {
		return buf, err
	}
	return buf, nil
}
