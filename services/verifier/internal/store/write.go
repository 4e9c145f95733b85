package store

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

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

const (
	insertEvent = `
		INSERT INTO event (provider_id, model_id, number, event_key, kind, probe_id, at, m, level, outcome)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	insertObservation = `
		INSERT INTO observation (probe_id, family, provider_id, model_id, number, exceeded, calibration, stratum, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	insertStanding = `
		INSERT INTO standing (provider_id, model_id, number, moved_at, state, level, benchmark, m, misrep_lane,
			open_penalty, unclean_at, trust, lane, cap_tokens, grace_until, passed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	updateStanding = `
		UPDATE standing SET number = $3, moved_at = $4, state = $5, level = $6, benchmark = $7, m = $8, misrep_lane = $9,
			open_penalty = $10, unclean_at = $11, trust = $12, lane = $13, cap_tokens = $14, grace_until = $15, passed_at = $16
		WHERE provider_id = $1 AND model_id = $2`
	insertEvidence = `
		INSERT INTO evidence (piece_id, provider_id, model_id, number, plain_bytes, leaf, link, sealed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	endJudgedProbe = `
		UPDATE probe SET state = 'done', replica = NULL, leased_until = NULL, ended_at = clock_timestamp()
		WHERE probe_id = $1 AND state IN ('queued', 'leased') AND tries > 0`
)

// write writes an event with everything that belongs to it, in one round trip.
func (a *advance) write(ctx context.Context, st step) error {
	batch := &pgx.Batch{}
	var probed *probe.ID
	if st.Judged != nil {
		probed = &st.Judged.Plan.ID
	}
	number, m := a.number+1, st.after.Process.M()
	batch.Queue(insertEvent, a.offer.Provider, a.offer.Model, number, a.key, st.Name(), probed, a.now, m,
		st.after.Level, st.text)
	a.queueStanding(batch, st, number)
	batch.Queue(insertEvidence, st.piece.ID, a.offer.Provider, a.offer.Model, number, len(st.plain), st.leaf[:],
		st.link[:], st.sealed)
	if probed != nil {
		a.queueObservations(batch, st, number)
		batch.Queue(endJudgedProbe, *probed)
	}
	for i, v := range st.outcome.Verdicts {
		if err := a.queueVerdict(batch, v, number, a.provider.revision+int64(i)+1); err != nil {
			return err
		}
	}
	queuePenaltyEnd(batch, st.Event)
	return a.tx.SendBatch(ctx, batch).Close()
}

func (a *advance) queueStanding(batch *pgx.Batch, st step, number int64) {
	var open *probe.VerdictID
	if len(st.after.Open) > 0 {
		open = &st.after.Open[0].Verdict
	}
	sql := updateStanding
	if number == 1 {
		sql = insertStanding
	}
	p := projectedOf(st.outcome.Published)
	batch.Queue(sql, a.offer.Provider, a.offer.Model, number, a.now, st.piece.After, st.after.Level, st.after.Run,
		st.after.Process.M(), st.after.MisrepLane, open, timeOrNull(st.after.UncleanAt), p.trust, p.lane, p.capTokens,
		timeOrNull(p.graceUntil), timeOrNull(p.passedAt))
}

// queueObservations adds what the probe said for each family.
func (a *advance) queueObservations(batch *pgx.Batch, st step, number int64) {
	j := st.outcome.Judgement
	if j == nil {
		return
	}
	stratum := StratumID(st.Judged.Plan.Stratum)
	for _, o := range j.Observations {
		var calibrated []byte
		if hash, ok := j.Calibrations[o.Family()]; ok {
			calibrated = hash[:]
		}
		batch.Queue(insertObservation, st.Judged.Plan.ID, o.Family().String(), a.offer.Provider, a.offer.Model, number,
			o.Exceeded(), calibrated, stratum[:], a.now)
	}
}

const (
	insertVerdict = `
		INSERT INTO verdict (verdict_id, provider_id, model_id, number, kind, cause, at, of_verdict,
			share_basis_points, removes, reinstates, counts, needs_operator, summary, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`
	insertEffect   = `INSERT INTO effect (verdict_id, kind, subject, revision) VALUES ($1, $2, $3, $4)`
	reviseProvider = `UPDATE provider SET revision = revision + 1 WHERE provider_id = $1`
)

// queueVerdict adds a verdict and what follows from it elsewhere, in the order in which it is
// to be carried out.
func (a *advance) queueVerdict(batch *pgx.Batch, v standing.Verdict, number, revision int64) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	e := v.Effects
	var of *probe.VerdictID
	if !v.Of.IsZero() {
		of = &v.Of
	}
	batch.Queue(reviseProvider, a.offer.Provider)
	batch.Queue(insertVerdict, v.ID, a.offer.Provider, a.offer.Model, number, v.Kind, v.Trigger, a.now, of, int(e.Slash),
		e.Remove, e.Reinstate, e.Count, v.NeedsOperator, cut(v.Summary, 500), body)
	for _, kind := range effectsOf(v) {
		subject := v.ID
		if kind == Reinstate {
			subject = v.Of
		}
		batch.Queue(insertEffect, v.ID, kind, subject, revision)
	}
	return nil
}

// effectsOf are the effects of a verdict on other services. The collateral is escrowed
// before the provider learns of its removal.
func effectsOf(v standing.Verdict) []EffectKind {
	var kinds []EffectKind
	for _, k := range []struct {
		kind EffectKind
		is   bool
	}{
		{OpenPenalty, v.Effects.Slash > 0}, {Expel, v.Effects.Remove}, {Reinstate, v.Effects.Reinstate},
		{ReportBenchmark, v.Kind == standing.Benchmark},
	} {
		if k.is {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// queuePenaltyEnd records the end of a penalty, from which its evidence is kept for 180 days
// more.
func queuePenaltyEnd(batch *pgx.Batch, e standing.Event) {
	const sql = `INSERT INTO penalty_end (verdict_id, state) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	switch {
	case e.Penalty != nil && (e.Penalty.Final == standing.Executed || e.Penalty.Final == standing.Reversed):
		batch.Queue(sql, e.Penalty.Verdict, e.Penalty.Final)
	case e.Operator != nil && e.Operator.Refused:
		batch.Queue(sql, e.Operator.Verdict, "refused")
	}
}

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
	// CommonCause reports whether a common cause is suspected in a stratum of the model.
	CommonCause bool
	// Inherited is what other accounts of the same person left behind.
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
	EXISTS (SELECT FROM stratum t WHERE t.model_id = $2 AND t.suspected_since IS NOT NULL),
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
