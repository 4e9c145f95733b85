package flow

import (
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// How long an answer may take. What a provider needs for the tokens that are asked for, and
// no more, bounds what an answer of a byte a second holds up. It is so long that an answer
// that is slow, and that passes a benchmark, is never cut: the speed is a quarter of the
// slowest that passes, because up to MaxCapacity questions are asked at once, and the first
// part holds the longest silence that the platform bears.
const (
	firstTime = 2 * time.Minute
	// readingRate is how many tokens of a prompt are read in a second at least: half of what
	// gateways expect of an engine.
	readingRate = 250
	writingRate = battery.MinSpeed / 4
	// maxDrawn is what a hidden probe has beside. It is drawn, so that no provider can tell a
	// probe by when it is left.
	maxDrawn = time.Minute
)

// answerTime returns how long the answer to a plan may take.
func answerTime(plan probe.Plan) time.Duration {
	reading := time.Duration(plan.PromptTokens) * time.Second / readingRate
	writing := time.Duration(float64(plan.MaxTokens) / writingRate * float64(time.Second))
	return firstTime + reading + writing
}

// patience returns how long the answer is waited for.
func (p *passage) patience() time.Duration {
	plan, drawn := p.rec.Plan, time.Duration(0)
	if plan.Flow == probe.Hidden {
		drawn = time.Duration(dice.New(p.Secret, "patience", plan.ID[:]).Float64() * float64(maxDrawn))
	}
	return min(answerTime(plan)+drawn, p.cfg.AnswerTimeout)
}

// How many bytes an answer may have. They are a few times what engines write, so that no
// honest answer is cut.
const (
	// spareAnswer is for what stands once in an answer, and for digests of files.
	spareAnswer = 64 << 10
	// tokenBytes is an event of a stream with a token, logprobBytes one log-probability with
	// its token in text and in bytes, and numberBytes a number of a vector.
	tokenBytes   = 1 << 10
	logprobBytes = 256
	numberBytes  = 32
	// maxAnswer bounds every answer of a provider.
	maxAnswer = 4 << 20
)

// answerBytes returns how many bytes of the answer to a plan are read and kept.
func answerBytes(plan probe.Plan) int {
	tokens := plan.MaxTokens
	if plan.Unbounded {
		tokens = statistic.MaxAnswerTokens
	}
	each := tokenBytes
	if plan.TopLogprobs > 0 {
		each += (1 + plan.TopLogprobs) * logprobBytes
	}
	n := spareAnswer + tokens*each
	if plan.Kind == probe.Embedding {
		n = spareAnswer + statistic.MaxDimensions*numberBytes
	}
	return min(n, maxAnswer)
}
