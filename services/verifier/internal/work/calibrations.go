package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/verifier/internal/calibrate"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

const (
	// calibrateInterval is the pause between two looks for strata that want a calibration.
	calibrateInterval = 10 * time.Second
	// stalledAfter is after how long without a new sample another replica goes on with a
	// run.
	stalledAfter = 10 * time.Minute
	// refreshEvery is after how many batches a long run reads what other replicas calibrated.
	refreshEvery = 32
	// MaxCalibrating bounds the strata of one model.
	MaxCalibrating = 64
)

// NoReference is the reason for a model without a reference.
const NoReference fault.Reason = "no_reference"

// Calibrations asks references until thresholds can be made of it: one stratum at a time.
type Calibrations struct {
	Store  *store.Store
	Runner Runner
	Offers *offers.View
	Models Models
	Book   *Book
	Log    *slog.Logger
	// Challenges of each family and host; 0 is what the bound demands.
	Challenges int
	Sibling    func(model string) string
	Ratios     *Ratios
	Haste      Haste
	Enabled    func(ctx context.Context) bool

	mu sync.Mutex
	// seen is how many samples a run of others had, and since when.
	seen map[store.CalibrationRunID]progress
	mine map[store.CalibrationRunID]bool
	// missed are the runs that stood still the last time. The others go before them. It is
	// for the goroutine of Run.
	missed map[store.CalibrationRunID]bool
}

type progress struct {
	samples int
	since   time.Time
}

// Run works until ctx ends.
func (c *Calibrations) Run(ctx context.Context) {
	for range clock.Every(ctx, c.Haste.Of(calibrateInterval)) {
		warn(ctx, c.Log, "calibrations could not be read", c.Book.Refresh(ctx))
		if c.Enabled(ctx) {
			warn(ctx, c.Log, "a calibration could not go on", c.Pass(ctx))
		}
	}
}

// Pass begins the calibrations that are due, and carries one on. A stratum that cannot begin
// keeps no other waiting.
func (c *Calibrations) Pass(ctx context.Context) error {
	now, err := c.Store.Now(ctx)
	if err != nil {
		return err
	}
	var bad faults
	for _, t := range c.strata("") {
		if !calibrate.Due(c.Book.madeAt(t), now) || !c.Ratios.Settled(t.Model) {
			continue
		}
		_, err := c.begin(ctx, t)
		if err := bad.add(ctx, err); err != nil {
			return err
		}
	}
	return errors.Join(bad.err(), c.goOn(ctx, now))
}

// goOn carries on the oldest run that this replica may take and that did not stand still.
func (c *Calibrations) goOn(ctx context.Context, now time.Time) error {
	running, err := c.Store.RunningCalibrations(ctx, store.MaxPage)
	if err != nil {
		return err
	}
	for _, run := range slices.Backward(running) { // the oldest first
		if c.Ratios.Settled(run.Stratum.Stratum.Model) && c.takes(run, now) && !c.missed[run.ID] {
			still, err := c.carryOn(ctx, run)
			if c.missed == nil {
				c.missed = map[store.CalibrationRunID]bool{}
			}
			c.missed[run.ID] = still || err != nil
			return err
		}
	}
	clear(c.missed)
	return nil
}

