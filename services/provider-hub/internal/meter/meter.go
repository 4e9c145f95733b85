// Package meter turns what was observed of one served attempt into what is charged and
// paid for it. It is the published table of stream endings, as one pure function.
//
// Counts are in the unit that the kind of request is priced in: tokens, unless Kind says
// otherwise. Whatever an engine claims, a bill is never negative, and never above what
// the hub itself can be certain of. A completion token is at least one delivered byte,
// but for a few special tokens per choice. No choice is longer than its bound. An image
// counts when it was delivered and asked for. A picture or a sound of chat has no tokens:
// an answer of them alone costs its prompt and at least one token.
package meter

import "math"

// Kind is what a request asks for, which decides what is counted.
type Kind uint8

// The kinds. The zero value is Chat.
const (
	// Chat counts tokens of the prompt and of the completion.
	Chat Kind = iota
	// Embeddings counts tokens of the prompt only.
	Embeddings
	// Images counts images, as completion.
	Images
	// Transcriptions counts milliseconds of audio, as prompt. The gateway has measured
	// them, so the estimate is exact.
	Transcriptions

	kinds // one past the last
)

// Kinds returns every kind.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds)
	for k := Chat; k < kinds; k++ {
		all = append(all, k)
	}
	return all
}

// String names the kind for logs. It is also the capability by which an agent declares
// the kind: requests of a kind other than chat go only to agents that declare it.
func (k Kind) String() string {
	switch k {
	case Chat:
		return "chat"
	case Embeddings:
		return "embeddings"
	case Images:
		return "images"
	case Transcriptions:
		return "transcriptions"
	default:
		return "unknown"
	}
}

// Ending is how an attempt ended once content had been served.
type Ending uint8

// The endings.
const (
	// Completed is an answer that the engine ended properly.
	Completed Ending = iota + 1
	// ClientGone is a consumer who hung up.
	ClientGone
	// ProviderLost is a provider's connection that was lost or fell silent.
	ProviderLost
	// Truncated is a clean end without a finish reason or an end mark.
	Truncated
	// EngineError is an error, or something unreadable, inside a stream.
	EngineError
	// WallLimit is an answer that ran out of its total time.
	WallLimit
	// PlatformLost is an attempt whose end the hub itself did not see.
	PlatformLost

	endings // one past the last
)

// Endings returns every ending.
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
	// Valid: the counts may be billed.
	Valid
	// Absurd: the counts are malformed, or above what the hub can be certain of.
	Absurd
)

// Claim is the engine's usage report. The counts mean something only when the state is
// Valid.
type Claim struct {
	State      ClaimState
	Prompt     int64
	Completion int64
	// Cached are the prompt tokens that the engine says it read from its cache. They bill
	// nothing, and lower what a vendor is owed.
	Cached int64
}

// How far a claim may exceed what the hub itself knows.
const (
	// A claim is believed up to claimFactor halves of the recount and claimSlack tokens,
	// because random letters have 2.3 tokens for one of the recount.
	claimFactor = 5
	claimSlack  = 8
	// cutSlack is how many tokens a choice may have beyond its bound before an answer is
	// cut, because engines differ in what they count as its end.
	cutSlack = 16
	// templateTokens is how many tokens a chat template may add to any prompt.
	templateTokens = 24

	// A claimed prompt may exceed its estimate, which knows neither the tokenizer nor the
	// template.
	promptFactor = 4
	promptSlack  = 512
	// tokensPerChoice is how many special tokens a choice may cost without a delivered
	// byte.
	tokensPerChoice = 32
)

// Served is what is known of an attempt at its end.
type Served struct {
	Kind   Kind
	Ending Ending
	// EstimatedPrompt is the gateway's estimate, and HeldPrompt the prompt that the
	// consumer's hold covers; 0 is not known.
	EstimatedPrompt int64
	HeldPrompt      int64
	// MaxOutput bounds the answer of one choice. Choices is how many choices there are;
	// less than one counts as one. Of images, Choices is how many were asked for.
	MaxOutput int64
	Choices   int64
	// Recount is the hub's own count of the relayed answer. DeliveredBytes is its length:
	// text decoded, pictures and sound as they are written.
	Recount        int64
	DeliveredBytes int64
	Claim          Claim
	// HiddenReasoning reports that the model bills for thoughts that it does not show, so
	// that its text does not bound its claims.
	HiddenReasoning bool
	// StopAsked reports that the request named texts that end the answer and that the
	// engine says it ended so. Then an answer may be complete and empty.
	StopAsked bool
	// ContentBlamed reports that the engine blames an error on the content.
	ContentBlamed bool
}

