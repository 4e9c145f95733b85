package work

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/traffic"
)

const (
	// driveInterval is the pause between two looks for runs that want to go on, and
	// beginInterval between two looks for offers that want a run.
	driveInterval = 500 * time.Millisecond
	beginInterval = 2 * time.Second
	// lookAgain is how long an offer that wants no run is not looked at.
	lookAgain = 5 * time.Minute
	// unknownFor is how long an offer is not looked at whose model the catalog does not have.
	unknownFor = 10 * time.Second
	// runLease is how long a replica has a run without a renewal, and renewInterval the pause
	// between two renewals, so that a run goes on soon after its replica is killed.
	runLease      = time.Minute
	renewInterval = 15 * time.Second
	// retryPause lies before a question that did not reach the provider is asked again, and
	// quickRetryPause in a development's run.
	retryPause      = 20 * time.Second
	quickRetryPause = 2 * time.Second
	// maxBeginning bounds the runs that a look begins, and maxFaults the errors that are told
	// of it.
	maxBeginning = 50
	maxFaults    = 3
)

// Benchmarks begins benchmark runs and carries them to their end, at most Parallel at a
// time.
type Benchmarks struct {
	Store    *store.Store
	Runner   Runner
	Mover    *Mover
	Offers   *offers.View
	Traffic  *traffic.Counter
	Clock    clock.Clock
	Log      *slog.Logger
	Replica  string
	Parallel int
	Ratios   *Ratios
	Haste    Haste
	// Quick is a development's battery.
	Quick   bool
	Enabled func(ctx context.Context) bool

	mu    sync.Mutex
	looks map[probe.Offer]time.Time
}

// Begin begins the runs that offers want.
func (b *Benchmarks) Begin(ctx context.Context) error {
	b.mu.Lock()
	if b.looks == nil {
		b.looks = map[probe.Offer]time.Time{}
	}
	b.mu.Unlock()
	now := b.Clock.Now()
	begun := 0
	var faults []error
	for _, o := range b.Offers.Known() {
		if begun == maxBeginning || ctx.Err() != nil {
			return nil
		}
		b.mu.Lock()
		wait := now.Before(b.looks[o.Offer])
		b.mu.Unlock()
		if _, open := b.Offers.Session(o.Offer); wait || !open {
			continue
		}
		started, err := b.consider(ctx, o)
		if err != nil { // it keeps no other offer waiting
			faults = append(faults, err)
			b.look(o.Offer, now.Add(time.Minute))
		}
		if started {
			begun++
		}
	}
	b.forget(now)
	return errors.Join(faults[:min(len(faults), maxFaults)]...)
}

func (b *Benchmarks) look(o probe.Offer, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks[o] = at
}

// forget drops the looks that are over.
func (b *Benchmarks) forget(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for o, at := range b.looks {
		if now.After(at) {
			delete(b.looks, o)
		}
	}
}

// consider begins the run that an offer wants, if it wants one.
func (b *Benchmarks) consider(ctx context.Context, o offers.Offer) (bool, error) {
	if model, ok := b.Mover.Models.Find(o.Model); !ok || !model.Active {
		b.look(o.Offer, b.Clock.Now().Add(b.Haste.Of(unknownFor)))
		return false, nil // nobody can ask for it
	}
	st, err := b.Store.Standing(ctx, o.Offer)
	if isNone(err) {
		return false, nil // Seen gives it one
	}
	if err != nil {
		return false, err
	}
	now, err := b.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	basis, wanted := wants(st.State, now)
	if b.Quick && st.State.LastResult == ladder.Spoiled { // nobody waits an hour for a demo
		basis, wanted = bench.Again, true
	}
	if wanted && basis == bench.Again && !b.Quick {
		pause, err := pauseAfter(ctx, b.Store, o.Offer)
		if err != nil {
			return false, err
		}
		wanted = now.Sub(st.State.RunAt) >= pause
	}
	if !wanted {
		b.look(o.Offer, b.Clock.Now().Add(b.Haste.Of(lookAgain)))
		return false, nil
	}
	if basis == bench.Renewal && st.State.Level == ladder.Normal && b.renew(ctx, o, st.State, now) {
		b.look(o.Offer, b.Clock.Now().Add(b.Haste.Of(lookAgain)))
		return true, nil
	}
	if waits, err := awaitsReference(ctx, b.Store, b.Offers, o.Offer, now); err != nil || waits {
		b.look(o.Offer, b.Clock.Now().Add(b.Haste.Of(unknownFor)))
		return false, err
	}
	_, err = b.start(ctx, o, basis, now)
	if errors.Is(err, store.ErrRunning) {
		err = nil
	}
	pause := time.Minute
	if b.Quick {
		pause = unknownFor
	}
	b.look(o.Offer, b.Clock.Now().Add(b.Haste.Of(pause)))
	return err == nil, err
}

