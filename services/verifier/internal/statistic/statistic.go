// Package statistic computes what one observation says about a provider.
//
// An observation is a provider's answer to a challenge, scored by a reference: behind
// each prefix of the answer's tokens the reference states its log-probabilities ℓ_t. A
// function of this package turns that into parts, at most MaxParts numbers of which
// larger ones speak against the provider. Package calibration divides the parts by the
// largest parts of honest challenges and so decides whether the observation exceeds.
// Sampled answers are the exception: their likelihood ratios are evidence themselves.
//
// # Void observations
//
// An observation that proves nothing is void: every function returns a Void beside its
// parts, and a Void other than None says why the parts are missing. A void observation
// is never evidence for or against a provider.
//
// # Hostile input
//
// What a provider or a reference sends is bounded before any work: MaxBody bytes, then
// MaxAnswerTokens positions, MaxEntries entries each, MaxTokenBytes bytes a token and
// MaxAnswerBytes of text. Numbers that are no logarithms of probabilities make the
// observation void. Bytes that are no UTF-8 become U+FFFD, and entries that hold U+FFFD
// are not compared, because several tokens are written so.
//
// # Arithmetic
//
// Logarithms are integers in micro-nats (package exact), sums of them are integers, and
// every sum of float64 runs in the order of its input. Equal inputs therefore give equal
// bits on every machine.
package statistic

import (
	"strings"

	"svc.internal/services/verifier/internal/exact"
)

// The bounds of what is looked at.
const (
	// MaxBody bounds the bytes of a body with log-probabilities.
	MaxBody = 12 << 20
	// MaxAnswerTokens bounds the positions of an answer. Probes ask for some 1,000 tokens at
	// most, and another tokenizer may need several times as many.
	MaxAnswerTokens = 4096
	// JudgedTokens is how much of an answer is judged: calibrations ask for no more, and a
	// longer answer must not count for what none of them measured.
	JudgedTokens = 160
	// MaxAnswerBytes bounds the text of an answer that is scored.
	MaxAnswerBytes = 16 << 10
	// MaxTop is how many log-probabilities of a position count, which is the most that
	// engines are asked for.
	MaxTop = 20
	// MaxEntries bounds the entries that are read of a position.
	MaxEntries = 64
	// MaxTokenBytes bounds a token. The longest tokens of vocabularies are runs of 128
	// blanks.
	MaxTokenBytes = 512
	// MaxPromptPositions bounds the positions of a prompt: engines are asked for no
	// log-probabilities of longer prompts.
	MaxPromptPositions = 32_768 + MaxAnswerTokens
	// MaxParts is the largest number of parts of a statistic, for which calibrations have
	// a size (package calibration).
	MaxParts = 3
)

// cap2 is where a difference of two log-probabilities stops counting: 2 nats.
const cap2 = 2 * exact.Nats

// Void says why an observation proves nothing.
type Void string

// The reasons. None is the Void of an observation that counts.
const (
	None Void = ""
	// Failed is an answer that is an error or did not end.
	Failed Void = "failed"
	// OtherProvider is an answer of another provider than was asked.
	OtherProvider Void = "other_provider"
	// NoLogprobs is an answer without log-probabilities, or with fewer than were asked
	// for, from a provider that declares them.
	NoLogprobs Void = "no_logprobs"
	// TooShort is an answer of fewer than MinTokens tokens.
	TooShort Void = "too_short"
	// NotInformative is an answer in which too few positions leave a choice.
	NotInformative Void = "not_informative"
	// NotJoined is a list of tokens that does not join to the answer's text.
	NotJoined Void = "not_joined"
	// Blank is a whole answer that shows nothing.
	Blank Void = "blank"
	// Misaligned is an answer of which provider and reference see few tokens alike.
	Misaligned Void = "misaligned"
	// Malformed is input that no engine writes: NaN, positive logarithms, probabilities
	// that add up to more than 1, lists out of order, the same token twice.
	Malformed Void = "malformed"
	// TooLarge is input beyond the bounds of this package.
	TooLarge Void = "too_large"
	// TooSlow is an answer that was left because it took too long. It begins no watch,
	// because a machine may be slow for a day.
	TooSlow Void = "too_slow"
	// NoReference is an observation without a score, without enough peers, or with a score
	// or question of ours that cannot be used.
	NoReference Void = "no_reference"
)

// Provider reports whether the provider caused the void by what it sent: an answer without
// the log-probabilities that it declares, or one that no engine writes. Several in a day
// begin a watch (package ladder), because whoever is never judged is never caught.
func (v Void) Provider() bool {
	switch v {
	case NoLogprobs, NotJoined, Blank, Misaligned, Malformed, TooLarge:
		return true
	default:
		return false
	}
}