// Start begins a calibration of each stratum of a model that has references, whenever the
// last one was.
func (c *Calibrations) Start(ctx context.Context, model string) ([]store.CalibrationRun, error) {
	strata := c.strata(model)
	if len(strata) == 0 {
		return nil, fault.New(fault.Precondition, NoReference, "no reference serves the model now").On("model_id")
	}
	var runs []store.CalibrationRun
	for _, t := range strata {
		run, err := c.begin(ctx, t)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// begin begins the run of a stratum, or returns the run that is under way.
func (c *Calibrations) begin(ctx context.Context, t calibration.Stratum) (store.CalibrationRun, error) {
	key, err := c.Store.KeepStratum(ctx, t)
	if err != nil {
		return store.CalibrationRun{}, err
	}
	id, fresh, err := c.Store.StartCalibration(ctx, key)
	if err != nil {
		return store.CalibrationRun{}, err
	}
	if fresh {
		c.mu.Lock()
		if c.mine == nil {
			c.mine = map[store.CalibrationRunID]bool{}
		}
		c.mine[id] = true
		c.mu.Unlock()
		c.Log.InfoContext(ctx, "a calibration begins", "run_id", id.String(), "model", t.Model, "class", int(t.Class))
	}
	return store.CalibrationRun{ID: id, Stratum: store.Stratum{Key: key, Stratum: t}, State: store.CalibrationRunning}, nil
}

// strata are those of the references of a model, of all for an empty name.
func (c *Calibrations) strata(model string) []calibration.Stratum {
	var all []calibration.Stratum
	for _, seat := range c.Offers.AllReferences() {
		if model != "" && seat.Model.ID != model || !seat.Model.Class.Known() {
			continue
		}
		t := c.stratumOf(seat)
		if !slices.Contains(all, t) && len(all) < MaxCalibrating {
			all = append(all, t)
		}
	}
	return all
}

func (c *Calibrations) stratumOf(seat offers.Seat) calibration.Stratum {
	t := calibration.Stratum{Model: seat.Model.ID, Class: seat.Model.Class, Engine: seat.Model.Engine, GPU: seat.GPU}
	if model, ok := c.Models.Find(seat.Model.ID); ok {
		t.Files = model.Files
	}
	return t
}

// takes reports whether this replica goes on with a run: its own ones, and those of others
// that have stood still.
func (c *Calibrations) takes(run store.CalibrationRun, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mine[run.ID] {
		return true
	}
	if c.seen == nil {
		c.seen = map[store.CalibrationRunID]progress{}
	}
	last, there := c.seen[run.ID]
	if !there || last.samples != run.Samples {
		c.seen[run.ID] = progress{run.Samples, now}
		return !there && now.Sub(run.StartedAt) > stalledAfter && run.Samples == 0
	}
	return now.Sub(last.since) >= stalledAfter
}

// order is what is asked for a stratum now. It reports false where no host is left.
func (c *Calibrations) order(t calibration.Stratum) (calibrate.Order, bool) {
	o := calibrate.Order{Stratum: t, Challenges: c.Challenges, Logprobs: true, BytesPerToken: c.Ratios.Of(t.Model)}
	refs := c.Offers.References(t.Model)
	for _, seat := range refs {
		switch {
		case c.stratumOf(seat) == t:
			c.add(&o, seat, false)
		case seat.Model.Class.Known() && seat.Model.Class < t.Class && seat.Model.Class >= o.Cheaper:
			o.Cheaper = seat.Model.Class
		}
	}
	if len(o.Hosts) == 0 {
		return o, false
	}
	for _, seat := range refs {
		if o.Cheaper.Known() && seat.Model.Class == o.Cheaper && len(o.Hosts) < calibrate.MaxHosts {
			c.add(&o, seat, true)
		}
		if g, ok := cheaper[seat.Model.Class]; ok && seat.Model.Class < t.Class && !slices.Contains(o.Alternatives, g) {
			o.Alternatives = append(o.Alternatives, g)
		}
	}
	if s := c.Sibling(t.Model); s != "" && len(c.Offers.References(s)) > 0 {
		o.Alternatives = append(o.Alternatives, evidence.Sibling)
	}
	model, _ := c.Models.Find(t.Model)
	o.Embeddings = model.Embeddings
	if o.WindowTokens == 0 {
		o.WindowTokens = int(max(model.Window, 1))
	}
	return o, true
}

func (c *Calibrations) add(o *calibrate.Order, seat offers.Seat, cheaper bool) {
	if len(o.Hosts) == calibrate.MaxHosts {
		return
	}
	o.Hosts = append(o.Hosts, calibrate.Host{Name: seat.Host(), Provider: seat.Provider, Cheaper: cheaper})
	o.Logprobs = o.Logprobs && seat.Has(offers.Logprobs)
	if w := int(min(seat.Model.Window, probe.MaxPromptTokens)); w > 0 && (o.WindowTokens == 0 || w < o.WindowTokens) {
		o.WindowTokens = w
	}
}

// carryOn asks until the run is done or ctx ends. It reports whether the run stands still,
// because its hosts are gone or none of them answered a batch: then the next run has its
// turn.
func (c *Calibrations) carryOn(ctx context.Context, run store.CalibrationRun) (still bool, err error) {
	order, ok := c.order(run.Stratum.Stratum)
	if !ok {
		return true, nil // it waits for its hosts
	}
	round, err := calibrate.New(probe.RunID(run.ID), order)
	if err != nil {
		return true, errors.Join(err, c.Store.AbandonCalibration(ctx, run.ID, "it cannot be asked"))
	}
	if err := c.load(ctx, run.ID, round); err != nil {
		return true, err
	}
	for n := 1; ctx.Err() == nil; n++ {
		batch, more := round.Next()
		if !more {
			return false, c.fit(ctx, run, round)
		}
		heard, err := c.ask(ctx, run.ID, round, batch)
		if err != nil || !heard {
			return true, err
		}
		if n%refreshEvery == 0 {
			warn(ctx, c.Log, "calibrations could not be read", c.Book.Refresh(ctx))
		}
	}
	return false, nil
}

// load adds what was measured before.
func (c *Calibrations) load(ctx context.Context, id store.CalibrationRunID, round *calibrate.Round) error {
	for _, f := range evidence.Families() {
		list, err := c.Store.Samples(ctx, id, f)
		if err != nil {
			return err
		}
		for _, s := range list {
			err := round.Add(calibrate.Sample{Family: s.Family, Number: s.Number, Host: s.Host, Cheaper: s.Cheaper,
				Body: s.Body})
			if err != nil && !errors.Is(err, calibrate.ErrSample) { // of a host that has left
				return err
			}
		}
	}
	return nil
}

// ask asks a batch at once and stores what it measured. It reports whether an answer came.
func (c *Calibrations) ask(
	ctx context.Context, id store.CalibrationRunID, round *calibrate.Round, batch calibrate.Batch,
) (heard bool, err error) {
	type answer struct {
		plan    probe.Plan
		samples func() ([]calibrate.Sample, error)
	}
	answers := make([]answer, len(batch.Plans))
	var asking sync.WaitGroup
	for i, p := range batch.Plans {
		asking.Go(func() {
			answers[i].plan = p
			record, err := c.Runner.RunOn(ctx, p, batch.Host.Name)
			if err == nil {
				answers[i].samples = func() ([]calibrate.Sample, error) { return round.Took(record) }
			}
		})
	}
	asking.Wait()
	var samples []store.Sample
	for _, a := range answers {
		if a.samples == nil {
			round.Missed(a.plan)
			continue
		}
		heard = true
		list, err := a.samples()
		if err != nil {
			return false, fmt.Errorf("take a challenge of a calibration: %w", err)
		}
		for _, s := range list {
			samples = append(samples, store.Sample{Family: s.Family, Number: s.Number, Host: s.Host, Cheaper: s.Cheaper,
				Body: s.Body})
		}
	}
	rec, cancel := later(ctx)
	defer cancel()
	return heard, c.Store.AddSamples(rec, id, samples...)
}

// fit ends a run with its calibrations.
func (c *Calibrations) fit(ctx context.Context, run store.CalibrationRun, round *calibrate.Round) error {
	fitted, fault := round.Fit()
	if fault != nil {
		c.Log.WarnContext(ctx, "some families could not be calibrated", "run_id", run.ID.String(),
			"model", run.Stratum.Stratum.Model, "error", fault)
	}
	if len(fitted) == 0 {
		return c.Store.AbandonCalibration(ctx, run.ID, "no family could be calibrated")
	}
	references := 0
	for _, seat := range c.Offers.References(run.Stratum.Stratum.Model) {
		if seat.Model.Class == run.Stratum.Stratum.Class {
			references++
		}
	}
	list := make([]store.Fitted, len(fitted))
	for i, k := range fitted {
		list[i] = store.Fitted{Calibration: k, Penal: k.Reach(references) == calibration.ReachPenalty}
	}
	if err := c.Store.FinishCalibration(ctx, run.ID, list...); err != nil {
		return err
	}
	c.Log.InfoContext(ctx, "a calibration ended", "run_id", run.ID.String(), "model", run.Stratum.Stratum.Model,
		"families", len(list))
	return c.Book.Refresh(ctx)
}

// madeAt is when the oldest calibration of a stratum was made, the zero time without one.
func (b *Book) madeAt(t calibration.Stratum) (oldest time.Time) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, c := range b.list[t.Model] {
		if c.Calibration.Stratum == t && (oldest.IsZero() || c.MadeAt.Before(oldest)) {
			oldest = c.MadeAt
		}
	}
	return oldest
}
