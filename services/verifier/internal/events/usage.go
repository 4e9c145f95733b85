package events

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/usagebundle"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/probe"
)

// usageLinger lets single events become batches, of which each costs a request to NATS and a message for each hub to
// every replica. It is short beside the 15 s for which a probe waits for its claim.
const usageLinger = 500 * time.Millisecond

// maxClaim bounds what a claim may be; what is above was absurd at the hub.
const maxClaim = 1 << 40

// Usage consumes usage from the stream, alone or in bundles, and passes it on to all replicas. The
// replicas share one consumer.
type Usage struct {
	bus      *bus.Conn
	log      *slog.Logger
	clock    clock.Clock
	absurd   func(ctx context.Context, o probe.Offer)
	warnings *warnings
}

// NewUsage makes a consumer; Run starts it. absurd is told of each absurd claim, at least
// once.
func NewUsage(
	conn *bus.Conn, log *slog.Logger, c clock.Clock, absurd func(ctx context.Context, o probe.Offer),
) *Usage {
	return &Usage{bus: conn, log: log, clock: c, absurd: absurd, warnings: newWarnings()}
}

// Run consumes until ctx ends, and then finishes the batch under way.
func (u *Usage) Run(ctx context.Context) error {
	cfg := bus.ConsumerConfig{Stream: bus.UsageStream, Durable: bus.DurableVerifier, Linger: usageLinger}
	if err := u.bus.Consume(ctx, cfg, u.handle); err != nil {
		return fmt.Errorf("consume usage: %w", err)
	}
	return nil
}

func (u *Usage) handle(ctx context.Context, batch []bus.Msg) error {
	var passages []passage
	for _, m := range batch {
		for _, data := range usagebundle.Split(m.Data) {
			event, o, ok := usageFrom(m.Subject, data)
			if !ok {
				continue // what cannot be read, or is not its hub's, is the ledger's to set aside
			}
			passages = passOn(passages, m.Subject, data)
			if event.state == eventsv1.ClaimState_CLAIM_STATE_ABSURD && m.Deliveries <= 1 {
				u.absurd(ctx, o)
				u.warn(ctx, o, string(event.request))
			}
		}
	}
	for _, p := range passages {
		err := u.bus.Publish(ctx, bus.SubjectClaims, usagebundle.Join(p.events), bus.Header{"Subject": {p.subject}})
		if err != nil {
			return fmt.Errorf("pass claims on: %w", err)
		}
	}
	return nil
}

// passage is one message to all replicas, with usage of one hub.
type passage struct {
	subject string
	events  [][]byte
	size    int // of the events, in bytes
}

// passOn adds an event to the last passage of its subject, or to a new one where that is full. So a batch
// costs about one message for each hub, which every replica receives.
func passOn(passages []passage, subject string, event []byte) []passage {
	for i := len(passages) - 1; i >= 0; i-- {
		p := &passages[i]
		if p.subject != subject {
			continue
		}
		if !usagebundle.Fits(len(p.events), p.size, len(event)) {
			break
		}
		p.events, p.size = append(p.events, event), p.size+len(event)
		return passages
	}
	return append(passages, passage{subject: subject, events: [][]byte{event}, size: len(event)})
}

// warn logs an absurd claim, once an hour for an offer.
func (u *Usage) warn(ctx context.Context, o probe.Offer, request string) {
	unsaid, due := u.warnings.due(o, u.clock.Now())
	if !due {
		return
	}
	u.log.WarnContext(ctx, "an engine claims usage that cannot be: a risk, and no evidence",
		"provider_id", o.Provider.String(), "model", o.Model, "request_id", request, "not_logged_before", unsaid)
}

// claims takes over the claims of a message that a replica has passed on.
func (l *Listener) claims(_ context.Context, m bus.Message) {
	for _, data := range usagebundle.Split(m.Data) {
		l.claim(m.Header.Get("Subject"), data)
	}
}

func (l *Listener) claim(subject string, data []byte) {
	event, o, ok := usageFrom(subject, data)
	request, err := ids.ParseRequest(string(event.request))
	if !ok || err != nil {
		l.refused.Add(1)
		return
	}
	l.deps.Claims.Put(request, claims.Claim{
		Valid:  event.state == eventsv1.ClaimState_CLAIM_STATE_VALID,
		Prompt: event.claimedPrompt, Output: event.claimedCompletion,
	})
	payout, err := event.rates.Payout(money.Tokens{Prompt: event.billablePrompt, Completion: event.billableCompletion})
	if err == nil {
		l.deps.Traffic.Earned(o, payout, l.deps.Clock.Now())
	}
}

// usageFrom reads usage of a hub. It reports false for what another than its own hub says,
// and for usage that rests on anything but a hub's journal, because claims are the hub's to
// tell.
func usageFrom(subject string, data []byte) (claimed, probe.Offer, bool) {
	hub, ofUsage := strings.CutPrefix(subject, bus.SubjectUsagePrefix)
	event, read := readClaimed(data)
	if !ofUsage || !read || string(event.hub) != hub ||
		event.source > eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB || event.settled {
		return event, probe.Offer{}, false
	}
	provider, err := ids.ParseProvider(string(event.provider))
	if err != nil || len(event.model) > maxModelID {
		return event, probe.Offer{}, false
	}
	model := string(event.model)
	if !text(model, 1, maxModelID) {
		return event, probe.Offer{}, false
	}
	for _, n := range []int64{event.claimedPrompt, event.claimedCompletion} {
		if n > maxClaim || n < -maxClaim {
			return event, probe.Offer{}, false
		}
	}
	return event, probe.Offer{Provider: provider, Model: model}, true
}
