package offers

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
)

// Apply takes over a report and reports whether it completed a full one. The report's
// sessions must not be changed afterwards.
func (v *View) Apply(r Report, now time.Time) (complete bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.hubOfLocked(r)
	if h == nil {
		return false
	}
	h.heard = now
	for i := range r.Sessions {
		v.putLocked(h, r, &r.Sessions[i], now)
	}
	for _, epoch := range r.Ended {
		v.endLocked(h, epoch, r.Revision)
	}
	return r.Full && v.fullLocked(h, r)
}

// Expire drops sessions that nothing has confirmed for Expiry.
func (v *View) Expire(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.hubs {
		for epoch, rec := range h.sessions {
			if now.Sub(rec.confirmed) >= Expiry {
				v.removeLocked(h, epoch)
			}
		}
		if len(h.sessions) == 0 && now.Sub(h.heard) >= Expiry {
			delete(v.hubs, h.id)
		}
	}
}

// Confirm confirms all sessions and hubs, for a time in which their reports could not be
// heard.
func (v *View) Confirm(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.hubs {
		h.heard = now
		for _, rec := range h.sessions {
			rec.confirmed = now
		}
	}
}

// putLocked takes over one session, unless something newer is known of it.
func (v *View) putLocked(h *hub, r Report, s *Session, now time.Time) {
	if r.Revision < h.fullFrom || h.ended[s.Epoch] != 0 || len(s.Models) > MaxModels {
		return
	}
	rec := h.sessions[s.Epoch]
	switch {
	case rec == nil:
		if v.sessions >= v.limit {
			v.dropped++
			return
		}
		v.sessions++
		rec = &record{hub: h, session: own(s, r)}
		h.sessions[s.Epoch] = rec
		key := node{s.Provider, s.Node}
		v.nodes[key] = append(v.nodes[key], rec)
		v.electLocked(key)
	case r.Revision <= rec.revision, rec.session.Provider != s.Provider, rec.session.Node != s.Node:
		return
	case !same(rec.session, s, r):
		v.replaceLocked(rec, own(s, r))
	}
	rec.revision, rec.confirmed = r.Revision, now
}

// own returns the session as the view keeps it. The texts are copied, because those of a
// message would keep the whole message in memory.
func own(s *Session, r Report) *Session {
	mine := *s
	mine.Node, mine.GPU = strings.Clone(s.Node), strings.Clone(s.GPU)
	mine.Hub, mine.Address = r.Hub, r.Address
	mine.Capabilities = make([]string, len(s.Capabilities))
	for i, c := range s.Capabilities {
		mine.Capabilities[i] = strings.Clone(c)
	}
	slices.Sort(mine.Capabilities)
	mine.Models = make([]Model, len(s.Models))
	for i, m := range s.Models {
		m.ID, m.Quantization = strings.Clone(m.ID), strings.Clone(m.Quantization)
		m.Engine, m.Revision = strings.Clone(m.Engine), strings.Clone(m.Revision)
		m.Class = quant.Parse(m.Quantization)
		mine.Models[i] = m
	}
	return &mine
}

// same reports whether a description says nothing new.
func same(a, b *Session, r Report) bool {
	return a.Hub == r.Hub && a.Address == r.Address && a.Active == b.Active && a.Draining == b.Draining &&
		a.Reference == b.Reference && a.Probation == b.Probation && a.ActiveSince.Equal(b.ActiveSince) &&
		a.MaxRequestBytes == b.MaxRequestBytes && a.GPU == b.GPU && a.Capacity == b.Capacity &&
		sameSet(a.Capabilities, b.Capabilities) && slices.EqualFunc(a.Models, b.Models, sameModel)
}

// sameSet reports whether the sorted list has the same texts as the other list.
func sameSet(sorted, other []string) bool {
	if slices.IsSorted(other) {
		return slices.Equal(sorted, other)
	}
	return slices.Equal(sorted, slices.Sorted(slices.Values(other)))
}

// sameModel compares what is reported. The class follows from the statement.
func sameModel(a, b Model) bool {
	b.Class = a.Class
	return a == b
}

func (v *View) replaceLocked(rec *record, s *Session) {
	serves := rec.indexed
	if serves {
		v.unindexLocked(rec)
	}
	rec.session = s
	if serves {
		v.indexLocked(rec)
	}
}

func (v *View) endLocked(h *hub, epoch int64, revision uint64) {
	if len(h.ended) >= maxEnded {
		clear(h.ended) // they only guard against messages out of order
	}
	h.ended[epoch] = max(revision, h.ended[epoch], 1)
	v.removeLocked(h, epoch)
}

func (v *View) removeLocked(h *hub, epoch int64) {
	rec := h.sessions[epoch]
	if rec == nil {
		return
	}
	delete(h.sessions, epoch)
	v.sessions--
	if rec.indexed {
		v.unindexLocked(rec)
	}
	key := node{rec.session.Provider, rec.session.Node}
	rest := slices.DeleteFunc(v.nodes[key], func(r *record) bool { return r == rec })
	if len(rest) == 0 {
		delete(v.nodes, key)
		return
	}
	v.nodes[key] = rest
	v.electLocked(key)
}

// electLocked lets the newest session of a node count and no other. A session that two
// hubs claim counts at the hub that was started last.
func (v *View) electLocked(key node) {
	newest := slices.MaxFunc(v.nodes[key], func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.session.Epoch, b.session.Epoch), cmp.Compare(a.hub.incarnation, b.hub.incarnation),
			cmp.Compare(a.hub.id, b.hub.id))
	})
	for _, rec := range v.nodes[key] {
		if rec.indexed && rec != newest {
			v.unindexLocked(rec)
		}
	}
	if !newest.indexed {
		v.indexLocked(newest)
	}
}

// indexLocked adds the seats of a session. Lists are replaced and never changed, because
// readers keep them.
func (v *View) indexLocked(rec *record) {
	rec.indexed = true
	for i := range rec.session.Models {
		seat := Seat{rec.session, &rec.session.Models[i]}
		if rec.session.Reference {
			v.references[seat.Model.ID] = with(v.references[seat.Model.ID], seat)
			continue
		}
		offer := probe.Offer{Provider: rec.session.Provider, Model: seat.Model.ID}
		v.offered[offer] = with(v.offered[offer], seat)
	}
}

func (v *View) unindexLocked(rec *record) {
	rec.indexed = false
	for i := range rec.session.Models {
		model := rec.session.Models[i].ID
		if rec.session.Reference {
			without(v.references, model, rec.session)
			continue
		}
		without(v.offered, probe.Offer{Provider: rec.session.Provider, Model: model}, rec.session)
	}
}

func with(seats []Seat, seat Seat) []Seat {
	at, _ := slices.BinarySearchFunc(seats, seat, func(a, b Seat) int { return cmp.Compare(a.Node, b.Node) })
	all := make([]Seat, 0, len(seats)+1)
	return append(append(append(all, seats[:at]...), seat), seats[at:]...)
}

func without[K comparable](lists map[K][]Seat, key K, of *Session) {
	rest := make([]Seat, 0, len(lists[key]))
	for _, s := range lists[key] {
		if s.Session != of {
			rest = append(rest, s)
		}
	}
	if len(rest) == 0 {
		delete(lists, key)
		return
	}
	lists[key] = rest
}
