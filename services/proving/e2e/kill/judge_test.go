package kill

import (
	"fmt"
	"time"
)

// victim is the process that is killed in a cell.
type victim string

// The victims.
const (
	gateway          victim = "gateway"
	routerVictim     victim = "router"
	hub              victim = "hub"
	hubLost          victim = "hub-lost" // with its journal
	billing          victim = "billing"
	settlementVictim victim = "settlement"
	catalogVictim    victim = "catalog"
	agent            victim = "agent"
	nats             victim = "nats"
	natsWiped        victim = "nats-wiped"
	postgres         victim = "postgres"
)

// Prices and amounts, in nano-USD: PutModel's prices, the providers' part of them, and
// the credit of a cell's account.
const (
	promptPrice      = 1000
	completionPrice  = 3000
	promptPayout     = 900
	completionPayout = 2700
	credit           = 1_000_000_000
)

// tellBound is how long a client may wait for the end of its call, and closeBound the
// time until its hold is closed: a new start of a hub or billing-ledger, a lease, the
// review of an orphan and a sweep of the hub.
const (
	tellBound  = 30 * time.Second
	closeBound = 2 * time.Minute
)

// cell is one kill.
type cell struct {
	point  point
	victim victim
	// all reports that every replica is killed, not one.
	all    bool
	stream bool
	// prompt and answer are the tokens of the whole answer. emitted is how many the
	// engine had given out before the kill.
	prompt, answer, emitted int64
}

// told is what the client learnt.
type told struct {
	// status is 0 when no headers came; code is that of the error body or event.
	status int
	code   string
	// whole reports that the answer came to its end: [DONE], or a body that parses.
	whole bool
	// tokens are the pieces of content that came.
	tokens int64
	took   time.Duration
	// err is how the connection was lost, if it was.
	err error
}

// String says it in one line.
func (t told) String() string {
	return fmt.Sprintf("status %d, code %q, whole %v, %d tokens, after %v, %v", t.status, t.code, t.whole, t.tokens,
		t.took.Round(time.Millisecond), t.err)
}

// books are all rows of a cell's account.
type books struct {
	holds        []string // their states
	lines        []line
	earnings     []int64 // payouts
	posted, held int64
	// returned is what was given back of a charge, because the gateway reported after the
	// settlement that the answer had broken off.
	returned int64
	// quarantined counts the events in quarantine, of everybody.
	quarantined int64
}

// line is a settled request.
type line struct {
	source, ending, hub string
	prompt, completion  int64
	charged, payout     int64
}

// open reports whether something has yet to happen.
func (b books) open() bool {
	for _, state := range b.holds {
		if state == "open" {
			return true
		}
	}
	if len(b.lines) != len(b.earnings) {
		return true
	}
	for i, l := range b.lines {
		if l.payout != b.earnings[i] {
			return true // settlement has yet to hear how the ledger settled it
		}
	}
	return false
}

// String says it in one line.
func (b books) String() string {
	return fmt.Sprintf("holds %v, lines %+v, earnings %v, posted %d, held %d, returned %d, quarantined %d",
		b.holds, b.lines, b.earnings, b.posted, b.held, b.returned, b.quarantined)
}