// Bill is what is charged and paid for.
type Bill struct {
	Prompt     int64
	Completion int64
	// Claim is the state of the claim after the bounds were applied.
	Claim ClaimState
}

// Charge applies the table:
//
//	kind            ending                                            prompt             completion
//	Chat            Completed, claim valid                            claim              claim
//	Chat            Completed, claim absent, absurd or an empty zero  estimate           recount
//	Chat            Completed, delivered without text or a claim      estimate           1
//	Chat            Completed, nothing delivered                      0                  0
//	Chat            the same, ended by the request's own stop, claim > 0  claim          1
//	Chat            ClientGone, WallLimit                             claim or estimate  the smaller of recount and valid claim
//	Chat            ClientGone, nothing delivered                     estimate           0
//	Chat            EngineError, from half of the bound on, the content blamed  estimate  recount
//	Chat            ProviderLost, Truncated, EngineError, PlatformLost  0                recount
//	Embeddings      Completed, ClientGone, WallLimit                  claim or estimate  0
//	Embeddings      ClientGone, nothing delivered                     estimate           0
//	Embeddings      any other                                         0                  0
//	Images          any                                               0                  the smaller of asked and delivered
//	Transcriptions  Completed, ClientGone, WallLimit                  estimate           0
//	Transcriptions  any other                                         0                  0
//
// No prompt is billed beyond what is held for it, because a provider who overstates
// prompts would otherwise be paid with money that nobody has put up. An answer without a
// byte is worth nothing, because answering nothing would otherwise be a trade. Silence
// is a transcription, too, because the audio was heard.
//
// Every completion of Chat is bounded by choices × max output. A claim above the
// delivered bytes and a slack of 32 for each choice is absurd. A claim above 2.5 × the
// recount and 8 is billed up to that only, unless the model reasons in secret. Engines'
// claims of images and audio are in other units and are ignored.
func Charge(s Served) Bill {
	switch s.Kind {
	case Chat:
		return s.chat()
	case Embeddings:
		return s.embeddings()
	case Images:
		return s.images()
	case Transcriptions:
		return s.transcription()
	default:
		return Bill{Claim: Absent}
	}
}

func (s Served) chat() Bill {
	ceiling := s.ceiling()
	state := s.judge(ceiling)
	bill := Bill{Claim: state, Completion: clamp(s.Recount, ceiling)}
	switch s.Ending {
	case Completed:
		if s.DeliveredBytes <= 0 {
			bill.Completion = 0
			if s.StopAsked && state == Valid && s.Claim.Completion > 0 {
				bill.Prompt, bill.Completion = s.prompt(), min(1, ceiling)
			}
			return bill
		}
		bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
		if s.trusted(state) {
			bill.Prompt = s.prompt()
			bill.Completion = clamp(min(s.Claim.Completion, s.credible()), ceiling)
		}
		bill.Completion = max(bill.Completion, min(1, ceiling)) // a picture has no text
	case ClientGone, WallLimit:
		bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
		if s.trusted(state) && !s.leftWithNothing() {
			bill.Prompt = s.prompt()
			bill.Completion = min(bill.Completion, s.Claim.Completion)
		}
	case EngineError:
		// A consumer whose request makes an engine fail late would otherwise have the
		// prompt for nothing.
		if s.ContentBlamed && s.Recount > 0 && bill.Completion >= s.bound()/2 {
			bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
		}
	case ProviderLost, Truncated, PlatformLost:
		// Only delivered output is billed, because the consumer got no whole answer and
		// does not pay for the prompt.
	default:
		bill.Completion = 0
	}
	return bill
}

