package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
)

// Verdict is a verdict with the evidence that it rests on.
type Verdict struct {
	standing.Verdict
	// First and Number are the first and the last event of its evidence.
	First, Number int64
	// End is "executed", "reversed" or "refused" once its penalty came to that, at EndedAt.
	End     string
	EndedAt time.Time
}

// ErrVerdict is the error for a verdict that there is not.
var ErrVerdict = errors.New("no such verdict")

const (
	verdictColumns = `v.body, v.first_number, v.number, coalesce(e.state, ''), e.ended_at`
	verdictFrom    = ` FROM verdict v LEFT JOIN penalty_end e USING (verdict_id) `
)

func scanVerdict(row pgx.CollectableRow) (v Verdict, err error) {
	var ended *time.Time
	err = row.Scan(jsonInto{&v.Verdict}, &v.First, &v.Number, &v.End, &ended)
	v.EndedAt = timeOf(ended)
	return v, err
}

// Verdict returns a verdict, or ErrVerdict.
func (s *Store) Verdict(ctx context.Context, id probe.VerdictID) (Verdict, error) {
	list, err := collect(ctx, s.pool, scanVerdict, `SELECT `+verdictColumns+verdictFrom+` WHERE v.verdict_id = $1`, id)
	if err == nil && len(list) == 0 {
		err = ErrVerdict
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("read a verdict: %w", err)
	}
	return list[0], nil
}

// VerdictFilter chooses verdicts; its zero value chooses all.
type VerdictFilter struct {
	Provider ids.ProviderID
	Model    string
	// Waiting chooses verdicts on which an operator has not said a word.
	Waiting bool
}

// Verdicts returns verdicts, the last first, before a verdict (zero for the last), at most
// limit.
func (s *Store) Verdicts(
	ctx context.Context, f VerdictFilter, before probe.VerdictID, limit int,
) ([]Verdict, error) {
	list, err := collect(ctx, s.pool, scanVerdict, `SELECT `+verdictColumns+verdictFrom+`
		WHERE ($1::uuid IS NULL OR v.provider_id = $1) AND ($2::text = '' OR v.model_id = $2)
			AND (NOT $3::boolean OR v.needs_operator AND NOT EXISTS (SELECT FROM verdict a WHERE a.of_verdict = v.verdict_id))
			AND ($4::uuid IS NULL OR v.verdict_id < $4)
		ORDER BY v.verdict_id DESC LIMIT $5`, f.Provider, f.Model, f.Waiting, before, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list verdicts: %w", err)
	}
	return list, nil
}

// Event is one thing that happened to an offer.
type Event struct {
	Number int64
	Key    EventKey
	// Kind is standing.Event's name.
	Kind  string
	At    time.Time
	M     float64
	Level string
	// Outcome has no judgement.
	Outcome standing.Outcome
}

// Events returns what happened to an offer, the last first, before an event (0 for the
// last), at most limit.
func (s *Store) Events(ctx context.Context, o probe.Offer, before int64, limit int) ([]Event, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (e Event, err error) {
		err = row.Scan(&e.Number, &e.Key, &e.Kind, &e.At, &e.M, &e.Level, jsonInto{&e.Outcome})
		e.At = e.At.UTC()
		return e, err
	}, `SELECT number, event_key, kind, at, m, level, outcome FROM event
		WHERE provider_id = $1 AND model_id = $2 AND ($3 = 0 OR number < $3) ORDER BY number DESC LIMIT $4`,
		o.Provider, o.Model, before, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the events of an offer: %w", err)
	}
	return list, nil
}

// Observation is what a probe said for one family.
type Observation struct {
	Probe       probe.ID
	Kind        probe.Kind
	Flow        probe.Flow
	Family      string
	Exceeded    bool
	Calibration []byte
	Number      int64
	At          time.Time
}

// Observations returns what probes said of an offer, the last first, those of one event
// together, before an event (0 for the last), at most limit.
func (s *Store) Observations(ctx context.Context, o probe.Offer, before int64, limit int) ([]Observation, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (b Observation, err error) {
		err = row.Scan(&b.Probe, &b.Kind, &b.Flow, &b.Family, &b.Exceeded, &b.Calibration, &b.Number, &b.At)
		b.At = b.At.UTC()
		return b, err
	}, `SELECT b.probe_id, p.kind, p.flow, b.family, b.exceeded, b.calibration, b.number, b.at
		FROM observation b JOIN probe p USING (probe_id)
		WHERE b.provider_id = $1 AND b.model_id = $2 AND ($3 = 0 OR b.number < $3)
		ORDER BY b.number DESC, b.family LIMIT $4`, o.Provider, o.Model, before, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the observations of an offer: %w", err)
	}
	return list, nil
}
