// Package snapshot holds the whole catalog in memory, with the supply of each model, and
// tells its watchers of every change.
//
// A Snapshot never changes. A newer one takes its place. A watcher waits for the next
// snapshot and always gets the newest, so a slow watcher skips snapshots and nothing
// queues up for it. Entries and weights are read when the store says that they changed,
// and at each repair. The router is asked for supply at every interval. While the router
// is away, its last answer counts for a bounded time, and then nobody counts as online.
package snapshot

import (
	"slices"
	"strings"

	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/guarantee"
	"svc.internal/services/catalog/internal/weights"
)

// Model is a catalog entry with what its providers now guarantee.
type Model struct {
	entry.Model
	Supply guarantee.Guarantee
}

// Snapshot is the catalog at one moment.
type Snapshot struct {
	// Revision grows with every snapshot of one process, from 1.
	Revision uint64
	// Models are ordered by id, byte by byte.
	Models []Model
	// Weights are the files that models consist of, by model id, where they are
	// known.
	Weights map[string]weights.Set
}

// Find looks a model up by its id.
func (s *Snapshot) Find(id string) (Model, bool) {
	i, found := slices.BinarySearchFunc(s.Models, id, func(m Model, id string) int { return strings.Compare(m.ID, id) })
	if !found {
		return Model{}, false
	}
	return s.Models[i], true
}

// Page returns the models on a page. Pages count from 1. A page beyond the last is empty.
func (s *Snapshot) Page(page, size int) []Model {
	start, end := Window(len(s.Models), page, size)
	return s.Models[start:end]
}

// Window returns where a page of total items starts and ends. Pages count from 1.
func Window(total, page, size int) (start, end int) {
	start = min((page-1)*size, total)
	return start, min(start+size, total)
}

// merge makes the models of a snapshot. It reports whether their supply differs from that
// of before, which has the same entries.
func merge(entries []entry.Model, supply map[string]guarantee.Supply, before []Model) (models []Model, changed bool) {
	models = make([]Model, len(entries))
	for i, e := range entries {
		models[i] = withSupply(e, supply)
		changed = changed || i >= len(before) || !models[i].Supply.Equal(before[i].Supply)
	}
	return models, changed
}

func withSupply(e entry.Model, supply map[string]guarantee.Supply) Model {
	return Model{Model: e, Supply: guarantee.Of(supply[e.ID], e.ContextTokens)}
}
