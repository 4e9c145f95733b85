package auditor

import (
	"bytes"
	"maps"
	"slices"
)

// tie joins what clients, engines and the ledger say of a request. The call of a client
// that got no id is found by the nonce that an engine saw.
func (a *audit) tie() {
	for _, c := range a.calls {
		if !c.request.zero() {
			c.requests = append(c.requests, c.request)
		}
		for _, u := range a.served[c.nonce] {
			if !slices.Contains(c.requests, u) {
				c.requests = append(c.requests, u)
			}
		}
		for _, u := range c.requests {
			q := a.requests[u]
			if q == nil {
				q = &request{} // a client got an id that nobody else knows
				a.requests[u] = q
			}
			q.calls = append(q.calls, c)
		}
		if len(c.requests) == 1 {
			q := a.requests[c.requests[0]]
			q.engines = append(q.engines, a.unnamed[c.nonce]...)
			delete(a.unnamed, c.nonce)
		}
	}
	for _, nonce := range slices.Sorted(maps.Keys(a.unnamed)) {
		a.loose = append(a.loose, a.unnamed[nonce]...)
	}
	a.ordered = sortedIDs(a.requests)
}

// sortedIDs are the ids in their order.
func sortedIDs[V any](m map[id]V) []id {
	return slices.SortedFunc(maps.Keys(m), func(x, y id) int { return bytes.Compare(x[:], y[:]) })
}
