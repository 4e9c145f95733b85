// Package flow carries out probes. A Runner takes a plan and returns everything that the
// judgement of the answer depends on.
//
// # Hidden
//
// A hidden probe is an HTTPS request to the public API with the key of a house account,
// pinned to the provider, without fallbacks. It passes gateway, router and hub as every
// consumer's request does. The hub and the provider are given the body and nothing of the
// connection. The gateway sees headers, which are those of the client library whose body
// the plan imitates (sdk.go); order of headers and TLS are Go's, which only our own
// gateway could tell.
//
// # Visible
//
// A visible probe is a challenge on the provider's session, by the hub that presence
// names. A session that has ended meanwhile is looked for once more.
//
// # Screening
//
// Before a provider is asked at temperature 0, a reference answers the same prompt. If that
// answer is too short to be judged, or leaves no choice, the probe's next prompt is drawn
// (screen.go).
//
// # Scores
//
// A reference reads prompt and answer and returns its log-probabilities (score.go). It is
// drawn from the hosts of the judged class by the probe's id, before the answer is known.
// Every fiftieth probe is scored by a second host too, for the guard against common
// causes: that score has no alternative either, and another host.
//
// # Errors
//
// Run returns a record whenever the provider had its turn, whatever it made of it and
// whoever can score it: a failure is in the record. *GiveBack says that the platform is at fault, *Void that the
// probe cannot be carried out. No error holds a prompt, an answer or a key.
//
// # Bounds
//
// An answer has at most so many bytes as its tokens need several times over, 4 MiB for the
// longest, also after decompression, and 8,192 chunks (bounds.go). A larger one is not whole.
// What references answer has at most statistic.MaxBody bytes, and a record at most MaxRecord.
// Everything waits for a bounded time.
package flow

import (
	"context"
	"errors"
	"slices"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
)

// New returns a runner.
func New(cfg Config, deps Deps) *Runner { return &Runner{cfg, deps} }

// Run carries out a plan. A visible one asks a node of the provider that is drawn by the
// probe's id, so that no node is spared; a benchmark stays with the first node, because it
// measures one machine. A hidden one is for the router to place.
func (r *Runner) Run(ctx context.Context, plan probe.Plan) (judge.Record, error) {
	return r.run(ctx, plan, func() (offers.Seat, bool) { return r.drawNode(plan) })
}

// drawNode draws one of the provider's nodes. Only some may answer fingerprints.
func (r *Runner) drawNode(plan probe.Plan) (offers.Seat, bool) {
	open := r.Offers.Open(plan.Offer)
	if plan.Kind == probe.Fingerprint && slices.ContainsFunc(open, fingerprints) {
		open = slices.DeleteFunc(open, func(s offers.Seat) bool { return !fingerprints(s) })
	}
	switch {
	case len(open) == 0:
		return offers.Seat{}, false
	case plan.Purpose == probe.Benchmark:
		return open[0], true
	}
	return open[dice.New(r.Secret, "node", plan.ID[:]).IntN(len(open))], true
}

// RunOn carries out a visible plan on one host, named as offers.Session.Host names it. A
// calibration asks each host of its references so.
func (r *Runner) RunOn(ctx context.Context, plan probe.Plan, host string) (judge.Record, error) {
	if plan.Flow != probe.Visible {
		return judge.Record{}, &Void{BadPlan, errors.New("only a visible probe chooses its host")}
	}
	return r.run(ctx, plan, func() (offers.Seat, bool) { return r.Offers.On(host, plan.Offer.Model) })
}

func (r *Runner) run(ctx context.Context, plan probe.Plan, seat func() (offers.Seat, bool)) (judge.Record, error) {
	p := &passage{Runner: r, seat: seat, rec: judge.Record{Version: judge.Version, Plan: plan}}
	for _, step := range []func(context.Context) error{p.prepare, p.ask} {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				err = &GiveBack{Stopped, ctx.Err()}
			}
			return judge.Record{}, err
		}
	}
	p.score(ctx)
	return p.rec, nil
}

