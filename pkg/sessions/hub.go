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

// Report is what orders a message of a hub.
type Report struct {
	Hub         string
	Incarnation int64
	Revision    uint64
	// Full marks a part of a full report. Part counts from 0 to Parts-1.
	Full        bool
	Part, Parts uint32
}

// Record is one session of one hub. K names nodes, and Value is what the user of the set
// keeps of a session.
type Record[K comparable, V any] struct {
	Value V

	hub       *Hub[K, V]
	epoch     int64
	node      K
	revision  uint64
	confirmed time.Time
	serves    bool
}

// Hub returns the id of the hub that holds the session.
func (r *Record[K, V]) Hub() string { return r.hub.id }

// Serves reports whether the session is the one of its node that serves.
func (r *Record[K, V]) Serves() bool { return r.serves }

// Hub is what one incarnation of a hub has reported.
type Hub[K comparable, V any] struct {
	id          string
	incarnation int64
	// report is the last report, which may be half taken over, and heard its time.
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
