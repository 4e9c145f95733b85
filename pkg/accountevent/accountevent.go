// Package accountevent carries what happens to providers from the service where it happens
// to billing-ledger, which tells the accounts of their users (webhooks). The addresses of
// providers travel the same way, and are told to nobody.
//
// Each producer writes an event into an outbox of its own, in the transaction in which it
// happens. A Publisher publishes the outbox on the stream ACCOUNT until billing-ledger says
// that it has stored the event (noted.v1), and then drops it. So an event is lost neither
// with a process nor with the stream, and may come more than once: its id tells.
package accountevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// Kind says what happened.
type Kind string

// The kinds. BalanceLow and Test come from billing-ledger itself and do not travel. Addresses
// is for billing-ledger alone, and no account is told.
const (
	BalanceLow      Kind = "account.balance_low"
	PayoutConfirmed Kind = "payout.confirmed"
	StatusChanged   Kind = "provider.status_changed"
	PenaltyCreated  Kind = "penalty.created"
	Addresses       Kind = "provider.addresses"
	Test            Kind = "webhook.test"
)

// Kinds returns the kinds that an endpoint may choose from.
func Kinds() []Kind { return []Kind{BalanceLow, PayoutConfirmed, StatusChanged, PenaltyCreated} }

// MaxData bounds the data of an event in bytes.
const MaxData = 8 << 10

// maxBatch bounds the events in one note.
const maxBatch = bus.MaxBatch

type event struct{}

// ID names an event for all who hear it.
type ID = ids.Of[event]

// NewID makes an id.
func NewID(now time.Time, random io.Reader) (ID, error) { return ids.New[event](now, random) }

// ParseID reads an id.
func ParseID(text string) (id ID, err error) {
	err = id.UnmarshalText([]byte(text))
	return id, err
}

// Event is what happened to a provider. Data is a JSON object.
type Event struct {
	ID       ID
	Kind     Kind
	Provider ids.ProviderID
	At       time.Time
	Data     []byte
}

// subjects are where the kinds travel. The bus lets no service publish another's.
var subjects = map[Kind]string{
	PayoutConfirmed: bus.SubjectPayoutConfirmed, PenaltyCreated: bus.SubjectPenaltyCreated,
	StatusChanged: bus.SubjectStatusChanged, Addresses: bus.SubjectAddresses,
}

// notes are where the producers of the subjects hear what is stored.
var notes = map[string]string{
	bus.SubjectPayoutConfirmed: bus.SubjectNotedSettlement, bus.SubjectPenaltyCreated: bus.SubjectNotedSettlement,
	bus.SubjectStatusChanged: bus.SubjectNotedHubs, bus.SubjectAddresses: bus.SubjectNotedHubs,
}

// NoteOf returns the subject on which the producers of a subject hear what is stored.
func NoteOf(subject string) string { return notes[subject] }

// Encode returns the subject and the message of an event.
func (e Event) Encode() (subject string, data []byte, err error) {
	subject, ok := subjects[e.Kind]
	if !ok {
		return "", nil, fmt.Errorf("an event of kind %.40q does not travel", e.Kind)
	}
	data, err = proto.Marshal(&eventsv1.AccountEvent{EventId: e.ID.String(), Kind: string(e.Kind),
		ProviderId: e.Provider.String(), CreatedAt: timestamppb.New(e.At), Data: e.Data})
	if err != nil {
		return "", nil, fmt.Errorf("encode an event: %w", err)
	}
	return subject, data, nil
}

// Decode reads a message. It refuses a kind that does not belong to the subject, because
// the subject is what the bus lets its sender publish on.
func Decode(subject string, data []byte) (Event, error) {
	m := &eventsv1.AccountEvent{}
	if err := proto.Unmarshal(data, m); err != nil {
		return Event{}, fmt.Errorf("not an event of an account: %w", err)
	}
	e := Event{Kind: Kind(m.GetKind()), Data: m.GetData()}
	var err error
	if e.ID, err = ParseID(m.GetEventId()); err != nil || e.ID == (ID{}) {
		return e, errors.New("the event's id is malformed")
	}
	if e.Provider, err = ids.ParseProvider(m.GetProviderId()); err != nil || e.Provider.IsZero() {
		return e, errors.New("the provider's id is malformed")
	}
	if subjects[e.Kind] != subject {
		return e, errors.New("the kind is another than the subject's")
	}
	if m.GetCreatedAt() == nil || m.GetCreatedAt().CheckValid() != nil {
		return e, errors.New("the event has no time")
	}
	e.At = m.GetCreatedAt().AsTime().Truncate(time.Microsecond)
	var object map[string]json.RawMessage
	if len(e.Data) > MaxData || json.Unmarshal(e.Data, &object) != nil || object == nil {
		return e, errors.New("the data are no JSON object within bounds")
	}
	return e, nil
}

// KnownBy are the addresses of a provider: the wallet that has signed for it, and where its
// earnings go. Each is empty for none.
type KnownBy struct {
	Wallet        string `json:"wallet"`
	PayoutAddress string `json:"payout_address"`
}

// Addresses reads the data of an event of kind Addresses.
func (e Event) Addresses() (KnownBy, error) {
	var known KnownBy
	if err := json.Unmarshal(e.Data, &known); err != nil {
		return KnownBy{}, errors.New("the data are no addresses of a provider")
	}
	return known, nil
}

// EncodeNote encodes which events are stored.
func EncodeNote(stored []ID) ([]byte, error) {
	m := &eventsv1.AccountEventsNoted{}
	for _, id := range stored {
		m.EventIds = append(m.EventIds, id.String())
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode which events are stored: %w", err)
	}
	return data, nil
}

// DecodeNote reads which events are stored. What is no id is passed over.
func DecodeNote(data []byte) ([]ID, error) {
	m := &eventsv1.AccountEventsNoted{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("not a note of events: %w", err)
	}
	var stored []ID
	for _, text := range m.GetEventIds()[:min(len(m.GetEventIds()), maxBatch)] {
		if id, err := ParseID(text); err == nil {
			stored = append(stored, id)
		}
	}
	return stored, nil
}
