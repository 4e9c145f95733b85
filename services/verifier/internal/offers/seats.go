package offers

import (
	"cmp"
	"slices"

	"svc.internal/services/verifier/internal/probe"
)

// indexLocked adds the seats of a session. Lists are replaced and never changed, because
// readers keep them.
func (v *View) indexLocked(rec *record) {
	for i := range rec.Value.Models {
		seat := Seat{rec.Value, &rec.Value.Models[i]}
		if rec.Value.Reference {
			v.references[seat.Model.ID] = with(v.references[seat.Model.ID], seat)
			continue
		}
		offer := probe.Offer{Provider: rec.Value.Provider, Model: seat.Model.ID}
		v.offered[offer] = with(v.offered[offer], seat)
	}
}

func (v *View) unindexLocked(rec *record) {
	for i := range rec.Value.Models {
		model := rec.Value.Models[i].ID
		if rec.Value.Reference {
			without(v.references, model, rec.Value)
			continue
		}
		without(v.offered, probe.Offer{Provider: rec.Value.Provider, Model: model}, rec.Value)
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