// embeddings bills the prompt. A claimed completion means nothing, because embeddings
// have none.
func (s Served) embeddings() Bill {
	s.Claim.Completion = 0
	bill := Bill{Claim: s.judge(math.MaxInt64)}
	if !s.whole() || s.DeliveredBytes <= 0 && s.Ending != ClientGone {
		return bill
	}
	bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
	if bill.Claim == Valid && !s.leftWithNothing() {
		bill.Prompt = s.prompt()
	}
	return bill
}

func (s Served) images() Bill {
	bill := Bill{Claim: Absent}
	if s.Ending >= Completed && s.Ending < endings {
		asked := mulSaturating(max(s.Choices, 1), max(s.MaxOutput, 0))
		bill.Completion = clamp(min(s.Recount, s.DeliveredBytes), asked)
	}
	return bill
}

func (s Served) transcription() Bill {
	bill := Bill{Claim: Absent}
	if s.whole() {
		bill.Prompt = clamp(s.EstimatedPrompt, math.MaxInt64)
	}
	return bill
}

// whole reports whether the ending is billed with the prompt.
func (s Served) whole() bool {
	switch s.Ending {
	case Completed, ClientGone, WallLimit:
		return true
	default:
		return false
	}
}

// bound is how many tokens all choices together may have.
func (s Served) bound() int64 { return mulSaturating(max(s.Choices, 1), max(s.MaxOutput, 0)) }

// ceiling is the most completion tokens that the hub can be certain of.
func (s Served) ceiling() int64 {
	if s.HiddenReasoning {
		return s.bound()
	}
	return min(s.bound(),
		addSaturating(max(s.DeliveredBytes, 0), mulSaturating(max(s.Choices, 1), tokensPerChoice)))
}

// credible is the most completion tokens that a claim is believed for.
func (s Served) credible() int64 {
	if s.HiddenReasoning {
		return math.MaxInt64
	}
	return addSaturating(mulSaturating(max(s.Recount, 0), claimFactor)/2, claimSlack)
}

// PlausiblePrompt is how many tokens an honest engine may make of the prompt, on average
// over prompts: the estimate, a quarter more for scripts and templates that it
// underestimates, and the tokens that a template has in any case. With media it is the
// hold.
func (s Served) PlausiblePrompt() int64 {
	if s.Media() {
		return s.HeldPrompt
	}
	estimate := max(s.EstimatedPrompt, 0)
	return addSaturating(estimate, addSaturating(estimate/4, templateTokens))
}

// Media reports whether the hold is far above the estimate. Then the prompt has pictures,
// sound, or members that nobody here knows, of which only the hold is certain.
func (s Served) Media() bool {
	return s.HeldPrompt > addSaturating(mulSaturating(max(s.EstimatedPrompt, 0), promptFactor), promptSlack)
}

// Mark is how many certain tokens an answer with this bound may have before it is cut.
func Mark(choices, maxOutput int64) int64 {
	choices = max(choices, 1)
	return addSaturating(mulSaturating(choices, max(maxOutput, 0)), choices*cutSlack)
}

// judge compares a claim with what the hub can be certain of.
func (s Served) judge(ceiling int64) ClaimState {
	if s.Claim.State != Valid {
		return s.Claim.State
	}
	estimate := max(s.EstimatedPrompt, 0)
	// A claim is also believed up to the hold, because pictures may cost far more than is
	// usual, and an honest claim above the estimate is no lie.
	promptBound := max(mulSaturating(estimate, promptFactor), addSaturating(estimate, promptSlack), s.HeldPrompt)
	switch {
	case s.Claim.Prompt < 0 || s.Claim.Completion < 0,
		s.Claim.Prompt > promptBound,
		s.Claim.Completion > ceiling:
		return Absurd
	}
	return Valid
}

// leftWithNothing reports whether the consumer left before anything was delivered. Then
// nobody's claim of a prompt is believed, because nobody has seen an answer to it.
func (s Served) leftWithNothing() bool { return s.Ending == ClientGone && s.DeliveredBytes <= 0 }

// trusted is false for an explicit zero beside delivered text: the answer is not free,
// and the engine is not to be believed.
func (s Served) trusted(state ClaimState) bool {
	return state == Valid && (s.Claim.Completion > 0 || s.Recount <= 0)
}

// prompt is the claimed prompt, at least one token.
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
