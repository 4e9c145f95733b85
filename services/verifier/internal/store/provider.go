package store

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// ProviderStanding is what a step of one offer depends on of its provider and of the
// installation, as it is under the lock of the transaction.
type ProviderStanding struct {
	// Rank is j of the provider's j-th model, from 1, in the order in which the models were
	// first seen.
	Rank int
	// Penalties counts the provider's penalties that were not reversed, over all its models,
	// the last one at LastPenaltyAt.
	Penalties     int
	LastPenaltyAt time.Time
	// RemovedBy is the last verdict that removed the provider and was not reversed; zero
	// where none did.
	RemovedBy probe.VerdictID
	// PenaltiesOn is the operators' setting. Who turns it off waits for this transaction.
	PenaltiesOn bool
	// CommonCause reports whether a common cause is suspected in a stratum of the model by
	// which offers are judged.
	CommonCause bool
	// Inherited is what other accounts of the same person left behind. Advance publishes
	// nothing better than it; a change need not look at it.
	Inherited []Inherited

	revision  int64
	published projected
}

// Brakes are the brakes of the ladder, with what only the caller knows: whether the
// calibrations reach no further than watch.
func (p ProviderStanding) Brakes(watchOnly bool) ladder.Brakes {
	return ladder.Brakes{CommonCause: p.CommonCause, WatchOnly: watchOnly, PenaltiesOff: !p.PenaltiesOn}
}

const selectProvider = `
SELECT o.rank, p.revision, counted.n, counted.last,
	(SELECT v.verdict_id FROM verdict v WHERE v.provider_id = $1 AND v.removes
		AND NOT EXISTS (SELECT FROM verdict r WHERE r.of_verdict = v.verdict_id AND r.counts < 0)
		ORDER BY v.verdict_id DESC LIMIT 1),
	EXISTS (SELECT FROM stratum t WHERE t.model_id = $2 AND t.suspected_since IS NOT NULL AND ` + judged + `),
	s.trust, s.lane, s.cap_tokens, s.grace_until, s.passed_at
FROM offering o JOIN provider p USING (provider_id) LEFT JOIN standing s USING (provider_id, model_id),
	LATERAL (SELECT count(*) AS n, max(v.at) AS last FROM verdict v WHERE v.provider_id = $1 AND v.counts > 0
		AND NOT EXISTS (SELECT FROM verdict r WHERE r.of_verdict = v.verdict_id AND r.counts < 0)) AS counted
WHERE o.provider_id = $1 AND o.model_id = $2`

// readProvider reads what a step depends on. The setting of penalties is locked against a
// change.
func readProvider(ctx context.Context, tx pgx.Tx, o probe.Offer) (p ProviderStanding, err error) {
	var last, grace, passed *time.Time
	var removed *probe.VerdictID
	var value *float64
	var lane *trust.Lane
	var capTokens *int64
	err = tx.QueryRow(ctx, selectProvider, o.Provider, o.Model).Scan(&p.Rank, &p.revision, &p.Penalties, &last, &removed,
		&p.CommonCause, &value, &lane, &capTokens, &grace, &passed)
	if err != nil {
		return ProviderStanding{}, err
	}
	p.LastPenaltyAt = timeOf(last)
	if removed != nil {
		p.RemovedBy = *removed
	}
	if value != nil {
		p.published = projected{*value, *lane, *capTokens, timeOf(grace), timeOf(passed)}
	}
	if err := tx.QueryRow(ctx, `SELECT enabled FROM setting WHERE name = 'penalties' FOR SHARE`).
		Scan(&p.PenaltiesOn); err != nil {
		return ProviderStanding{}, err
	}
	p.Inherited, err = inherits(ctx, tx, o.Provider)
	return p, err
}

// projected is what is published of an offer, as the row of its standing has it.
type projected struct {
	trust      float64
	lane       trust.Lane
	capTokens  int64
	graceUntil time.Time
	passedAt   time.Time
}

func projectedOf(p standing.Published) projected {
	out := projected{trust: p.Trust, lane: p.Lane, capTokens: p.CapTokens, graceUntil: p.GraceUntil.UTC()}
	if p.Proven {
		out.passedAt = p.PassedAt.UTC()
	}
	return out
}

// trustStep is the least change of trust that time alone writes. Trust fades a little every
// hour, which no router needs to know to the last digit.
const trustStep = 0.005

// differs reports whether routers should know of the change from p to q.
func (p projected) differs(q projected) bool {
	apart := math.Abs(p.trust-q.trust) >= trustStep
	p.trust = q.trust
	return apart || p != q
}
