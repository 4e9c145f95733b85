package verifier

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/effects"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/work"
)

// switchFor is how long a setting of operators is believed.
const switchFor = 5 * time.Second

// loops are what the service does by itself.
type loops struct {
	mover        *work.Mover
	seen         *work.Seen
	planning     *work.Planning
	queue        *work.Queue
	benchmarks   *work.Benchmarks
	calibrations *work.Calibrations
	ratios       *work.Ratios
	ticks        *work.Ticks
	pairs        *work.Pairs
	guard        *work.Guard
	penalties    *work.Penalties
	traffic      *work.Traffic
	effects      *effects.Worker
	waived       *work.Waived
}

// switches is what operators turn on and off.
type switches struct {
	store  *store.Store
	clock  clock.Clock
	probes bool

	mu sync.Mutex
	at time.Time
	on bool
}

// probing reports whether offers and references are asked. A database that does not answer
// leaves it as it was.
func (s *switches) probing(ctx context.Context) bool {
	if !s.probes {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock.Now(); now.Sub(s.at) >= switchFor {
		if w, err := s.store.Setting(ctx, store.Probes); err == nil {
			s.on, s.at = w.Enabled, now
		}
	}
	return s.on
}

// models gives package work what the catalog says.
type models struct{ *peers.Catalog }

// Find implements work.Models.
func (m models) Find(id string) (work.Model, bool) {
	found, ok := m.Model(id)
	return work.Model{
		Active: found.Active, Embeddings: found.Embeddings, Window: found.Window, MaxOutput: found.MaxOutput,
		Files: found.Files,
	}, ok
}