// start begins a run.
func (b *Benchmarks) start(ctx context.Context, o offers.Offer, basis bench.Basis, now time.Time) (store.Run, error) {
	id, err := newRun(now)
	if err != nil {
		return store.Run{}, err
	}
	run, err := bench.Begin(id, b.setup(o, basis), now)
	if err != nil {
		return store.Run{}, fmt.Errorf("begin a benchmark of %v: %w", o.Offer, err)
	}
	form, err := run.Form()
	if err != nil {
		return store.Run{}, err
	}
	row := store.Run{ID: id, Offer: o.Offer, Basis: store.Basis(basis), State: store.RunRunning, Body: form, NextAt: now,
		StartedAt: now}
	return row, b.Store.StartRun(ctx, row)
}

func newRun(now time.Time) (probe.RunID, error) {
	id, err := ids.New[struct{}](now, rand.Reader)
	if err != nil {
		return probe.RunID{}, fmt.Errorf("name a benchmark run: %w", err)
	}
	return probe.RunID(id), nil
}

// setup is what a run of an offer depends on.
func (b *Benchmarks) setup(o offers.Offer, basis bench.Basis) bench.Setup {
	seat := o.Seats[0]
	model, _ := b.Mover.Models.Find(o.Model)
	stated := b.Mover.Stated(o)
	if stated == 0 {
		stated = model.Window
	}
	stratum, logprobs := b.Mover.Stratum(o), seat.Has(offers.Logprobs)
	unjudged := len(b.Offers.References(o.Model)) == 0
	return bench.Setup{
		Offer: o.Offer, Basis: basis, Stratum: stratum, StatedTokens: int(max(stated, 1)),
		Capacity: max(seat.Model.Capacity, 1), Logprobs: logprobs, Fingerprint: seat.Has(offers.Fingerprints),
		Embeddings: model.Embeddings, Unjudged: unjudged, Calibrated: !unjudged && b.Mover.Book.Usable(stratum, logprobs),
		Quick: b.Quick, BytesPerToken: b.Ratios.Of(o.Model),
	}
}

// renew renews a benchmark by what consumers were served, if that suffices.
func (b *Benchmarks) renew(ctx context.Context, o offers.Offer, s standing.State, now time.Time) bool {
	t := battery.Traffic{Served: int(b.Traffic.Of(o.Offer, b.Clock.Now()).Served), M: s.Process.M(),
		Recalled: now.Sub(s.RecalledAt) < battery.RenewalPeriod}
	id, err := newRun(now)
	if err != nil {
		return false
	}
	run, ok := bench.ByTraffic(id, b.setup(o, bench.Traffic), t, now)
	if !ok {
		return false
	}
	form, err := run.Form()
	if err != nil {
		return false
	}
	row := store.Run{ID: id, Offer: o.Offer, Basis: store.Traffic, State: store.RunRunning, Body: form, NextAt: now}
	err = b.Store.StartRun(ctx, row)
	warn(ctx, b.Log, "a benchmark could not be renewed by traffic", err)
	return err == nil
}

// TooSoon is the reason for a benchmark that is asked for within an hour of the last.
const TooSoon fault.Reason = "benchmark_too_soon"

// Ask has an offer benchmarked because its provider or an operator asks, or returns the run
// that is under way.
func (b *Benchmarks) Ask(ctx context.Context, o probe.Offer) (store.Run, error) {
	running, err := b.running(ctx, o)
	if err != nil || running.ID != (probe.RunID{}) {
		return running, err
	}
	now, err := b.Store.Now(ctx)
	if err != nil {
		return store.Run{}, err
	}
	known, there := b.Offers.Find(o)
	if !there {
		if _, err := b.Store.Standing(ctx, o); err != nil {
			return store.Run{}, err
		}
		return store.Run{}, fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"the model is not connected now, so that nobody can answer").On("model_id")
	}
	switch waits, err := awaitsReference(ctx, b.Store, b.Offers, o, now); {
	case err != nil:
		return store.Run{}, err
	case waits:
		return store.Run{}, fault.New(fault.Precondition, NoReference,
			"the reference of the model is not connected now, and will be awaited").On("model_id")
	}
	key := store.EventKey("ask/" + now.Format(time.RFC3339Nano))
	if _, err := b.Mover.Move(ctx, o, key, standing.Event{Asked: &standing.Ask{}}); err != nil {
		if errors.Is(err, standing.ErrEvent) {
			return store.Run{}, fault.Wrap(err, fault.Exhausted, TooSoon, "a benchmark may be asked for once an hour").After(
				ladder.AskPause)
		}
		return store.Run{}, err
	}
	run, err := b.start(ctx, known, bench.Asked, now)
	if errors.Is(err, store.ErrRunning) {
		return b.running(ctx, o)
	}
	return run, err
}

// running returns the run of an offer that is under way; the zero run where there is none.
func (b *Benchmarks) running(ctx context.Context, o probe.Offer) (store.Run, error) {
	list, err := b.Store.Runs(ctx, o.Provider, o.Model, probe.RunID{}, 1)
	if err != nil || len(list) == 0 || list[0].State != store.RunRunning {
		return store.Run{}, err
	}
	return list[0], nil
}
