package usage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

// MaxDetail bounds the text in quarantine that explains the reason, in bytes.
const MaxDetail = 500

// ErrRefused says that the database refuses a batch for its content and would refuse it
// again. A store does not return it for a database that cannot be reached.
var ErrRefused = errors.New("the database refuses these rows")

// Reject is an event for the quarantine.
type Reject struct {
	Reason Result
	// Request and Hub are zero where the payload does not name them.
	Request ids.RequestID
	Hub     string
	Detail  string
	Payload []byte
}

// Hash identifies the payload.
func (r Reject) Hash() [sha256.Size]byte { return sha256.Sum256(r.Payload) }

// Delivery is an event as it was delivered.
type Delivery struct {
	Event Event
	// Ticket is the ledger's for the request, given at admission; empty for none.
	Ticket  []byte
	Payload []byte
}

// Store keeps holds, wallets and settled requests.
type Store interface {
	// Settle shows decide the rows of the requests under lock, applies its effects and
	// puts its rejects into quarantine, all in one transaction. providers are those that
	// served the requests. decide may run more than once. See ErrRefused.
	Settle(ctx context.Context, requests []ids.RequestID, providers []ids.ProviderID,
		decide func(Snapshot) (Effects, []Reject)) error
	// Quarantine keeps events that will never be settled. A repeat adds nothing.
	Quarantine(ctx context.Context, rejects []Reject) error
}

// Settler settles batches of events.
type Settler struct {
	Store Store
	// Tickets checks that hubs were given the requests that they report, and opens their tickets;
	// nil does neither.
	Tickets *Tickets
	// Pins writes missing holds; nil writes none. Clock shows the age of a request.
	Pins  hold.PinWriter
	Clock clock.Clock

	early earlyEvents
}

// Settle settles a batch and returns the result of each delivery. After an error no
// result is known, and the batch must be delivered again. An event that the database
// refuses for its content is found by halving the batch and put into quarantine, so that
// it does not stop the others for ever. booked gets the lines of each committed
// transaction; it may be nil.
//
// Usage may arrive before the hold of its request is written. The hold is written from the ticket
// then: at once where the request has just begun, and otherwise when no hold is found. An event
// without a ticket is Early for a while, and must be delivered again (see EarlyFor).
func (s *Settler) Settle(ctx context.Context, batch []Delivery, booked func([]Line)) ([]Result, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	results, err := s.settle(ctx, batch, booked)
	switch {
	case err == nil:
		return results, nil
	case !errors.Is(err, ErrRefused):
		return nil, err
	case len(batch) == 1:
		if err := s.Store.Quarantine(ctx, []Reject{reject(batch[0], Refused, err.Error())}); err != nil {
			return nil, fmt.Errorf("quarantine a refused event: %w", err)
		}
		return []Result{Refused}, nil
	}
	half := len(batch) / 2
	first, err := s.Settle(ctx, batch[:half], booked)
	if err != nil {
		return nil, err
	}
	second, err := s.Settle(ctx, batch[half:], booked)
	if err != nil {
		return nil, err
	}
	return append(first, second...), nil
}

func (s *Settler) settle(ctx context.Context, batch []Delivery, booked func([]Line)) ([]Result, error) {
	pins := s.open(batch)
	if err := hold.WriteFresh(ctx, s.Pins, s.Clock, pins); err != nil {
		return nil, err
	}
	results, missing, err := s.transact(ctx, batch, pins, booked)
	if err != nil || len(missing) == 0 {
		return results, err
	}
	write, again := make([]hold.Pin, len(missing)), make([]Delivery, len(missing))
	for i, place := range missing {
		write[i], again[i] = *pins[place], batch[place]
	}
	if err := s.Pins.Write(ctx, write); err != nil {
		return nil, fmt.Errorf("write %d holds of usage: %w", len(write), err)
	}
	// Without pins, no event is left out any more.
	second, _, err := s.transact(ctx, again, make([]*hold.Pin, len(again)), booked)
	if err != nil {
		return nil, err
	}
	for i, place := range missing {
		results[place] = second[i]
	}
	return results, nil
}

// open returns what the holds of the requests say, by the tickets of their events. It is nil where the
// event has no ticket of its request, and where no hold can be written.
func (s *Settler) open(batch []Delivery) []*hold.Pin {
	pins := make([]*hold.Pin, len(batch))
	if s.Pins == nil {
		return pins
	}
	for i, d := range batch {
		pins[i] = s.Tickets.PinOf(d.Event.Request, d.Ticket)
	}
	return pins
}

// transact settles a batch in one transaction. It leaves out the events whose requests are unknown and
// have pins, and returns their places.
func (s *Settler) transact(
	ctx context.Context, batch []Delivery, pins []*hold.Pin, booked func([]Line),
) (results []Result, missing []int, err error) {
	requests := make([]ids.RequestID, len(batch))
	providers := make([]ids.ProviderID, len(batch))
	for i, d := range batch {
		requests[i], providers[i] = d.Event.Request, d.Event.Provider
	}
	var lines []Line
	err = s.Store.Settle(ctx, requests, providers, func(b Snapshot) (Effects, []Reject) {
		var fx Effects
		fx, missing = s.decide(b, batch, pins)
		results, lines = fx.Results, fx.Lines
		var rejects []Reject
		for i, r := range fx.Results {
			if r != "" && r.Quarantined() { // an event that was left out has no result
				rejects = append(rejects, reject(batch[i], r, ""))
			}
		}
		return fx, rejects
	})
	if err != nil {
		return nil, nil, fmt.Errorf("settle %d events: %w", len(batch), err)
	}
	if booked != nil {
		booked(lines)
	}
	return results, missing, nil
}

// decide leaves some events out, so that they stand in nobody's way: an event that is left out counts neither as
// the first event of a request nor as another. They are those that are forged, and those of requests that are
// unknown and may become known.
func (s *Settler) decide(b Snapshot, batch []Delivery, pins []*hold.Pin) (fx Effects, missing []int) {
	genuine, places := make([]Event, 0, len(batch)), make([]int, 0, len(batch))
	results := make([]Result, len(batch))
	for i := range batch {
		e := &batch[i].Event
		h, known := b.Holds[e.Request]
		switch {
		case known && s.Tickets.forged(*e, h.Account):
			results[i] = Forged
		case !known && pins[i] != nil:
			missing = append(missing, i)
		case !known && len(batch[i].Ticket) == 0 && s.isEarly(e):
			results[i] = Early
		default:
			genuine, places = append(genuine, *e), append(places, i)
		}
	}
	fx = Decide(b, genuine)
	for i, place := range places {
		results[place] = fx.Results[i]
	}
	fx.Results = results
	return fx, missing
}

// isEarly reports whether an event of an unknown request is put off. A request whose id is of the future
// is as suspect as one that is too old.
func (s *Settler) isEarly(e *Event) bool {
	if s.Pins == nil || s.Clock == nil || e.EvidenceSource != Hub || e.Settled || e.MAC == (MAC{}) {
		return false
	}
	now := s.Clock.Now()
	return now.Sub(e.Request.Time()).Abs() < EarlyFor && s.early.take(now)
}

func reject(d Delivery, reason Result, detail string) Reject {
	return Reject{Reason: reason, Request: d.Event.Request, Hub: d.Event.Hub, Detail: detail[:min(len(detail), MaxDetail)],
		Payload: d.Payload}
}
