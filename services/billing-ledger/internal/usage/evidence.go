package usage

import "svc.internal/pkg/money"

// platformLost is the ending of an answer that the platform broke off.
const platformLost = "platform_lost"

// Relayed is what a gateway wrote to a consumer.
type Relayed struct{ Tokens, Bytes int64 }

// Void has the attempts of a request for which its hubs say that nothing is owed.
type Void struct {
	// Last is the last void attempt. The attempts before it ended with nothing relayed.
	Last int32
	// Relayed is the attempt of which a gateway says that content was relayed, 0 for
	// none. The gateway's report outranks a void.
	Relayed int32
}

// voids reports whether a void took away the receipt on which an event rests, after the
// review that published the event.
func (v Void) voids(e Event) bool {
	return e.EvidenceSource == WorkReceipt && v.Last >= e.Attempt && v.Relayed != e.Attempt
}

// count names the count by which an answer is settled.
type count uint8

const (
	// eventsCount is the event's count.
	eventsCount count = iota + 1
	// relayedCount is the gateway's count, even where the event's is lower.
	relayedCount
	// lowerCount is the lower of the two.
	lowerCount
)

// settledBy names the count by which an answer is settled once a gateway has reported
// that the platform broke it off. It depends on the event's evidence source, and on
// whether the event itself says that the answer was lost.
//
// A hub that died had noted its progress only now and then, and its last event may never
// have arrived. So its count can be too low, and no provider shall suffer for that.
// Nobody is paid for more than a living hub reported or a provider signed. Settlement
// hears of the count as it hears of a review.
var settledBy = map[EvidenceSource]struct{ lost, ended count }{
	Gateway:     {lost: eventsCount, ended: eventsCount},
	Hub:         {lost: relayedCount, ended: lowerCount},
	WorkReceipt: {lost: lowerCount, ended: lowerCount},
}

// capped returns the event by which an answer that the platform broke off is settled, and
// reports whether that event differs from e. The consumer pays for what arrived and not
// for the prompt, so nothing is paid for audio.
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
