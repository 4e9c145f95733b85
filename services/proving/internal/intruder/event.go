package intruder

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// Inflation is what a forged event adds to the tokens: more than any answer has, so that
// a line with it rests on a forgery.
const Inflation = 1_000_003

// Event is usage that a hub has published.
type Event struct {
	// Hub is the id of the hub; Raw is the event with its seal, as it was alone or in a bundle.
	Hub  string
	Raw  []byte
	said *eventsv1.UsageEvent
}

// Request is the id of the request.
func (e Event) Request() string { return e.said.GetRequestId() }

// Overhear returns the last genuine priced usage of a hub in the stream; where ticketed is set, the last
// with a ticket. Only a reader of usage can overhear it.
func (c *Client) Overhear(ctx context.Context, hub string, ticketed bool) (Event, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return Event{}, fmt.Errorf("overhear usage: %w", err)
	}
	stream, err := js.Stream(ctx, bus.UsageStream.Name)
	if err != nil {
		return Event{}, fmt.Errorf("overhear usage: %w", err)
	}
	msg, err := stream.GetLastMsgForSubject(ctx, bus.SubjectUsage(hub))
	for err == nil {
		for _, raw := range usagebundle.Split(msg.Data) {
			e := Event{Hub: hub, Raw: raw, said: &eventsv1.UsageEvent{}}
			if err := proto.Unmarshal(raw, e.said); err != nil {
				return Event{}, fmt.Errorf("overhear usage: %w", err)
			}
			if msg.Subject == bus.SubjectUsage(hub) && e.genuine() && e.said.GetRates().GetPayoutOutputPicoUsdPerToken() > 0 &&
				(!ticketed || len(e.said.GetTicket()) > 0) {
				return e, nil
			}
		}
		if msg.Sequence == 1 {
			return Event{}, errors.New("overhear usage: the stream has none of this hub that costs anything")
		}
		msg, err = stream.GetMsg(ctx, msg.Sequence-1)
	}
	return Event{}, fmt.Errorf("overhear usage: %w", err)
}

// genuine reports whether the event was not made by an intruder. A fleet has no vendors; see Invented.
func (e Event) genuine() bool {
	tokens := e.said.GetBillableCompletionTokens()
	return e.said.GetHubId() == e.Hub && len(e.said.GetSeal()) > 0 && tokens > 0 && tokens < Inflation &&
		!e.said.GetVendor()
}

// Inflated is the event with more tokens, and without any seal.
func (e Event) Inflated() ([]byte, error) {
	return e.altered(func(u *eventsv1.UsageEvent) { u.BillableCompletionTokens += Inflation })
}

// Claimed is Inflated in the name of another hub, which was not given the request and so
// has no ticket of the ledger's.
func (e Event) Claimed(hub string) ([]byte, error) {
	return e.altered(func(u *eventsv1.UsageEvent) {
		u.BillableCompletionTokens += Inflation
		u.HubId, u.LedgerMac = hub, nil
	})
}

// Invented is usage of a request that nobody admitted, without any seal, and the id of that request. It
// has the event's genuine ticket, or a forged one: the genuine one with one bit changed, so that it names the
// invented request. Settlement leaves it to the ledger alone, because a vendor is said to have served it.
func (e Event) Invented(forged bool) (data []byte, request string, err error) {
	id, err := ids.ParseRequest(e.Request())
	if err != nil {
		return nil, "", fmt.Errorf("invent usage: %w", err)
	}
	ticket := bytes.Clone(e.said.GetTicket())
	at := bytes.Index(ticket, id[:])
	if at < 0 {
		return nil, "", errors.New("invent usage: the ticket does not name its request")
	}
	// The last bits of an id are random.
	last, bit := len(id)-1, byte(1)
	if forged {
		bit = 2
		ticket[at+last] ^= bit
	}
	id[last] ^= bit
	data, err = e.altered(func(u *eventsv1.UsageEvent) { u.RequestId, u.Ticket, u.Vendor = id.String(), ticket, true })
	return data, id.String(), err
}

func (e Event) altered(change func(*eventsv1.UsageEvent)) ([]byte, error) {
	m := proto.CloneOf(e.said)
	m.Seal = nil
	change(m)
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("alter usage: %w", err)
	}
	return data, nil
}

// Notice is a notice to a hub that the event's request is settled.
func (e Event) Notice() ([]byte, error) {
	data, err := proto.Marshal(&eventsv1.SettledNotice{RequestIds: []string{e.Request()}})
	if err != nil {
		return nil, fmt.Errorf("forge a notice: %w", err)
	}
	return data, nil
}

// Resealed is an altered event under the seal of the genuine one.
func (e Event) Resealed(altered []byte) []byte {
	return append(append([]byte{}, altered...), e.Raw[len(e.Raw)-usageseal.Size:]...)
}

// Store publishes into the stream of usage under a message id of its own, and
// returns its sequence there.
func (c *Client) Store(ctx context.Context, subject, id string, data []byte) (uint64, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return 0, fmt.Errorf("store usage: %w", err)
	}
	ack, err := js.Publish(ctx, subject, data, jetstream.WithMsgID(id))
	if err != nil {
		return 0, fmt.Errorf("store usage: %w", err)
	}
	return ack.Sequence, nil
}

// Handled reports whether a durable consumer has handled everything up to a sequence of
// the stream of usage. The client must be the service that owns the consumer.
func (c *Client) Handled(ctx context.Context, durable string, sequence uint64) (bool, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return false, fmt.Errorf("look at consumer %s: %w", durable, err)
	}
	consumer, err := js.Consumer(ctx, bus.UsageStream.Name, durable)
	if err != nil {
		return false, fmt.Errorf("look at consumer %s: %w", durable, err)
	}
	return consumer.CachedInfo().AckFloor.Stream >= sequence, nil
}
