package auditor

// sight is what a client saw of its call's end.
type sight string

// The sights, in the order in which they are tested.
const (
	// sawWhole is an answer that came to its proper end, with content.
	sawWhole sight = "whole"
	// sawEmpty is a whole answer without content.
	sawEmpty sight = "empty"
	// sawCut is an answer of which a part came, and then an error.
	sawCut sight = "cut"
	// sawRefused is an error, and no content.
	sawRefused sight = "refused"
	// sawNothingMore is a client that hung up.
	sawNothingMore sight = "left"
	// sawBreak is a connection that was lost, before or after the first content.
	sawBreak sight = "broken"
)

// sights returns all of them.
func sights() []sight {
	return []sight{sawWhole, sawEmpty, sawCut, sawRefused, sawNothingMore, sawBreak}
}

// sight is what the client saw. An error outweighs an end mark, and an end mark outweighs
// a client that hangs up after it.
func (c *call) sight() sight {
	failed := c.errored || c.status >= 400
	switch {
	case failed && c.received > 0:
		return sawCut
	case failed:
		return sawRefused
	case c.complete && c.bytes == 0:
		return sawEmpty
	case c.complete:
		return sawWhole
	case c.left:
		return sawNothingMore
	}
	return sawBreak
}

// circumstance is what the other parties say of the end, where that changes the bounds.
type circumstance string

// The circumstances.
const (
	// ordinary is the case without any of the others.
	ordinary circumstance = ""
	// uncounted is an engine that ended properly and reported no usage.
	uncounted circumstance = "uncounted"
	// overtime is a request that the ledger settled as having reached its time limit.
	overtime circumstance = "overtime"
	// vanished is a request whose gateway reported to the ledger that its client had
	// left.
	vanished circumstance = "vanished"
	// crashed is a request that the ledger settled as lost by the platform.
	crashed circumstance = "crashed"
	// finished is a request whose engine ended properly, and whose hub had that on its
	// disk before any gateway reported that the client did not get it.
	finished circumstance = "finished"
	// unreported is a finished request whose engine reported no usage.
	unreported circumstance = "unreported"
)

// count is a number of tokens by one party's account.
type count int

// The counts.
const (
	nothing  count = iota
	one            // a single token: something was delivered
	received       // what the client got
	perByte        // a token for each byte that the client got
	sent           // what the credited engine sent
	reported       // what the credited engine reported as its usage
	coverage       // the prompt that the hold covers
	greatest       // the greater of the engine's prompt and what the hold covers
)

// span is the least and the most that may be charged and paid for.
type span struct{ floor, ceiling count }

func exactly(c count) span { return span{c, c} }

// rule is a line of the table of stream endings as it can be judged from the outside.
type rule struct {
	saw  sight
	told circumstance
	// lines are the lines of the published table that look like this from the outside.
	lines              string
	prompt, completion span
}

// endings is the table of stream endings: what the consumer may be charged for, and so
// what the provider is paid for, which are always the same tokens. A circumstance for
// which a sight has no line counts as ordinary.
//
// Where the two numbers of a span differ, the inputs cannot tell more:
//
//   - cut and crashed: a hub that died knows its last progress, which is written
//     every 256 tokens or 2 s; the gateway's report may be lost with it. The
//     content that came bounds the charge, and nothing can be demanded for the
//     provider. If the hub's count settled before the gateway's report came, the
//     charge for what did not come is given back.
//   - refused and finished: the hub that served died after the usage was on disk
//     and before the client was answered. Its usage settles as it stands unless
//     the gateway's report of the failure came first.
//   - unreported: the same with an engine that reported no usage: the prompt is the
//     estimate at admission, and the completion the hub's own count.
//   - cut and overtime: the engine was asked to stop, and may have reported its
//     usage within the drain of 2 s; else the prompt is the estimate.
//   - left: the gateway had written more than the client read. The prompt is the
//     engine's count if the drain of 2 s brought it, and else the estimate at
//     admission, which the hold covers. It is not charged at all when the platform
//     failed at the same time, nor when the client left within a second of the
//     dispatch or left a provider that hung.
//   - broken: the gateway died. Its hub handed it more than the client read, and
//     may have had the whole answer on disk.
//   - broken and vanished: the connection was cut on the way, which its gateway
//     cannot tell from a client that left.
//   - whole and uncounted: the hub's own count is an estimate, of which only is
//     known that a token has a byte.
var endings = []rule{
	{sawWhole, ordinary, "normal, usage present and plausible; retry on another provider after 0 bytes", exactly(reported),
		exactly(reported)},
	{sawWhole, uncounted, "normal, usage missing; usage absurd; explicit zero usage", span{nothing, coverage},
		span{one, perByte}},
	{sawEmpty, ordinary, "empty answer", exactly(nothing), exactly(nothing)},
	{sawCut, ordinary, "provider lost mid-stream; truncated; error object inside the stream", exactly(nothing),
		exactly(received)},
	{sawCut, overtime, "stream exceeds wall limit", span{nothing, greatest}, exactly(received)},
	{sawCut, crashed, "platform crash mid-stream", exactly(nothing), span{nothing, received}},
	{sawCut, finished, "platform crash after the end was on disk", span{nothing, reported}, span{received, reported}},
	{sawCut, unreported, "platform crash after the end was on disk", span{nothing, coverage}, span{received, sent}},
	{sawRefused, ordinary,
		"engine refuses the content; every attempt failed before content; provider lost before first byte", exactly(nothing),
		exactly(nothing)},
	{sawRefused, finished, "platform crash after the end was on disk", span{nothing, reported}, span{nothing, reported}},
	{sawRefused, unreported, "platform crash after the end was on disk", span{nothing, coverage}, span{nothing, sent}},
	{sawNothingMore, ordinary,
		"client gone before dispatch; client gone before content; client gone mid-stream; provider ignores cancel",
		span{nothing, greatest}, span{received, sent}},
	{sawNothingMore, crashed, "platform crash mid-stream", exactly(nothing), span{nothing, sent}},
	{sawBreak, ordinary, "platform crash mid-stream", exactly(nothing), span{received, sent}},
	{sawBreak, vanished, "client gone before content; client gone mid-stream", span{nothing, greatest},
		span{received, sent}},
	{sawBreak, crashed, "platform crash mid-stream", exactly(nothing), span{nothing, sent}},
	{sawBreak, finished, "platform crash after the end was on disk", span{nothing, reported}, span{received, reported}},
	{sawBreak, unreported, "platform crash after the end was on disk", span{nothing, coverage}, span{received, sent}},
}

// ruleFor is the line of a sight in a circumstance.
func ruleFor(saw sight, told circumstance) rule {
	var plain rule
	for _, r := range endings {
		if r.saw == saw && r.told == told {
			return r
		}
		if r.saw == saw && r.told == ordinary {
			plain = r
		}
	}
	return plain
}
