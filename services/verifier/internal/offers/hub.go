package offers

import (
	"maps"
	"slices"
)

const (
	// maxEnded bounds the epochs remembered as ended between full reports.
	maxEnded = 65_536
	// maxAssemblies bounds the incomplete full reports of one hub at a time.
	maxAssemblies = 4
	// maxParts bounds the parts of a full report.
	maxParts = 4_096
)

// hubOfLocked returns the hub that a report comes from, or nil where the report is to be
// ignored.
func (v *View) hubOfLocked(r Report) *hub {
	h := v.hubs[r.Hub]
	switch {
	case h == nil && len(v.hubs) >= MaxHubs:
		v.dropped++
		return nil
	case h != nil && r.Incarnation < h.incarnation:
		return nil
	case h != nil && r.Incarnation == h.incarnation:
		return h
	case h != nil:
		for epoch := range h.sessions {
			v.removeLocked(h, epoch)
		}
	}
	h = &hub{
		id: r.Hub, incarnation: r.Incarnation, sessions: map[int64]*record{},
		ended: map[int64]uint64{}, assemblies: map[uint64]*assembly{},
	}
	v.hubs[r.Hub] = h
	return h
}

// fullLocked takes note of a part of a full report. With the last missing part it removes
// what the report does not name: every session whose newest mention is older.
func (v *View) fullLocked(h *hub, r Report) (complete bool) {
	if r.Parts == 0 || r.Parts > maxParts || r.Part >= r.Parts || r.Revision < uint64(r.Part) {
		return false
	}
	first := r.Revision - uint64(r.Part)
	if first < h.fullFrom {
		return false
	}
	a := h.assemblies[first]
	if a == nil || a.parts != r.Parts {
		a = &assembly{parts: r.Parts, seen: map[uint32]bool{}}
		h.assemblies[first] = a
		if len(h.assemblies) > maxAssemblies {
			delete(h.assemblies, slices.Min(slices.Collect(maps.Keys(h.assemblies))))
		}
	}
	a.seen[r.Part] = true
	if len(a.seen) < int(a.parts) {
		return false
	}
	h.fullFrom = first
	maps.DeleteFunc(h.assemblies, func(other uint64, _ *assembly) bool { return other <= first })
	for epoch, rec := range h.sessions {
		if rec.revision < first {
			v.removeLocked(h, epoch)
		}
	}
	maps.DeleteFunc(h.ended, func(_ int64, revision uint64) bool { return revision < first })
	return true
}
