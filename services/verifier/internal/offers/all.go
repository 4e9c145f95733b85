package offers

import (
	"cmp"
	"slices"
)

// AllReferences returns the seats of all references, in the order of models and hosts.
func (v *View) AllReferences() []Seat {
	v.mu.RLock()
	var all []Seat
	for _, seats := range v.references {
		all = append(all, seats...)
	}
	v.mu.RUnlock()
	slices.SortFunc(all, func(a, b Seat) int {
		return cmp.Or(cmp.Compare(a.Model.ID, b.Model.ID), slices.Compare(a.Provider[:], b.Provider[:]),
			cmp.Compare(a.Node, b.Node))
	})
	return all
}
