package card

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
)

// MaxEvent bounds the body of an event, in bytes.
const MaxEvent = 256 << 10

// eventTypes are the types of events that are looked at.
var eventTypes = map[string]ObjectKind{
	"checkout.session.completed":               SessionObject,
	"checkout.session.async_payment_succeeded": SessionObject,
	"checkout.session.expired":                 SessionObject,
	"refund.created":                           RefundObject,
	"refund.updated":                           RefundObject,
	"refund.failed":                            RefundObject,
	"invoice.paid":                             InvoiceObject,
	"invoice.payment_failed":                   InvoiceObject,
	"invoice.voided":                           InvoiceObject,
	"customer.subscription.updated":            SubscriptionObject,
	"customer.subscription.deleted":            SubscriptionObject,
	"charge.dispute.created":                   DisputeObject,
	"charge.dispute.funds_withdrawn":           DisputeObject,
	"charge.dispute.funds_reinstated":          DisputeObject,
	"charge.dispute.closed":                    DisputeObject,
}

// ParseEvent reads an event: {"id", "type", "data": {"object": {"id"}}}.
func ParseEvent(body []byte) (Event, error) {
	var e struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			Object struct {
				ID string `json:"id"`
			} `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, errors.New("it is not JSON of that form")
	}
	if !isObjectID(e.ID) {
		return Event{}, errors.New("it has no id")
	}
	parsed := Event{ID: e.ID, SHA256: sha256.Sum256(body)}
	kind, known := eventTypes[e.Type]
	if !known {
		return parsed, nil
	}
	if !isObjectID(e.Data.Object.ID) {
		return Event{}, errors.New("its object has no id")
	}
	parsed.Object = Object{Kind: kind, ID: e.Data.Object.ID}
	return parsed, nil
}

// Receiver takes the events of a processor.
type Receiver struct {
	// Processor is its name.
	Processor string
	Store     interface {
		EventStore
		Raise(ctx context.Context, a Alarm) (bool, error)
	}
	Keys  Keys
	Clock clock.Clock
	// Wake is called once an event is kept, so that it need not wait for the next look.
	Wake func()
}

// Receive keeps an event that is signed with one of our secrets, and returns once it is
// durable.
func (r *Receiver) Receive(ctx context.Context, body []byte, signature string) error {
	if len(body) > MaxEvent {
		return fault.New(fault.Invalid, fault.RequestTooLarge, "An event has at most %d bytes.", MaxEvent)
	}
	if err := r.Keys.Verify(signature, body, r.Clock.Now()); err != nil {
		return fault.Wrap(err, fault.Invalid, fault.InvalidSignature, "The signature does not count.")
	}
	e, err := ParseEvent(body)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, fault.InvalidValue, "This is no event: %v.", err)
	}
	e.Processor = r.Processor
	before, err := r.Store.KeepEvent(ctx, e)
	if err != nil {
		return err
	}
	if before != e.Object {
		if _, err := r.Store.Raise(ctx, Alarm{AlarmEventDiffers, e.ID,
			fmt.Sprintf("it named %s %s, and then %s %s", before.Kind, before.ID, e.Object.Kind, e.Object.ID)}); err != nil {
			return err
		}
	}
	crash.At("billing.card.event_stored")
	r.Wake()
	return nil
}
