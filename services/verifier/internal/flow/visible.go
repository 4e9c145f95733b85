package flow

import (
	"context"
	"errors"
	"net/http"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/fingerprint"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// Challenge is what a hub is asked to put to a session.
type Challenge struct {
	// ID is 1 to 64 characters of [A-Za-z0-9._-]. Agents see it with a fingerprint alone.
	ID      string
	Model   string
	Timeout time.Duration
	// Body, Stream and Embeddings are of an inference.
	Body               []byte
	Stream, Embeddings bool
	// Fingerprint is asked for where it is set.
	Fingerprint *fingerprint.Challenge
}

// End is how a challenge ended.
type End uint8

// The ends.
const (
	// Answered has the whole answer.
	Answered End = iota + 1
	// Declined means that the agent or its engine said that it cannot.
	Declined
	// Late means that no whole answer came in time.
	Late
	// Lost means that the connection was lost.
	Lost
	// Invalid means that the answer broke the protocol or a bound.
	Invalid
	// HubStopped means that the hub stops.
	HubStopped
)

// Reply is what came back.
type Reply struct {
	End    End
	Status int
	// Error is the agent's or the hub's word on why.
	Error string
	// Data is the answer, at most statistic.MaxBody bytes, and Chunks when it came.
	Data   []byte
	Chunks []judge.Chunk
	// Objects reports that a stream came as JSON objects (v1) and not as events.
	Objects bool
	// RoundTrip is the connection's; 0 where none was measured.
	RoundTrip time.Duration
	// Took is how long the challenge took.
	Took time.Duration
}

// Hubs put challenges to sessions. An error says that the challenge did not begin, or that
// the hub or the caller is at fault; its fault.Reason is the hub's.
type Hubs interface {
	Challenge(ctx context.Context, on offers.Seat, c Challenge) (Reply, error)
}

// askVisible asks on the provider's session.
func (p *passage) askVisible(ctx context.Context) error {
	plan := p.rec.Plan
	reply, err := p.challenge(ctx, p.seat, Challenge{
		ID: plan.ID.String(), Model: plan.Offer.Model, Timeout: min(p.cfg.AnswerTimeout, maxChallenge),
		Body: p.rec.Request, Stream: plan.Streamed, Embeddings: plan.Kind == probe.Embedding,
	})
	if err != nil {
		return refused(err)
	}
	if reply.End == HubStopped {
		return &GiveBack{Busy, errors.New("the hub stopped")}
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

// maxChallenge is how long a hub waits for a challenge at most.
const maxChallenge = 10 * time.Minute

// failed reports whether the provider failed, and did not only refuse.
func (r Reply) failed() bool {
	switch r.End {
	case Late, Lost, Invalid:
		return true
	case Declined:
		return r.Status >= http.StatusInternalServerError
	default:
		return false
	}
}

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
