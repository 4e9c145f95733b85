package usage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
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
	Event   Event
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
	// Tickets checks that hubs were given the requests that they report; nil checks
	// nothing.
	Tickets *Tickets
}

// Settle settles a batch and returns the result of each delivery. After an error no
// result is known, and the batch must be delivered again. An event that the database
// refuses for its content is found by halving the batch and put into quarantine, so that
// it does not stop the others for ever. booked gets the lines of each committed
// transaction; it may be nil.
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
	requests := make([]ids.RequestID, len(batch))
	providers := make([]ids.ProviderID, len(batch))
	events := make([]Event, len(batch))
	for i, d := range batch {
		requests[i], providers[i], events[i] = d.Event.Request, d.Event.Provider, d.Event
	}
	var results []Result
	var lines []Line
	err := s.Store.Settle(ctx, requests, providers, func(b Snapshot) (Effects, []Reject) {
		fx := s.decide(b, events)
		results, lines = fx.Results, fx.Lines
		var rejects []Reject
		for i, r := range fx.Results {
			if r.Quarantined() {
				rejects = append(rejects, reject(batch[i], r, ""))
			}
		}
		return fx, rejects
	})
	if err != nil {
		return nil, fmt.Errorf("settle %d events: %w", len(batch), err)
	}
	if booked != nil {
		booked(lines)
	}
	return results, nil
}

// decide leaves forged events out, so that they stand in nobody's way: a forged event
// counts neither as the first event of a request nor as another.
func (s *Settler) decide(b Snapshot, events []Event) Effects {
	genuine, places := make([]Event, 0, len(events)), make([]int, 0, len(events))
	results := make([]Result, len(events))
	for i, e := range events {
		if h, ok := b.Holds[e.Request]; ok && s.Tickets.forged(e, h.Account) {
			results[i] = Forged
			continue
		}
		genuine, places = append(genuine, e), append(places, i)
	}
	fx := Decide(b, genuine)
	for i, place := range places {
		results[place] = fx.Results[i]
	}
	fx.Results = results
	return fx
}

func reject(d Delivery, reason Result, detail string) Reject {
	return Reject{Reason: reason, Request: d.Event.Request, Hub: d.Event.Hub, Detail: detail[:min(len(detail), MaxDetail)],
		Payload: d.Payload}
}
