package flow

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// askVisible asks on the provider's session.
func (p *passage) askVisible(ctx context.Context) error {
	plan := p.rec.Plan
	reply, err := p.challenge(ctx, p.seat, Challenge{
		ID: plan.ID.String(), Model: plan.Offer.Model, Timeout: min(p.patience(), maxChallenge),
		MaxBytes: answerBytes(plan), Body: p.rec.Request, Stream: plan.Streamed, Embeddings: plan.Kind == probe.Embedding,
	})
	if err != nil {
		return refused(err)
	}
	if err := p.broken(reply); err != nil {
		return err
	}
	raw, whole := reply.Data, reply.End == Answered
	if plan.Streamed && reply.Objects && whole {
		raw, whole = framed(raw, statistic.MaxBody)
	}
	p.rec.Answer = judge.Answer{
		Served: plan.Offer.Provider.String(), Status: reply.Status, Complete: whole && ended(raw, plan.Streamed),
		Failed: reply.failed(), Raw: raw, Chunks: reply.Chunks,
	}
	a := &p.rec.Answer
	if a.Complete {
		claim := usageOf(raw, plan.Streamed)
		a.Claimed, a.ClaimedPrompt, a.ClaimedOutput = claim.Valid, claim.Prompt, claim.Output
	}
	a.TooLong = reply.End == Declined && (tooLong(reply.Status, raw) || tooLong(reply.Status, []byte(reply.Error)))
	return nil
}

// broken returns the error of a challenge that has no record, because the hub stopped, or
// because the connection was lost and a benchmark asks: a bad line is no failure there.
func (p *passage) broken(r Reply) error {
	switch {
	case r.End == HubStopped:
		return &GiveBack{Busy, errors.New("the hub stopped")}
	case r.End == Lost && p.rec.Plan.Purpose == probe.Benchmark:
		return &Void{Disconnected, errors.New("the connection was lost")}
	}
	return nil
}

// maxChallenge is how long a hub waits for a challenge at most.
const maxChallenge = 10 * time.Minute

// ended reports whether the body is a whole answer.
func ended(raw []byte, streamed bool) bool {
	c := newCapture(time.Time{}, nil, statistic.MaxBody, streamed, 0)
	c.take(raw, 0)
	c.end()
	return c.whole()
}

// challenge asks the hub of a seat. A session that ended meanwhile is looked for once
// more, because presence is late by as much as a second.
func (p *passage) challenge(ctx context.Context, seat func() (offers.Seat, bool), c Challenge) (Reply, error) {
	on, ok := seat()
	if !ok {
		return Reply{}, fault.New(fault.Unavailable, fault.SessionGone, "the provider is not connected with the model")
	}
	reply, err := p.Hubs.Challenge(ctx, on, c)
	if !fault.Is(err, fault.SessionGone) {
		return reply, err
	}
	again, ok := p.newer(ctx, on, seat)
	if !ok {
		return Reply{}, err
	}
	return p.Hubs.Challenge(ctx, again, c)
}

// The wait for the session that takes another one's place.
const (
	newerWait  = 2 * time.Second
	newerPause = 100 * time.Millisecond
)

// newer waits for another session than one that has ended.
func (p *passage) newer(ctx context.Context, than offers.Seat, seat func() (offers.Seat, bool)) (offers.Seat, bool) {
	for waited := time.Duration(0); waited < newerWait; waited += newerPause {
		if on, ok := seat(); ok && (on.Epoch != than.Epoch || on.Address != than.Address) {
			return on, true
		}
		if pause(ctx, newerPause) != nil {
			break
		}
	}
	return offers.Seat{}, false
}
