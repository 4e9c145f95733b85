package usage

import "svc.internal/pkg/money"

// platformLost is the ending of an answer that the platform broke off.
const platformLost = "platform_lost"

// Relayed is what a gateway wrote to a consumer.
type Relayed struct{ Tokens, Bytes int64 }

// Void is what the hubs of a request say of attempts for which nothing is owed.
type Void struct {
	// Last is the last such attempt; those before it were given up with nothing
	// relayed.
	Last int32
	// Relayed is the attempt of which a gateway says that content was relayed,
	// which is worth more; 0 for none.
	Relayed int32
}

// voids reports whether a void took from an event the receipt that it rests on,
// after the review that published it.
func (v Void) voids(e Event) bool {
	return e.EvidenceSource == WorkReceipt && v.Last >= e.Attempt && v.Relayed != e.Attempt
}

// count names the count that an answer is settled by.
type count uint8

const (
	// eventsCount is the count of the event.
	eventsCount count = iota + 1
	// relayedCount is the count of the gateway, even where the event has less.
	relayedCount
	// lowerCount is the lower of the two.
	lowerCount
)

// settledBy names the count by which an answer is settled once a gateway has said that
// the platform broke it off. It depends on the event's evidence source and on whether
// the event says that the answer was lost, too.
//
// A hub that died noted its progress now and then, and what it says of the end may
// never have arrived. So its count can be too low, for which no provider is to
// suffer. Nobody is paid for more than a living hub reported or a provider signed.
var settledBy = map[EvidenceSource]struct{ lost, ended count }{
	Gateway:     {lost: eventsCount, ended: eventsCount},
	Hub:         {lost: relayedCount, ended: lowerCount},
	WorkReceipt: {lost: lowerCount, ended: lowerCount},
}

// capped returns the event by which an answer that the platform broke off is settled,
// and reports whether that is another event than e. The consumer pays for what came
// and not for the prompt, so nothing is paid for audio.
func (r Relayed) capped(e Event, maxCompletion int64) (settled Event, overruled bool) {
	by := settledBy[e.EvidenceSource].ended
	if e.Ending == platformLost {
		by = settledBy[e.EvidenceSource].lost
	}
	if by == eventsCount {
		return e, false
	}
	came := money.Tokens{Completion: min(r.Tokens, r.Bytes, maxCompletion)} // a token is at least one byte
	if by == lowerCount {
		came.Completion = min(came.Completion, e.Billable.Completion)
	}
	if e.Billable == came {
		return e, false
	}
	e.EvidenceSource, e.Ending, e.Billable = Gateway, platformLost, came
	return e, true
}