// ofReference returns the Void of what a reference sent. The provider did not cause it.
func ofReference(v Void) Void {
	if v.Provider() {
		return NoReference
	}
	return v
}

// Voids returns every reason.
func Voids() []Void {
	return []Void{
		Failed, OtherProvider, NoLogprobs, TooShort, NotInformative, NotJoined, Blank,
		Misaligned, Malformed, TooLarge, TooSlow, NoReference,
	}
}

// Parts are the numbers of a statistic in a fixed order, at most MaxParts.
type Parts []float64

// Entry is a token, as the bytes of its text, and its log-probability.
type Entry struct {
	Token   string
	Logprob exact.Logprob
}

// Position is one token of an answer. Own is the token. Top are the likeliest tokens of
// the position, the likeliest first and at most MaxTop; Own may be among them.
type Position struct {
	Own Entry
	Top []Entry
}

// best is the largest log-probability of the position.
func (p Position) best() exact.Logprob {
	if len(p.Top) == 0 {
		return p.Own.Logprob
	}
	return max(p.Own.Logprob, p.Top[0].Logprob)
}

// mass is the probability of Top.
func (p Position) mass() float64 {
	sum := 0.0
	for _, e := range p.Top {
		sum += e.Logprob.P()
	}
	return sum
}

// massSlack is how far above 1 the rounding of an engine may put a sum of probabilities.
const massSlack = 0.02

// Reply is what is known of an answer before its log-probabilities are read.
type Reply struct {
	// Complete reports whether the answer ended without an error.
	Complete bool
	// Asked and Answered name the provider that the challenge was for and the provider
	// that served it.
	Asked, Answered string
	// Text is the answer.
	Text string
	// WantLogprobs reports whether the provider declares log-probabilities and was asked
	// for them, and HasLogprobs whether the answer holds them.
	WantLogprobs, HasLogprobs bool
}

// Check returns why the answer proves nothing, or None.
func (r Reply) Check() Void {
	switch {
	case !r.Complete:
		return Failed
	case r.Asked != r.Answered:
		return OtherProvider
	case len(r.Text) > MaxAnswerBytes:
		return TooLarge
	case r.WantLogprobs && !r.HasLogprobs:
		return NoLogprobs
	}
	return None
}

// check returns why the positions cannot be used, or None.
func check(positions []Position) Void {
	if len(positions) == 0 {
		return TooShort
	}
	if len(positions) > MaxAnswerTokens {
		return TooLarge
	}
	bytes := 0
	for _, p := range positions {
		if bytes += len(p.Own.Token); bytes > MaxAnswerBytes {
			return TooLarge
		}
		if v := checkPosition(p); v != None {
			return v
		}
	}
	return None
}

func checkPosition(p Position) Void {
	if len(p.Top) > MaxTop {
		return TooLarge
	}
	if v := checkEntry(p.Own); v != None {
		return v
	}
	for i, e := range p.Top {
		if v := checkEntry(e); v != None {
			return v
		}
		if i > 0 && e.Logprob > p.Top[i-1].Logprob {
			return Malformed
		}
	}
	if p.mass() > 1+massSlack {
		return Malformed
	}
	return None
}

// distinct reports whether no token stands twice in the list. Vocabularies know texts that
// two tokens decode to, so a reference's list may hold one twice. A provider's list must
// not, because repeating a token would take the place of tokens that it hides.
func distinct(top []Entry) bool {
	for i, e := range top {
		if comparable(e) && find(top[:i], e.Token) >= 0 {
			return false
		}
	}
	return true
}

func checkEntry(e Entry) Void {
	switch {
	case len(e.Token) > MaxTokenBytes:
		return TooLarge
	case e.Logprob > 0, e.Logprob < exact.MinLogprob:
		return Malformed
	}
	return None
}

// comparable reports whether the entry's text names one token. Engines write U+FFFD, or
// nothing, for tokens that are parts of a character.
func comparable(e Entry) bool {
	return e.Token != "" && !strings.ContainsRune(e.Token, '\uFFFD')
}

// find returns the index of the first entry with the token, or −1.
func find(entries []Entry, token string) int {
	for i, e := range entries {
		if e.Token == token {
			return i
		}
	}
	return -1
}

// First returns what is judged of an answer: its first JudgedTokens.
func First[T any](positions []T) []T { return positions[:min(len(positions), JudgedTokens)] }
