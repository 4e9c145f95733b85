package sessions

import (
	"maps"
	"slices"
	"time"
)

const (
	// maxAssemblies bounds the incomplete full reports of one hub at a time.
	maxAssemblies = 4
	// maxParts bounds the parts of a full report. Hubs begin a new part at 500 sessions,
	// or earlier where sessions have many models.
	maxParts = 4_096
)

// Hub is what one incarnation of a hub has reported.
type Hub[K comparable, V any] struct {
	id          string
	incarnation int64
	// report is the one that is being taken over, or was last, and heard its time.
	report Report
	heard  time.Time

	sessions map[int64]*Record[K, V] // by epoch
	ended    map[int64]uint64        // epoch to the revision that ended it
	// fullFrom is the first revision of the newest complete full report. Anything older
	// is ignored.
	fullFrom   uint64
	assemblies map[uint64]*assembly // by first revision
}

// assembly collects the parts of one full report.
type assembly struct {
	parts uint32
	seen  map[uint32]bool
}

// Hear begins to take over a report. It returns the hub that the report comes from, or nil
// where the report is to be ignored. The caller puts the report's sessions, ends others, and
// then calls Complete.
func (s *Set[K, V]) Hear(r Report, now time.Time) *Hub[K, V] {
	h := s.hubs[r.Hub]
	switch {
	case h == nil && len(s.hubs) >= MaxHubs:
		s.dropped++
		return nil
	case h != nil && r.Incarnation < h.incarnation:
		return nil
	case h == nil || r.Incarnation > h.incarnation:
		h = s.replace(h, r)
	}
	h.report, h.heard = r, now
	return h
}

// replace begins an incarnation of a hub. What an older one has reported is removed.
func (s *Set[K, V]) replace(old *Hub[K, V], r Report) *Hub[K, V] {
	if old != nil {
		for _, rec := range old.sessions {
			s.remove(rec)
		}
	}
	h := &Hub[K, V]{
		id: r.Hub, incarnation: r.Incarnation, sessions: map[int64]*Record[K, V]{},
		ended: map[int64]uint64{}, assemblies: map[uint64]*assembly{},
	}
	s.hubs[r.Hub] = h
	return h
}

// Complete ends the taking over of a report, and reports whether it completed a full one. With the last missing part it removes what the full report does not name: every
// session whose newest mention is older than the report.
func (s *Set[K, V]) Complete(h *Hub[K, V]) bool {
	r := &h.report
	if !r.Full || r.Parts == 0 || r.Parts > maxParts || r.Part >= r.Parts || r.Revision < uint64(r.Part) {
		return false
	}
	first := r.Revision - uint64(r.Part)
	if first < h.fullFrom || !h.assembled(first) {
		return false
	}
	h.fullFrom = first
	maps.DeleteFunc(h.assemblies, func(other uint64, _ *assembly) bool { return other <= first })
	for _, rec := range h.sessions {
		if rec.revision < first {
			s.remove(rec)
		}
	}
	maps.DeleteFunc(h.ended, func(_ int64, revision uint64) bool { return revision < first })
	return true
}

// assembled takes note of a part, and reports whether none is missing any more.
func (h *Hub[K, V]) assembled(first uint64) bool {
	r := &h.report
	a := h.assemblies[first]
	if a == nil || a.parts != r.Parts {
		a = &assembly{parts: r.Parts, seen: map[uint32]bool{}}
		h.assemblies[first] = a
		if len(h.assemblies) > maxAssemblies {
			delete(h.assemblies, slices.Min(slices.Collect(maps.Keys(h.assemblies))))
		}
	}
	a.seen[r.Part] = true
	return len(a.seen) == int(a.parts)
}
