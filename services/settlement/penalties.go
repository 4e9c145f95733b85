package settlement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/serve"
	"svc.internal/services/settlement/internal/collateral"
	"svc.internal/services/settlement/internal/events"
	"svc.internal/services/settlement/internal/penalty"
)

// verifier is the service that opens penalties, as its certificate names it.
const verifier = "verifier"

const (
	// penaltyInterval is the pause between two looks for penalties that are due.
	penaltyInterval = 2 * time.Second
	// maxPenaltyBatches bounds the batches of one look. What is left waits for the next.
	maxPenaltyBatches = 10
	// collateralInterval is the pause between two looks for what the hub was not told.
	collateralInterval = time.Second
)

// CheckListeners returns a fault for each address that is not on loopback, where
// DevelopmentCollateral is set: collateral that nobody holds must not let strangers earn.
// The addresses are all on which the process listens; an empty address is no listener.
func (c Config) CheckListeners(addresses ...string) error {
	if !c.DevelopmentCollateral {
		return nil
	}
	var faults []error
	for _, address := range addresses {
		if address == "" {
			continue
		}
		if err := serve.Loopback(address); err != nil {
			faults = append(faults, fmt.Errorf("settlement: development_collateral (SVC_SETTLEMENT_DEVELOPMENT_COLLATERAL) "+
				"is for a process that listens on loopback alone: %w", err))
		}
	}
	return errors.Join(faults...)
}

// announce publishes the change of a penalty. It is committed, so a message that is lost
// changes nothing.
func (s *Service) announce(ctx context.Context, p penalty.Penalty) {
	s.deps.Log.InfoContext(ctx, "a penalty has another state", "penalty_id", p.ID.String(),
		"provider_id", p.ProviderID.String(), "state", string(p.State), "revision", p.Revision)
	if err := events.PublishPenalty(ctx, s.deps.Bus, p); err != nil {
		s.deps.Log.WarnContext(ctx, "the change of a penalty was not published", "penalty_id", p.ID.String(), "error", err)
	}
}

// carryOut executes penalties that are due, at every interval until ctx ends.
func (s *Service) carryOut(ctx context.Context) {
	for range clock.Every(ctx, penaltyInterval) {
		s.executeDue(ctx)
	}
}

// executeDue executes what is due now, and measures what is open.
func (s *Service) executeDue(ctx context.Context) {
	for range maxPenaltyBatches {
		_, more, err := s.penalties.ExecuteDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.ErrorContext(ctx, "penalties that are due could not be executed", "error", err)
		}
		if !more {
			break
		}
	}
	backlog, err := s.penalties.Backlog(ctx)
	if err != nil {
		return // the next look measures
	}
	s.metrics.backlog(ctx, backlog)
}

// confirmCollateral confirms the collateral of every provider that is heard of, until ctx
// ends.
func (s *Service) confirmCollateral(ctx context.Context) error {
	s.deps.Log.WarnContext(ctx, "development_collateral is set: every provider counts as having collateral, and nobody holds any")
	stop, err := events.HearProviders(s.deps.Bus, s.development.Heard)
	if err != nil {
		return err
	}
	for range clock.Every(ctx, collateralInterval) {
		if _, err := s.development.Pass(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "the hub was not told of all collateral, and will be", "error", err,
				"retry_after", collateral.RetryAfter.String())
		}
	}
	_ = stop() // it fails on a connection that is closed already
	return nil
}
