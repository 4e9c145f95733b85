// Package endings is the table of how a request may end and what it then costs, as the
// README publishes it: one line for each ending, in the order in which people look for
// them. The end-to-end tests bring about every line on a running marketplace, by its
// name, and compare the ledger with it. The README's table is made from it.
//
// The rules are those of the marketplace's specification, part 1 (metering) and part 3,
// as far as the specification decides them. Provider-hub's meter computes them.
package endings

import (
	"fmt"
	"strings"
)

// Basis says what a count of tokens rests on.
type Basis uint8

// The bases.
const (
	// Nothing is charged.
	Nothing Basis = iota
	// Usage is the engine's report.
	Usage
	// Count is the marketplace's own: an estimate of the prompt, a recount of
	// the output.
	Count
	// Delivered is what had been relayed at the end.
	Delivered
	// Bound is the longest that the answer could be.
	Bound
	// One is a single token.
	One
)

func (b Basis) String() string {
	switch b {
	case Usage:
		return "the engine's usage"
	case Count:
		return "our count"
	case Delivered:
		return "what was delivered"
	case Bound:
		return "the bound"
	case One:
		return "one token"
	case Nothing:
	}
	return "–"
}

// Told is what the client sees at the end.
type Told uint8

// What clients see.
const (
	// Whole is a whole answer with status 200.
	Whole Told = iota
	// Broken is a stream that ends in an error event, without [DONE].
	Broken
	// Refused is an error status.
	Refused
	// Left is nothing, because the client has left.
	Left
)

func (w Told) String() string {
	switch w {
	case Whole:
		return "a whole answer"
	case Broken:
		return "an error event"
	case Refused:
		return "an error"
	case Left:
	}
	return "(has left)"
}

// Line is one way to end. The provider that served is paid for the same tokens as are
// charged, at the payout price, and nobody else is paid. The platform bears the cost of
// what it broke itself.
type Line struct {
	// Name is the name of the line's test.
	Name string
	// Ending says what happened.
	Ending         string
	Prompt, Output Basis
	Told           Told
}

// Free reports whether the request costs nothing and pays nothing: its hold is
// released.
func (l Line) Free() bool { return l.Prompt == Nothing && l.Output == Nothing }

// Table returns every line.
func Table() []Line {
	return []Line{
		{"normal", "normal, plausible usage", Usage, Usage, Whole},
		{"usage_missing", "normal, no usage reported", Count, Count, Whole},
		{"usage_absurd", "absurd usage: negative, not a number, above `max_tokens`", Count, Count, Whole},
		{"usage_zero", "usage of zero beside text", Count, Count, Whole},
		{"cut", "longer than it may be: cut at its bound (a whole answer is refused and free)", Count, Bound, Whole},
		{"stopped_at_once", "nothing but the `stop` that the request named, tokens reported", Usage, One, Whole},
		{"client_gone_before_dispatch", "client gone before dispatch", Nothing, Nothing, Left},
		{"client_gone_at_once", "client gone within 1 s after dispatch, before content" +
			" (30 a minute of an account, then 429); of a gateway model it is as later", Nothing, Nothing, Left},
		{"client_gone_before_content", "client gone later, before content, streamed or whole", Count, Nothing, Left},
		{"client_gone_from_hung",
			"the same, and the provider was without content for twice the usual time," +
				" 5 s at least (10 s more where media are named by address, up to 20 s more for a whole answer," +
				" until three in a row have got none): it counts against the provider", Nothing, Nothing, Left},
		{"client_gone", "client gone in the stream (the engine is told to stop)", Count, Delivered, Left},
		{"cancel_ignored", "the same, and the provider goes on: later tokens are unpaid", Count, Delivered, Left},
		{"wall_limit", "the stream runs into the limit of time", Count, Delivered, Broken},
		{"provider_lost_before_content", "provider lost before its first byte: another serves, and only it is paid", Usage,
			Usage, Whole},
		{"retried", "refused by one provider for now, served by another: only the latter is paid", Usage, Usage, Whole},
		{"provider_lost", "provider lost in the stream", Nothing, Delivered, Broken},
		{"truncated", "truncated: an end without a finish reason or without the end mark", Nothing, Delivered, Broken},
		{"error_inside", "an error object in the stream", Nothing, Delivered, Broken},
		{"blamed_inside",
			"an error in the stream that blames the content, from half of the bound on: it raises suspicion of the provider",
			Count, Delivered, Broken},
		{"platform_lost", "gateway or hub lost in the stream", Nothing, Delivered, Broken},
		{"engine_refuses", "the engine refuses the content (4xx): no harm to the provider's health", Nothing, Nothing,
			Refused},
		{"all_failed", "every attempt failed before content", Nothing, Nothing, Refused},
		{"empty", "an empty answer: no text, no tool call, no logprobs, no finish reason", Nothing, Nothing, Refused},
	}
}

// Markdown is the table as documents show it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| how it ends | prompt charged | output charged | the client gets |\n|---|---|---|---|\n")
	for _, l := range Table() {
		fmt.Fprintf(&b, "| %s | %v | %v | %v |\n", l.Ending, l.Prompt, l.Output, l.Told)
	}
	return b.String()
}
