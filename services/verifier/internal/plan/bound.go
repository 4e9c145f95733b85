package plan

import (
	"math"
	"math/rand/v2"

	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/schedule"
)

// bounds are the bounds of answers that consumers ask for, with how often; 0 is none at all.
// A bound of 48 to 160 tokens alone would betray every probe: of longer answers the first
// part is judged (statistic.JudgedTokens).
var bounds = []struct{ tokens, often int }{
	{0, 32}, {50, 2}, {64, 2}, {100, 6}, {128, 5}, {150, 4}, {200, 4}, {256, 8}, {300, 3}, {400, 2}, {500, 6},
	{512, 7}, {800, 2}, {1_000, 6}, {1_024, 7},
}

// expected is what an answer without a bound is expected to stay within, and leastUnbounded
// how much room there must be for one.
const (
	expected       = probe.MaxAnswerTokens
	leastUnbounded = 800
	// answersHold is for which answer every chat has room: what is judged. A model whose
	// answers are shorter by the catalog has room for its longest.
	answersHold = 160
	// leastAnswer is the shortest bound of a chat: a shorter answer proves nothing
	// (statistic.MinTokens).
	leastAnswer = 24
	// maxChat bounds a chat's prompt and answer together in tokens: references state more
	// than the chosen token's log-probability for 4,096 tokens.
	maxChat = 4_096
	// templateTokens is room for what templates of chats add, and spareBytes for the sentence
	// by which a text may be longer than asked, and a canary.
	templateTokens = 64
	spareBytes     = 400
)

// bound sets the bound of a chat's answer, within what the window, the catalog and the
// offer's budget leave beside the prompt.
func (t *turn) bound(d *rand.Rand, p *probe.Plan) {
	longest := t.longestAnswer(*p)
	total, room := 0, leastUnbounded
	if t.MaxOutput > 0 {
		room = min(room, t.MaxOutput) // which the gateway writes where a request names no bound
	}
	possible := func(tokens int) bool {
		return tokens == 0 && longest >= room || tokens > 0 && tokens <= longest
	}
	for _, b := range bounds {
		if possible(b.tokens) {
			total += b.often
		}
	}
	at := d.IntN(total)
	for _, b := range bounds {
		if !possible(b.tokens) {
			continue
		}
		if at -= b.often; at < 0 {
			p.MaxTokens, p.Unbounded = b.tokens, b.tokens == 0
			break
		}
	}
	if p.Unbounded {
		p.MaxTokens = min(expected, longest)
	}
}

// longestAnswer returns how long the answer to a chat may be. It is never below answersHold,
// for which every chat has room, but where the catalog's bound is: gateways refuse a request
// that asks for more. A probe costs at most its part of a day's allowance, so that long
// answers take none of the day's probes.
func (t *turn) longestAnswer(p probe.Plan) int {
	if t.MaxOutput == 0 {
		return answersHold
	}
	room := min(t.EffectiveTokens, maxChat) - p.PromptTokens - Spare(t.bytesPerToken())
	longest := min(room, t.MaxOutput, probe.MaxAnswerTokens)
	if t.Rates.Output > 0 {
		part := float64(t.allowance()/schedule.Usual)*picoPerNano - float64(t.Rates.Input)*float64(p.PromptTokens)
		longest = min(longest, int(max(0, part)/float64(t.Rates.Output)))
	}
	return min(max(answersHold, longest), t.MaxOutput)
}

// answers reports whether the catalog allows an answer of so many tokens.
func (t *turn) answers(tokens int) bool { return t.MaxOutput == 0 || tokens <= t.MaxOutput }

// Spare returns how many tokens must be free beside a prompt and its answer.
func Spare(bytesPerToken float64) int {
	return templateTokens + int(math.Ceil(spareBytes/bytesPerToken))
}