// judge names everything that is wrong about a cell; empty is the verdict that is wanted.
func judge(c cell, t told, b books) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if text := c.truth(t); text != "" {
		complain("the client: %s", text)
	}
	if len(b.holds) > 1 || len(b.lines) > 1 {
		complain("one request has %d holds and %d settlements", len(b.holds), len(b.lines))
	}
	if b.open() {
		complain("it is still open")
	}
	if b.held != 0 {
		complain("%d nano-USD are still held", b.held)
	}
	if b.quarantined != 0 {
		complain("%d events are in quarantine", b.quarantined)
	}
	var charged int64
	for i, l := range b.lines {
		charged += l.charged
		if l.source != "payg" {
			complain("the platform pays for it: source %s", l.source)
		}
		if want := l.prompt*promptPrice + l.completion*completionPrice; l.charged != want {
			complain("charged %d for what costs %d", l.charged, want)
		}
		if want := l.prompt*promptPayout + l.completion*completionPayout; l.payout != want || i < len(b.earnings) &&
			b.earnings[i] != want {
			complain("accrued %d and recorded %v for what pays %d", l.payout, b.earnings, want)
		}
		if ceiling := c.ceiling(t); l.prompt > ceiling.prompt || l.completion > ceiling.completion {
			complain("%d + %d tokens are charged, at most %d + %d may be", l.prompt, l.completion,
				ceiling.prompt, ceiling.completion)
		}
	}
	for _, state := range b.holds {
		if (state == "settled") != (len(b.lines) == 1) {
			complain("the hold is %s and there are %d settlements", state, len(b.lines))
		}
	}
	if b.posted != credit-charged+b.returned {
		complain("%d of %d are left after a charge of %d, of which %d were given back", b.posted, credit, charged, b.returned)
	}
	if arrived := t.tokens * completionPrice; b.returned != 0 && (t.whole || charged-b.returned != arrived) {
		complain("%d of %d are given back for %d tokens that arrived", b.returned, charged, t.tokens)
	}
	if t.whole && (len(b.lines) != 1 || b.lines[0].prompt != c.prompt || b.lines[0].completion != c.answer) {
		complain("a whole answer of %d + %d tokens is not charged as such", c.prompt, c.answer)
	}
	return wrong
}

// truth says what is wrong about the client's answer.
func (c cell) truth(t told) string {
	switch {
	case t.took > tellBound:
		return fmt.Sprintf("waited %v, which is more than %v", t.took, tellBound)
	case t.whole && t.tokens != c.answer:
		return fmt.Sprintf("a whole answer has %d of %d tokens", t.tokens, c.answer)
	case t.whole:
		return ""
	case c.served():
		return "was not served although nothing stood in the way: " + t.String()
	case c.cutOff():
		return "" // its own gateway died, so a lost connection is the truth
	case t.err != nil:
		return "the connection broke although its gateway lives: " + t.err.Error()
	case t.status >= 400 && t.status < 500:
		return fmt.Sprintf("is blamed with %d %s", t.status, t.code)
	case t.code == "":
		return fmt.Sprintf("an answer of status %d is not whole and has no error", t.status)
	}
	return ""
}

// cutOff reports whether the process that the client talks to is killed.
func (c cell) cutOff() bool { return c.victim == gateway }

// served reports whether the answer must be whole, because the client does not need the
// victim any more, or another process takes its place.
func (c cell) served() bool {
	at := c.point.stage
	switch c.victim {
	case settlementVictim, catalogVictim, nats, natsWiped:
		return true
	case gateway:
		return false
	case routerVictim, billing:
		return at > admission || !c.all
	case postgres:
		return at > admission
	case agent:
		// Once the request is on its way, an agent may have begun a stream before its
		// death is noticed.
		begun := c.stream && c.point.name == "hub.open.sent"
		return at < relaying && !begun || at >= finished
	case hub, hubLost:
		return at < dispatched || at >= answered
	}
	return false
}

// losesHub reports whether the hub that serves is killed.
func (c cell) losesHub() bool { return c.victim == hub || c.victim == hubLost }

// tokens of prompt and completion.
type tokens struct{ prompt, completion int64 }

// most is the most that may be charged, by the table of endings.
func (c cell) ceiling(t told) tokens {
	switch {
	case t.whole:
		return tokens{c.prompt, c.answer}
	case c.cutOff() && (c.point.stage >= finished || !c.stream && c.point.stage >= relaying):
		// The usage was on disk before the kill and settles normally. Or the gateway had
		// the whole answer, and the usage may have been on disk before the hub could
		// notice the gateway's death.
		return tokens{c.prompt, c.answer}
	case c.losesHub() && (c.point.name == "hub.usage.published" || c.point.name == "hub.usage.acked"):
		// The usage was published before the kill, and may be settled before the gateway
		// can report that the end never came.
		return tokens{c.prompt, c.answer}
	case c.cutOff():
		// What the hub handed to the gateway that died.
		return tokens{0, c.emitted}
	}
	return tokens{0, t.tokens}
}
