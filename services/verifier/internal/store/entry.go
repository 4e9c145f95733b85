package store

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/standing"
)

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

// entry is an event with everything that it writes.
type entry struct {
	standing.Event
	offer  probe.Offer
	key    EventKey
	number int64
	at     time.Time
	// revision is the provider's before the event.
	revision int64
	piece    replay.Piece
	plain    []byte
	sealed   []byte
	leaf     archive.Leaf
	link     archive.Link
	after    standing.State
	outcome  standing.Outcome
	text     []byte // the outcome without the judgement
	// published is what routers are told.
	published projected
}

// write writes an event with everything that belongs to it, in one round trip.
func (e entry) write(ctx context.Context, tx pgx.Tx) error {
	batch := &pgx.Batch{}
	var probed *probe.ID
	if e.Judged != nil {
		probed = &e.Judged.Plan.ID
	}
	batch.Queue(insertEvent, e.offer.Provider, e.offer.Model, e.number, e.key, e.Name(), probed, e.at,
		e.after.Process.M(), e.after.Level, e.text)
	e.queueStanding(batch)
	batch.Queue(insertEvidence, e.piece.ID, e.offer.Provider, e.offer.Model, e.number, len(e.plain), e.leaf[:],
		e.link[:], e.sealed)
	if probed != nil {
		e.queueObservations(batch)
		batch.Queue(endJudgedProbe, *probed)
	}
	for i, v := range e.outcome.Verdicts {
		if err := e.queueVerdict(batch, v, e.revision+int64(i)+1); err != nil {
			return err
		}
	}
	queuePenaltyEnd(batch, e.Event)
	e.queueAct(batch)
	return tx.SendBatch(ctx, batch).Close()
}

func (e entry) queueStanding(batch *pgx.Batch) {
	var open *probe.VerdictID
	if len(e.after.Open) > 0 {
		open = &e.after.Open[0].Verdict
	}
	sql := updateStanding
	if e.number == 1 {
		sql = insertStanding
	}
	p := e.published
	batch.Queue(sql, e.offer.Provider, e.offer.Model, e.number, e.at, e.piece.After, e.after.Level, e.after.Run,
		e.after.Process.M(), e.after.HeldLane(), open, timeOrNull(e.after.UncleanAt), p.trust, p.lane, p.capTokens,
		timeOrNull(p.graceUntil), timeOrNull(p.passedAt))
}

// queueObservations adds what the probe said for each family, and of the references that
// scored it.
func (e entry) queueObservations(batch *pgx.Batch) {
	j := e.outcome.Judgement
	if j == nil {
		return
	}
	stratum := StratumID(e.Judged.Plan.Stratum)
	said := j.Observations
	if files := e.outcome.Files; files != nil {
		said = append(slices.Clip(said), *files)
	}
	for _, o := range said {
		var calibrated []byte
		if hash, ok := j.Calibrations[o.Family()]; ok {
			calibrated = hash[:]
		}
		batch.Queue(insertObservation, e.Judged.Plan.ID, o.Family().String(), e.offer.Provider, e.offer.Model, e.number,
			o.Exceeded(), calibrated, stratum[:], e.at)
	}
	if j.Compared {
		batch.Queue(compared, stratum[:], j.Apart, e.at)
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
func (e entry) queueVerdict(batch *pgx.Batch, v standing.Verdict, revision int64) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	effects := v.Effects
	var of *probe.VerdictID
	if !v.Of.IsZero() {
		of = &v.Of
	}
	batch.Queue(reviseProvider, e.offer.Provider)
	batch.Queue(insertVerdict, v.ID, e.offer.Provider, e.offer.Model, e.number, v.Kind, v.Trigger, e.at, of,
		int(effects.Slash), effects.Remove, effects.Reinstate, effects.Count, v.NeedsOperator, cut(v.Summary, 500), body)
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

// queueAct keeps an operator's word on an offer. The guard against common causes voids
// observations too, and is no operator.
func (e entry) queueAct(batch *pgx.Batch) {
	offer := map[string]any{"provider_id": e.offer.Provider.String(), "model_id": e.offer.Model,
		"number": strconv.FormatInt(e.number, 10)}
	switch {
	case e.Operator != nil:
		did := approvedVerdict
		if e.Operator.Refused {
			did = refusedVerdict
		}
		if e.outcome.Held != "" {
			offer["held"] = string(e.outcome.Held)
		}
		batch.Queue(insertAct, e.Operator.By, string(did), e.Operator.Verdict.String(), offer)
	case e.Voided != nil && actor.IsOperator(e.Voided.By):
		offer["since"] = e.Voided.Since.UTC().Format(time.RFC3339Nano)
		batch.Queue(insertAct, e.Voided.By, string(voided), e.offer.Provider.String(), offer)
	}
}
