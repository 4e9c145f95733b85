package offers

import (
	"cmp"
	"slices"

	"svc.internal/services/verifier/internal/probe"
)

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
