package journal

// state is where an attempt stands. An attempt the index does not hold is
// absent: it was never dispatched, or it is settled or void.
type state uint8

const (
	stateAbsent state = iota
	stateOpen         // dispatched, no usage yet
	stateFinal        // usage recorded, not settled
)

// transition is the effect of a record of the kind on an attempt: the state that
// follows, whether the record must be written, or why it is refused.
//
//	from \ kind  DISPATCH      COMMIT      PROGRESS    FINAL       SETTLED  VOID
//	absent       open          ErrUnknown  ErrUnknown  ErrUnknown  nothing  nothing
//	open         ErrDuplicate  open        open        final       absent   absent
//	final        ErrDuplicate  nothing     nothing     nothing     absent   ErrBillable
func (s state) transition(k Kind) (to state, write bool, err error) {
	switch s {
	case stateAbsent:
		return absentOn(k)
	case stateOpen:
		return openOn(k)
	default:
		return finalOn(k)
	}
}

func absentOn(k Kind) (state, bool, error) {
	switch k {
	case KindDispatch:
		return stateOpen, true, nil
	case KindSettled, KindVoid:
		return stateAbsent, false, nil
	default:
		return stateAbsent, false, ErrUnknown
	}
}

func openOn(k Kind) (state, bool, error) {
	switch k {
	case KindDispatch:
		return stateOpen, false, ErrDuplicate
	case KindFinal:
		return stateFinal, true, nil
	case KindSettled, KindVoid:
		return stateAbsent, true, nil
	default:
		return stateOpen, true, nil
	}
}

func finalOn(k Kind) (state, bool, error) {
	switch k {
	case KindDispatch:
		return stateFinal, false, ErrDuplicate
	case KindSettled:
		return stateAbsent, true, nil
	case KindVoid:
		return stateFinal, false, ErrBillable
	default:
		return stateFinal, false, nil
	}
}

// place is where a record lies.
type place struct {
	seg    *segment
	offset int64
	size   int64
}

// entry is an attempt that is open or unsettled. It needs exactly one record
// on disk: its DISPATCH while open (COMMIT and PROGRESS always lie behind it,
// and segments go oldest first), its FINAL from then on. An entry never moves
// from one state to another: a FINAL makes a new entry, so that an iterator
// that stands on the old one stays in the list it walks.
type entry struct {
	place
	key       Key
	state     state
	committed bool
	gone      bool
	sum       uint32 // of a FINAL's payload
	progress  Progress
	at        int64 // Unix nanoseconds
	seq       uint64
	links     [2]link
}

// liveSize is how many bytes a copy of everything that the entry needs would take.
func (e *entry) liveSize() int64 {
	n := e.size
	if e.committed {
		n += recordSize(0)
	}
	if e.progress != (Progress{}) {
		n += recordSize(progressSize)
	}
	return n
}

type link struct{ prev, next *entry }

const (
	byAge     = 0 // link of the list of all entries in one state
	bySegment = 1 // link of the list of entries in one segment
)

// list is an intrusive list of entries. A removed entry keeps its next, so an
// iterator that stands on it still finds the rest.
type list struct {
	first, last *entry
	count       int
	which       int
}

func (l *list) push(e *entry) {
	e.links[l.which] = link{prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.links[l.which].next = e
	}
	l.last = e
	l.count++
}

func (l *list) remove(e *entry) {
	at := e.links[l.which]
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.links[l.which].next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.links[l.which].prev = at.prev
	}
	l.count--
}

// index holds every attempt that is open or unsettled and the segments that
// hold their records. The journal's mutex guards it.
type index struct {
	entries   map[Key]*entry
	open      list
	final     list
	segments  []*segment // by number; the last one is appended to
	bytes     int64      // of all segments
	liveBytes int64      // of the records that entries need
	seq       uint64
}

func newIndex() index {
	return index{entries: make(map[Key]*entry)}
}

func (x *index) stateOf(k Key) state {
	if e := x.entries[k]; e != nil {
		return e.state
	}
	return stateAbsent
}

// apply updates the index with a record at a place. During replay it also meets records
// that the API refuses: copies that were carried forward, and records whose forerunners
// are gone with their segment.
func (x *index) apply(r record, at place, sum uint32) {
	e := x.entries[r.key]
	switch r.kind {
	case KindDispatch:
		x.applyDispatch(e, r, at)
	case KindCommit, KindProgress:
		x.annotate(e, r)
	case KindFinal:
		x.applyFinal(e, r, at, sum)
	case KindSettled:
		x.drop(e)
	case KindVoid:
		if e != nil && e.state == stateOpen {
			x.drop(e)
		}
	}
}

func (x *index) applyDispatch(e *entry, r record, at place) {
	if e == nil {
		x.add(&entry{key: r.key, state: stateOpen, at: r.at, place: at})
	} else if e.state == stateOpen {
		e.at = r.at
		x.move(e, at)
	}
}

func (x *index) applyFinal(e *entry, r record, at place, sum uint32) {
	if e != nil && e.state == stateFinal {
		e.sum = sum
		x.move(e, at)
		return
	}
	x.drop(e)
	x.add(&entry{key: r.key, state: stateFinal, at: r.at, sum: sum, place: at})
}

// annotate notes a COMMIT or PROGRESS on an open attempt.
func (x *index) annotate(e *entry, r record) {
	if e == nil || e.state != stateOpen {
		return
	}
	before := e.liveSize()
	if r.kind == KindCommit {
		e.committed = true
	} else {
		e.progress = decodeProgress(r.payload)
	}
	x.liveBytes += e.liveSize() - before
}

func (x *index) listOf(s state) *list {
	if s == stateOpen {
		return &x.open
	}
	return &x.final
}

func (x *index) add(e *entry) {
	x.seq++
	e.seq = x.seq
	x.entries[e.key] = e
	x.listOf(e.state).push(e)
	e.seg.live.push(e)
	x.liveBytes += e.liveSize()
}

func (x *index) drop(e *entry) {
	if e == nil {
		return
	}
	e.gone = true
	delete(x.entries, e.key)
	x.listOf(e.state).remove(e)
	e.seg.live.remove(e)
	x.liveBytes -= e.liveSize()
}

// move points an entry at another copy of its record.
func (x *index) move(e *entry, to place) {
	e.seg.live.remove(e)
	x.liveBytes += to.size - e.size
	e.place = to
	e.seg.live.push(e)
}

func (x *index) addSegment(s *segment) {
	x.segments = append(x.segments, s)
	x.bytes += s.size
}

func (x *index) active() *segment { return x.segments[len(x.segments)-1] }

// takeDead removes from the index, and returns, the oldest segments that no entry needs.
// It stops at the first segment that an entry needs: a SETTLED or VOID record must
// outlive the record that it closes, so segments are removed strictly oldest first.
func (x *index) takeDead() []*segment {
	n := 0
	for n < len(x.segments)-1 && x.segments[n].live.count == 0 {
		x.bytes -= x.segments[n].size
		n++
	}
	dead := x.segments[:n:n]
	x.segments = x.segments[n:]
	return dead
}
