package verifier

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/events"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/sealed"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/traffic"
	"svc.internal/services/verifier/internal/work"
)

// New makes the service; Run starts it. It makes the sealed settings where there are none.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	made, err := newMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	settings, err := openSealed(cfg.Sealed)
	if err != nil {
		return nil, err
	}
	box := keep.NewBox(settings.Archive, rand.Reader)
	s := &Service{cfg: cfg, deps: deps, metrics: made, store: store.New(deps.DB, box), offers: offers.New(),
		traffic: traffic.New(), cover: work.NewCover()}
	s.keeper, s.time = keep.New(s.store, box), store.NewClock(s.store, deps.Clock)
	s.switches = &switches{store: s.store, clock: deps.Clock, probes: cfg.Probes}
	s.catalog = peers.NewCatalog(deps.Catalog, deps.PublicCatalog, deps.Log, deps.Clock.Now)
	if s.edge, err = flow.NewEdge(cfg.EdgeURL, nil, settings.Secret); err != nil {
		return nil, fmt.Errorf("verifier: edge_url: %w", err)
	}
	s.house, err = house.New(cfg.house(), peers.Ledger{Client: deps.House}, s.store, deps.Clock, rand.Reader,
		settings.Secret)
	if err != nil {
		return nil, fmt.Errorf("verifier: house accounts: %w", err)
	}
	matcher := pairing.New()
	waiting := claims.New(func(request ids.RequestID) { matcher.Own(request.String()) })
	s.reporter = events.NewReporter(deps.Bus, work.Reports{Store: s.store}, deps.Log)
	if err := s.build(settings, matcher, waiting); err != nil {
		return nil, err
	}
	s.listen(matcher, waiting)
	return s, nil
}

// openSealed reads the sealed settings, and makes them and their directory at the first
// start.
func openSealed(path string) (sealed.Settings, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return sealed.Settings{}, fmt.Errorf("verifier: make the directory of the sealed settings: %w", err)
	}
	settings, err := sealed.Open(path, rand.Reader)
	if err != nil {
		return sealed.Settings{}, fmt.Errorf("verifier: open the sealed settings: %w", err)
	}
	return settings, nil
}
