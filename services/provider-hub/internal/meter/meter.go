// Package meter turns what was observed of one served attempt into what is
// charged and paid for. It is the published table of stream endings, as one
// pure function.
//
// All counts are tokens unless they say bytes. Whatever an engine claims, a
// bill is never negative and never above what the hub itself can be certain
// of: a completion token is at least one delivered byte, but for a few special
// ones per choice, and no choice is longer than it was allowed to be.
package meter

import "math"

// Ending is how an attempt ended once content had been served.
type Ending uint8

// The endings.
const (
	// Completed is an answer that the engine ended properly.
	Completed Ending = iota + 1
	// ClientGone is a consumer who hung up.
	ClientGone
	// ProviderLost is a provider's connection that broke or fell silent.
	ProviderLost
	// Truncated is a clean end without a finish reason or an end mark.
	Truncated
	// EngineError is an error, or something unreadable, inside a stream.
	EngineError
	// WallLimit is an answer that ran out of its total time.
	WallLimit
	// PlatformLost is an attempt that the hub itself did not see to its end.
	PlatformLost

	endings // one past the last
)

// Endings returns every ending, for those who walk them all.
func Endings() []Ending {
	all := make([]Ending, 0, endings)
	for e := Completed; e < endings; e++ {
		all = append(all, e)
	}
	return all
}

// String names the ending for logs and metrics.
func (e Ending) String() string {
	switch e {
	case Completed:
		return "completed"
	case ClientGone:
		return "client_gone"
	case ProviderLost:
		return "provider_lost"
	case Truncated:
		return "truncated"
	case EngineError:
		return "engine_error"
	case WallLimit:
		return "wall_limit"
	case PlatformLost:
		return "platform_lost"
	default:
		return "unknown"
	}
}

// ClaimState says what an engine's usage report is worth.
type ClaimState uint8

// The states of a claim.
const (
	// Absent: the engine said nothing.
	Absent ClaimState = iota + 1
	// Valid: the counts may be billed on.
	Valid
	// Absurd: the counts are malformed or above what can be certain.
	Absurd
)

// Claim is what the engine reported. The counts mean something only when the
// state is Valid.
type Claim struct {
	State      ClaimState
	Prompt     int64
	Completion int64
}

// Slack of what is believed beyond the hub's own knowledge.
const (
	// A prompt's estimate knows neither the tokenizer nor the template.
	promptFactor = 4
	promptSlack  = 512
	// Special tokens that a choice may cost without delivering a byte.
	tokensPerChoice = 32
)

// Served is what is known of an attempt at its end.
type Served struct {
	Ending Ending
	// EstimatedPrompt is the gateway's estimate, HeldPrompt what the
	// consumer's hold covers; 0 is not known.
	EstimatedPrompt int64
	HeldPrompt      int64
	// MaxOutput is the largest answer of one choice, Choices how many there
	// are (less than one counts as one).
	MaxOutput int64
	Choices   int64
	// Recount is the hub's own count of what was relayed, DeliveredBytes the
	// decoded length of that text.
	Recount        int64
	DeliveredBytes int64
	Claim          Claim
}

// Bill is what is charged and paid for.
type Bill struct {
	Prompt     int64
	Completion int64
	// Claim is the state of the claim once it was held against the bounds.
	Claim ClaimState
}

// Charge applies the table:
//
//	ending                                            prompt             completion
//	Completed, claim valid                            claim              claim
//	Completed, claim absent, absurd or an empty zero  estimate           recount
//	Completed, nothing delivered                      0                  0
//	ClientGone, WallLimit                             claim or estimate  the smaller of recount and valid claim
//	ProviderLost, Truncated, EngineError, PlatformLost  0                recount
//
// No prompt is billed beyond what is held for it: a provider who overstates
// prompts would otherwise be paid with money that nobody has put up. An answer
// without a byte is worth nothing, or answering nothing would be a trade.
//
// Every completion is held below choices × max output and below the delivered
// bytes and a slack of 32 for each choice.
func Charge(s Served) Bill {
	ceiling := s.ceiling()
	state := s.judge(ceiling)
	bill := Bill{Claim: state, Completion: clamp(s.Recount, ceiling)}
	switch s.Ending {
	case Completed:
		if s.DeliveredBytes <= 0 {
			bill.Completion = 0
			return bill
		}
		bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
		if s.trusted(state) {
			bill.Prompt = s.prompt()
			bill.Completion = clamp(s.Claim.Completion, ceiling)
		}
	case ClientGone, WallLimit:
		bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
		if s.trusted(state) {
			bill.Prompt = s.prompt()
			bill.Completion = min(bill.Completion, s.Claim.Completion)
		}
	case ProviderLost, Truncated, EngineError, PlatformLost:
		// Delivered output only: the consumer got no whole answer and does
		// not pay for the prompt.
	default:
		bill.Completion = 0
	}
	return bill
}

// ceiling is the most completion tokens that can be certain.
func (s Served) ceiling() int64 {
	choices := max(s.Choices, 1)
	return min(mulSaturating(choices, max(s.MaxOutput, 0)),
		addSaturating(max(s.DeliveredBytes, 0), mulSaturating(choices, tokensPerChoice)))
}

// judge holds a claim against what can be certain.
func (s Served) judge(ceiling int64) ClaimState {
	if s.Claim.State != Valid {
		return s.Claim.State
	}
	estimate := max(s.EstimatedPrompt, 0)
	promptBound := max(mulSaturating(estimate, promptFactor), addSaturating(estimate, promptSlack))
	switch {
	case s.Claim.Prompt < 0 || s.Claim.Completion < 0,
		s.Claim.Prompt > promptBound,
		s.Claim.Completion > ceiling:
		return Absurd
	}
	return Valid
}

// trusted is false for an explicit zero beside text that was delivered: that
// is neither a free answer nor an engine to be believed.
func (s Served) trusted(state ClaimState) bool {
	return state == Valid && (s.Claim.Completion > 0 || s.Recount <= 0)
}

// prompt is the claimed prompt; no request has a prompt of nothing.
func (s Served) prompt() int64 {
	if s.Claim.Prompt == 0 {
		return max(s.EstimatedPrompt, 0)
	}
	if s.HeldPrompt > 0 {
		return min(s.Claim.Prompt, s.HeldPrompt)
	}
	return s.Claim.Prompt
}

func clamp(n, ceiling int64) int64 { return min(max(n, 0), ceiling) }

func mulSaturating(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

func addSaturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
