package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/pg"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// Change decides what an event changes. now is the database's clock, which never goes back
// within an offer. It is called at most once in a transaction, and again when the
// transaction is tried again, so it has no effect outside.
type Change func(now time.Time, before standing.State, p ProviderStanding) (
	standing.Event, standing.World, standing.State, standing.Outcome, error)

// Advance moves the standing of an offer by one event. In one transaction, under the lock of
// the provider's row, it reads the clock, calls change, and writes the event with its
// observations, the standing, the verdicts with their effects, and a sealed piece of
// evidence. A probe that was judged is done by that.
//
// The key of an event that was given before changes nothing and calls nothing: Advance
// returns what it brought then, without the judgement. An event by which only time passes
// (standing.Event.Ticked), and that changes neither evidence nor ladder nor what is
// published, is not written.
//
// An error of change rolls back and is returned as it is wrapped here. After an error the
// outcome is unknown only where the connection was lost (pg.IsUnavailable): then the same
// key may be given again. It fails with ErrOffer for an offer that was never seen.
func (s *Store) Advance(
	ctx context.Context, o probe.Offer, key EventKey, change Change,
) (out standing.Outcome, err error) {
	if key == "" || len(key) > MaxKey {
		return standing.Outcome{}, fmt.Errorf("%w: %d bytes", ErrKey, len(key))
	}
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, durably); err != nil {
			return err
		}
		a := advance{tx: tx, store: s, offer: o, key: key}
		var err error
		out, err = a.run(ctx, change)
		return err
	})
	if err != nil {
		return standing.Outcome{}, fmt.Errorf("move the standing of %v: %w", o, err)
	}
	crash.At("verifier.event.committed")
	return out, nil
}

// advance is one transaction of Advance.
type advance struct {
	tx    pgx.Tx
	store *Store
	offer probe.Offer
	key   EventKey

	now      time.Time
	number   int64 // of the last event; 0 before the first
	link     archive.Link
	before   standing.State
	provider ProviderStanding
}

func (a *advance) run(ctx context.Context, change Change) (standing.Outcome, error) {
	if err := a.lock(ctx); err != nil {
		return standing.Outcome{}, err
	}
	if out, seen, err := a.seen(ctx); err != nil || seen {
		return out, err
	}
	if err := a.read(ctx); err != nil {
		return standing.Outcome{}, err
	}
	event, world, after, out, err := change(a.now, a.before, a.provider)
	if err != nil {
		return standing.Outcome{}, err
	}
	if event.Ticked != nil && a.idle(after, out) {
		return out, nil
	}
	e, err := a.entry(event, world, after, out)
	if err != nil {
		return standing.Outcome{}, err
	}
	if err := e.write(ctx, a.tx); err != nil {
		return standing.Outcome{}, err
	}
	crash.At("verifier.event.before_commit")
	return out, nil
}

// lock locks the provider's row, which everything of its offers goes through.
func (a *advance) lock(ctx context.Context) error {
	ok, err := exec(ctx, a.tx, `SELECT FROM provider p JOIN offering o USING (provider_id)
		WHERE p.provider_id = $1 AND o.model_id = $2 FOR UPDATE OF p`, a.offer.Provider, a.offer.Model)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %v", ErrOffer, a.offer)
	}
	return err
}

// seen returns what the event brought when it was given first.
func (a *advance) seen(ctx context.Context) (out standing.Outcome, seen bool, err error) {
	var text []byte
	err = a.tx.QueryRow(ctx, `SELECT outcome FROM event WHERE provider_id = $1 AND model_id = $2 AND event_key = $3`,
		a.offer.Provider, a.offer.Model, a.key).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return standing.Outcome{}, false, nil
	case err != nil:
		return standing.Outcome{}, false, err
	}
	err = json.Unmarshal(text, &out)
	return out, err == nil, err
}

// read reads the clock and whatever else change is given. The time is that of the
// transaction's lock, not of its beginning, and never before the last event.
func (a *advance) read(ctx context.Context) error {
	var last *time.Time
	var state, link []byte
	var number *int64
	p, err := readProvider(ctx, a.tx, a.offer)
	if err != nil {
		return err
	}
	a.provider = p
	err = a.tx.QueryRow(ctx, `
		SELECT clock_timestamp(), s.moved_at, s.number, s.state, v.link
		FROM (SELECT) AS one LEFT JOIN standing s ON s.provider_id = $1 AND s.model_id = $2
		LEFT JOIN evidence v ON v.provider_id = s.provider_id AND v.model_id = s.model_id AND v.number = s.number`,
		a.offer.Provider, a.offer.Model).Scan(&a.now, &last, &number, &state, &link)
	if err != nil {
		return err
	}
	a.now = a.now.UTC()
	if number == nil {
		a.before = standing.New(a.now)
		return nil
	}
	if a.now.Before(*last) {
		a.now = last.UTC()
	}
	a.number = *number
	copy(a.link[:], link)
	return a.before.UnmarshalBinary(state)
}

// entry seals the evidence of the event.
func (a *advance) entry(
	event standing.Event, w standing.World, after standing.State, out standing.Outcome,
) (entry, error) {
	e := entry{
		Event: event, offer: a.offer, key: a.key, number: a.number + 1, at: a.now, revision: a.provider.revision,
		after: after, outcome: out, published: a.published(after, out.Published),
	}
	if event.Judged != nil && a.key != ProbeKey(event.Judged.Plan.ID) {
		return entry{}, fmt.Errorf("%w: %q for a probe", ErrKey, a.key)
	}
	id := a.pieceID()
	var err error
	if e.piece, err = replay.New(id, a.now, event, w, a.before, after, out); err != nil {
		return entry{}, err
	}
	if e.plain, err = e.piece.Encode(); err != nil {
		return entry{}, err
	}
	if e.sealed, e.leaf, err = a.store.seal.Seal(archive.ID(id), e.plain); err != nil {
		return entry{}, err
	}
	e.link = archive.Next(a.link, e.leaf)
	out.Judgement = nil
	e.text, err = json.Marshal(out)
	return e, err
}

// idle reports whether time alone changed nothing that counts: neither evidence nor ladder
// nor what is published. What else time changes follows from the next event as well.
func (a *advance) idle(after standing.State, out standing.Outcome) bool {
	b := a.before
	return a.number > 0 && len(out.Verdicts) == 0 && b.Level == after.Level && b.Run == after.Run &&
		b.Process.M() == after.Process.M() && b.MisrepLane == after.MisrepLane && b.BenchLane == after.BenchLane &&
		b.CapTokens == after.CapTokens && !a.provider.published.differs(a.published(after, out.Published))
}

// published is what routers are told: what the rules say of the offer, and no better than
// what the account inherits. An inherited cap counts until the account's own window was
// measured.
func (a *advance) published(after standing.State, p standing.Published) projected {
	out := projectedOf(p)
	lane, capTokens := Worst(a.provider.Inherited, a.offer.Model, a.now)
	out.lane = trust.Worse(out.lane, lane)
	if capTokens > 0 && after.MeasuredTokens == 0 && (out.capTokens == 0 || capTokens < out.capTokens) {
		out.capTokens = capTokens
	}
	return out
}

// pieceID is a UUID of version 7 that follows from the event, so that trying it again
// makes the same piece.
func (a *advance) pieceID() replay.ID {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "svc piece v1\n%s\n%d %s\n%s", a.offer.Provider, len(a.offer.Model), a.offer.Model, a.key)
	var id replay.ID
	copy(id[6:], h.Sum(nil)) // a hash never fails
	ms := uint64(max(0, a.now.UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
