package usage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
)

// MaxDetail bounds what a quarantine says of its reason, in bytes.
const MaxDetail = 500

// ErrRefused is what a store returns when the database refuses a batch for what
// it holds and would refuse it again. It is not returned for a database that
// cannot be reached.
var ErrRefused = errors.New("the database refuses these rows")

// Reject is an event that is kept in quarantine.
type Reject struct {
	Reason Result
	// Request and Hub are zero where the payload does not tell.
	Request ids.RequestID
	Hub     string
	Detail  string
	Payload []byte
}

// Hash identifies the payload.
func (r Reject) Hash() [sha256.Size]byte { return sha256.Sum256(r.Payload) }

// Delivery is an event as it came.
type Delivery struct {
	Event   Event
	Payload []byte
}

// Store keeps holds, wallets and settled requests.
type Store interface {
	// Settle shows decide the rows of the requests under lock, and applies its
	// effects and puts rejects into quarantine, all in one transaction. decide
	// may run more than once. It returns ErrRefused (see there).
	Settle(ctx context.Context, requests []ids.RequestID, decide func(Snapshot) (Effects, []Reject)) error
	// Quarantine keeps what will never be settled. A repeat adds nothing.
	Quarantine(ctx context.Context, rejects []Reject) error
}

// Settler settles batches of events.
type Settler struct {
	Store Store
	// Tickets checks that hubs were given what they say that they served; nil
	// checks nothing.
	Tickets *Tickets
}

// Settle settles a batch and tells what became of each delivery. When it
// returns an error nothing can be said of any, and the batch is to come again.
// An event that the database refuses for what it holds is found by halving and
// put into quarantine, so that it does not stop the others for ever. booked hears
// the lines of each transaction that was committed; it may be nil.
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
	events := make([]Event, len(batch))
	for i, d := range batch {
		requests[i], events[i] = d.Event.Request, d.Event
	}
	var results []Result
	var lines []Line
	err := s.Store.Settle(ctx, requests, func(b Snapshot) (Effects, []Reject) {
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

// decide leaves out what is forged, so that it stands in nobody's way: it counts
// neither as the first that is heard of a request nor as another.
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
