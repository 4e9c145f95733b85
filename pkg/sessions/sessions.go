// Package sessions keeps which sessions of providers' nodes there are, by what hubs report.
// It has the rules of order, and its users have what a session is and what follows from it.
//
// Reports of a hub are ordered by the hub's incarnation, and within an incarnation by
// revision. A newer incarnation replaces all that an older one reported. Each session
// keeps the revision that last named it. So reports that arrive late, twice or out of order
// end in the same set as the same reports in order:
//
//   - the newest revision that names a session decides what the session is;
//   - a session that has ended never comes back, because an epoch is used once;
//   - a session that a complete full report does not name is removed, unless a later
//     revision names it; sessions in an older report are ignored.
//
// The parts of one full report carry consecutive revisions. A full report that never
// becomes complete removes nothing. A session that nothing confirms for Expiry is
// removed, which also covers a hub that dies. Of several sessions of one provider's node
// the session with the newest epoch serves. The other sessions wait until they end.
//
// A set has at most its limit of sessions, and MaxHubs hubs. What exceeds a bound is dropped
// and counted.
package sessions

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// Expiry is how long a session lives after it was last confirmed.
	Expiry = 30 * time.Second
	// MaxHubs bounds the hubs whose reports are taken.
	MaxHubs = 1_024
	// maxEnded bounds the epochs remembered as ended between full reports.
	maxEnded = 65_536
)

// Hooks are called with what changes.
type Hooks[K comparable, V any] struct {
	// Serve begins and Retire ends that a session serves.
	Serve, Retire func(*Record[K, V])
	// Removed follows the last change of a session; nil is allowed.
	Removed func(*Record[K, V])
}

// Set is the sessions of all hubs. Its user has the lock: no two calls may run at once.
type Set[K comparable, V any] struct {
	limit   int
	hooks   Hooks[K, V]
	hubs    map[string]*Hub[K, V]
	nodes   map[K][]*Record[K, V]
	count   int
	dropped int64
}

// New returns an empty set with room for limit sessions.
func New[K comparable, V any](limit int, hooks Hooks[K, V]) *Set[K, V] {
	return &Set[K, V]{limit: limit, hooks: hooks, hubs: map[string]*Hub[K, V]{}, nodes: map[K][]*Record[K, V]{}}
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

// Put takes over that the report of a hub names a session. It returns nil where something
// newer is known or where there is no room. The caller gives a fresh record its value and
// then calls Add.
func (s *Set[K, V]) Put(h *Hub[K, V], epoch int64, node K) (rec *Record[K, V], fresh bool) {
	if h.report.Revision < h.fullFrom || h.ended[epoch] != 0 {
		return nil, false
	}
	rec = h.sessions[epoch]
	switch {
	case rec == nil:
		if s.count >= s.limit {
			s.dropped++
			return nil, false
		}
		rec, fresh = &Record[K, V]{hub: h, epoch: epoch, node: node}, true
	case h.report.Revision <= rec.revision, rec.node != node:
		return nil, false
	}
	rec.revision, rec.confirmed = h.report.Revision, h.heard
	return rec, fresh
}

// Add adds a fresh record, which serves if it is the newest of its node.
func (s *Set[K, V]) Add(rec *Record[K, V]) {
	s.count++
	rec.hub.sessions[rec.epoch] = rec
	s.nodes[rec.node] = append(s.nodes[rec.node], rec)
	s.elect(rec.node)
}

// Change changes the value of a record. If it serves, it does not while the value changes.
func (s *Set[K, V]) Change(rec *Record[K, V], change func()) {
	if !rec.serves {
		change()
		return
	}
	s.serve(rec, false)
	change()
	s.serve(rec, true)
}

// End removes a session that has ended by the report of a hub.
func (s *Set[K, V]) End(h *Hub[K, V], epoch int64) {
	if len(h.ended) >= maxEnded {
		clear(h.ended) // they only guard against messages out of order
	}
	h.ended[epoch] = max(h.report.Revision, h.ended[epoch], 1)
	if rec := h.sessions[epoch]; rec != nil {
		s.remove(rec)
	}
}

// Complete ends the taking over of a report, and reports whether it completed a full one.
// With the last missing part it removes what the full report does not name: every session
// whose newest mention is older than the report.
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

// Expire removes sessions that nothing has confirmed for Expiry. It calls kept, unless it is
// nil, with each of the others.
func (s *Set[K, V]) Expire(now time.Time, kept func(*Record[K, V])) {
	for _, h := range s.hubs {
		for _, rec := range h.sessions {
			if now.Sub(rec.confirmed) >= Expiry {
				s.remove(rec)
			} else if kept != nil {
				kept(rec)
			}
		}
		if len(h.sessions) == 0 && now.Sub(h.heard) >= Expiry {
			delete(s.hubs, h.id)
		}
	}
}

// Confirm confirms all sessions and hubs, for a time in which their reports could not be
// heard.
func (s *Set[K, V]) Confirm(now time.Time) {
	for _, h := range s.hubs {
		h.heard = now
		for _, rec := range h.sessions {
			rec.confirmed = now
		}
	}
}

// Of returns the sessions of a node. The caller must not change the list.
func (s *Set[K, V]) Of(node K) []*Record[K, V] { return s.nodes[node] }

// Size returns how many sessions the set has, of how many nodes and hubs they are, and for
// how many sessions or hubs there was no room.
func (s *Set[K, V]) Size() (sessions, nodes, hubs int, dropped int64) {
	return s.count, len(s.nodes), len(s.hubs), s.dropped
}

// HubState is what is known of a hub.
type HubState struct {
	Hub      string
	Sessions int
	Heard    time.Time
}

// Hubs returns the hubs that are heard, by id.
func (s *Set[K, V]) Hubs() []HubState {
	list := make([]HubState, 0, len(s.hubs))
	for _, id := range slices.Sorted(maps.Keys(s.hubs)) {
		h := s.hubs[id]
		list = append(list, HubState{id, len(h.sessions), h.heard})
	}
	return list
}

func (s *Set[K, V]) remove(rec *Record[K, V]) {
	delete(rec.hub.sessions, rec.epoch)
	s.count--
	if rec.serves {
		s.serve(rec, false)
	}
	rest := slices.DeleteFunc(s.nodes[rec.node], func(r *Record[K, V]) bool { return r == rec })
	if len(rest) == 0 {
		delete(s.nodes, rec.node)
	} else {
		s.nodes[rec.node] = rest
		s.elect(rec.node)
	}
	if s.hooks.Removed != nil {
		s.hooks.Removed(rec)
	}
}

// elect lets the newest session of a node serve and no other. A session that two hubs claim
// serves at the hub that was started last.
func (s *Set[K, V]) elect(node K) {
	newest := slices.MaxFunc(s.nodes[node], func(a, b *Record[K, V]) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.hub.incarnation, b.hub.incarnation),
			cmp.Compare(a.hub.id, b.hub.id))
	})
	for _, rec := range s.nodes[node] {
		if rec.serves && rec != newest {
			s.serve(rec, false)
		}
	}
	if !newest.serves {
		s.serve(newest, true)
	}
}

func (s *Set[K, V]) serve(rec *Record[K, V], serves bool) {
	rec.serves = serves
	if serves {
		s.hooks.Serve(rec)
	} else {
		s.hooks.Retire(rec)
	}
}