// prepare makes everything that must not depend on the answer.
func (p *passage) prepare(ctx context.Context) error {
	plan := p.rec.Plan
	if err := plan.Check(); err != nil {
		return &Void{BadPlan, err}
	}
	if err := p.reachable(); err != nil {
		return err
	}
	p.scorers = p.draw()
	if needsReference(plan) && len(p.scorers) == 0 {
		return &Void{NoReference, nil}
	}
	if err := p.draft(ctx); err != nil {
		return err
	}
	var err error
	if p.rec.Calibrations, err = p.Calibrations.Of(ctx, plan); err != nil {
		return &GiveBack{PlatformDown, err}
	}
	if plan.Kind != probe.Replay {
		return nil
	}
	if p.rec.Earlier, err = p.Earlier.Answer(ctx, plan.Repeats); err != nil {
		return &GiveBack{PlatformDown, err}
	}
	if len(p.rec.Earlier) == 0 {
		return &Void{NoEarlier, nil}
	}
	return nil
}

// reachable refuses a probe that its provider cannot get.
func (p *passage) reachable() error {
	seat, ok := p.seat()
	switch {
	case !ok:
		return &Void{Offline, nil}
	case p.rec.Plan.Flow == probe.Visible:
		p.asked = seat.Host()
		if p.rec.Plan.Kind == probe.Fingerprint && !seat.Has(offers.Fingerprints) {
			return &Void{Unsupported, nil}
		}
	case !seat.Active:
		if offer, _ := p.Offers.Find(p.rec.Plan.Offer); !offer.Active() {
			return &Void{Inactive, nil}
		}
	}
	return nil
}

// draft writes prompts of the probe until one passes its screening.
func (p *passage) draft(ctx context.Context) error {
	screening, cancel := within(ctx, p.cfg.ScreenTimeout)
	defer cancel()
	for {
		if err := p.write(ctx); err != nil {
			return err
		}
		if !p.redraws(screening) {
			return nil
		}
		p.rec.Plan.Draw++
	}
}

// write makes the request.
func (p *passage) write(ctx context.Context) error {
	plan := p.rec.Plan
	if plan.Kind == probe.Fingerprint {
		return p.writeFingerprint(ctx)
	}
	body, needles, err := p.Writer.Body(plan)
	if err != nil {
		return &Void{BadPlan, err}
	}
	if len(body) > maxRequest {
		return &Void{BadPlan, errors.New("the request is larger than a hub takes")}
	}
	p.rec.Request, p.rec.Needles = body, needles
	return nil
}

// maxRequest is the largest body that hubs and gateways take.
const maxRequest = 10 << 20

// ask gives the provider its turn.
func (p *passage) ask(ctx context.Context) error {
	var err error
	if p.rec.Sent, err = p.Now(ctx); err != nil {
		return &GiveBack{PlatformDown, err}
	}
	began := clock.System.Now()
	switch {
	case p.rec.Plan.Kind == probe.Fingerprint:
		err = p.askFingerprint(ctx)
	case p.rec.Plan.Flow == probe.Visible:
		err = p.askVisible(ctx)
	default:
		err = p.askHidden(ctx)
	}
	if err != nil {
		return err
	}
	// A database that is away, or whose clock was set back, must not undo an answer.
	if p.rec.Ended, err = p.Now(ctx); err != nil || p.rec.Ended.Before(p.rec.Sent) {
		p.rec.Ended = p.rec.Sent.Add(clock.System.Now().Sub(began))
	}
	return nil
}

// needsReference reports whether nobody could judge the answer without a reference.
func needsReference(plan probe.Plan) bool {
	switch plan.Kind {
	case probe.Measure, probe.Check:
		return false
	case probe.Fingerprint:
		return true
	default:
		return plan.Purpose != probe.Benchmark || plan.Feeds != evidence.NoFamily
	}
}
