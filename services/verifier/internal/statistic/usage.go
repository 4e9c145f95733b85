package statistic

import (
	"math"

	"svc.internal/services/verifier/internal/exact"
)

// Ending is how an answer says that it ended.
type Ending string

// The endings that are judged. Others count for nothing.
const (
	// Stop is the model's own end.
	Stop Ending = "stop"
	// Length is the bound of the request.
	Length Ending = "length"
)

// MaxTokens bounds the counts of tokens that are compared.
const MaxTokens = 1 << 24

// Usage is what an engine claims of an answer, and our count of the same.
type Usage struct {
	ClaimedPrompt, Prompt int64
	ClaimedOutput, Output int64
	// Asked is the request's max_tokens.
	Asked  int64
	Ending Ending
	// Scored reports whether Best and End are known: the reference's largest
	// log-probability behind the answer, and that of the end token there.
	Scored    bool
	Best, End exact.Logprob
}

// Judge is the statistic of family U. Its parts are |claimed prompt − ours| in tokens,
// |claimed output ÷ ours − 1|, and the ending: at Stop how far the end token lies behind
// the best token, in nats; at Length the percentage of the asked tokens that is missing.
// A probe whose prompt is an earlier one that returns does not feed U by this statistic, but
// by Replayed alone (package evidence says why). The two endings share a part because a
// calibration has three parts at most, and their scales are alike: honest ends lie within
// few nats, honest lengths within few percent.
func (u Usage) Judge() (Parts, Void) {
	switch {
	case min(u.ClaimedPrompt, u.ClaimedOutput) < 0:
		return nil, Malformed
	case min(u.Prompt, u.Output, u.Asked) < 0, max(u.Prompt, u.Asked) > MaxTokens:
		return nil, NoReference
	case u.Output > MaxTokens:
		return nil, TooLarge
	case u.Prompt == 0, u.Output == 0, u.Asked == 0:
		return nil, TooShort
	}
	ending, v := u.ending()
	if v != None {
		return nil, v
	}
	// A claim beyond the bound is as absurd as the bound.
	prompt := min(u.ClaimedPrompt, MaxTokens) - u.Prompt
	output := float64(min(u.ClaimedOutput, MaxTokens))/float64(u.Output) - 1
	return Parts{float64(max(prompt, -prompt)), math.Abs(output), ending}, None
}

func (u Usage) ending() (float64, Void) {
	switch u.Ending {
	case Stop:
		if !u.Scored {
			return 0, None
		}
		if checkEntry(Entry{Logprob: u.Best}) != None || checkEntry(Entry{Logprob: u.End}) != None || u.End > u.Best {
			return 0, NoReference
		}
		return (u.Best - u.End).Nats(), None
	case Length:
		return float64(100*max(0, u.Asked-u.Output)) / float64(u.Asked), None
	}
	return 0, None
}

// The bounds of recall.
const (
	// MaxNeedles bounds the needles of a challenge.
	MaxNeedles = 16
	// NeedleDigits is the number of digits that a needle holds.
	NeedleDigits = 6
	// returnedTakes is what a returned needle takes off a stretch of missing ones.
	returnedTakes = 2
)

// Recall is the statistic of family D: the longest stretch of needles that the reference
// recalls and the provider's answer lacks, in the order of their places in the prompt, from
// either end. Within a stretch each needle that the provider returns takes two off. A lost
// part of the context loses all needles in it, where a model that overlooks needles here
// and there, as the reference does too, has short stretches. So a lost half shows beside
// honest hosts that overlook one of twenty, which a count of all missing needles hides.
//
// A needle is recalled where its digits stand in the answer, with no digit before or behind
// them.
func Recall(needles []string, reference, answer string) (Parts, Void) {
	switch {
	case len(needles) == 0, len(needles) > MaxNeedles, len(reference) > MaxAnswerBytes:
		return nil, NoReference
	case len(answer) > MaxAnswerBytes:
		return nil, TooLarge
	}
	for _, n := range needles {
		if len(n) != NeedleDigits || digits(n) != NeedleDigits {
			return nil, NoReference
		}
	}
	ours, theirs := Recalled(needles, reference), Recalled(needles, answer)
	recalled, stretch, longest := 0, 0, 0
	for i := range needles {
		switch {
		case !ours[i]:
			continue
		case theirs[i]:
			stretch = max(0, stretch-returnedTakes)
		default:
			stretch++
		}
		recalled++
		longest = max(longest, stretch)
	}
	if recalled == 0 {
		return nil, NoReference
	}
	return Parts{float64(longest)}, None
}

// Recalled reports for each needle whether the answer holds it. An answer longer than
// MaxAnswerBytes is read up to there.
func Recalled(needles []string, answer string) []bool {
	answer = answer[:min(len(answer), MaxAnswerBytes)]
	found := make([]bool, len(needles))
	for i := 0; i < len(answer); {
		n := digits(answer[i:])
		if n == NeedleDigits {
			for k, needle := range needles {
				found[k] = found[k] || needle == answer[i:i+n]
			}
		}
		i += max(n, 1)
	}
	return found
}

// digits returns how many decimal digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// The bounds of embeddings.
const (
	// MaxDimensions bounds the length of a vector.
	MaxDimensions = 16_384
	maxComponent  = 1e6
	minNorm       = 1e-12
)

// Embedding is 1 − cosine of two vectors. Vectors of different lengths are as far apart as
// vectors can be: 2.
func Embedding(reference, answer []float64) (Parts, Void) {
	switch {
	case len(reference) == 0, len(reference) > MaxDimensions, !vector(reference):
		return nil, NoReference
	case len(answer) == 0:
		return nil, TooShort
	case len(answer) > MaxDimensions:
		return nil, TooLarge
	case !vector(answer):
		return nil, Malformed
	case len(reference) != len(answer):
		return Parts{2}, None
	}
	norm := math.Sqrt(dot(reference, reference)) * math.Sqrt(dot(answer, answer))
	return Parts{min(2, max(0, 1-float64(dot(reference, answer)/norm)))}, None
}

// vector reports whether v has a direction and is made of numbers within bounds.
func vector(v []float64) bool {
	for _, x := range v {
		if math.IsNaN(x) || math.Abs(x) > maxComponent {
			return false
		}
	}
	return math.Sqrt(dot(v, v)) >= minNorm
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}
