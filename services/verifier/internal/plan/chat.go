package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
)

const (
	// taskBytes is about how long a task without any text is.
	taskBytes = 240
	// topLogprobs is how many log-probabilities are asked for.
	topLogprobs = 5
	// logprobsFirst, seedEvery, hangUpEvery and repeatEvery are how many chats there are for
	// each that tries log-probabilities first, has a seed, hangs up, or returns.
	logprobsFirst = 12
	seedEvery     = 8
	hangUpEvery   = 64
	repeatEvery   = 20
	// minRepeat and maxRepeat are when a prompt returns.
	minRepeat = 6 * time.Hour
	maxRepeat = 24 * time.Hour
)

// answers are the bounds of visible chats, of 48 to 160 tokens: what is judged of an answer.
var answers = []int{48, 50, 60, 64, 80, 90, 96, 100, 100, 120, 128, 128, 150, 160}

// chat plans a chat of a shape that consumers use, half of them at temperature 0. Where
// no shape of the drawn temperature can be taken, one of the other is, if it has room.
func (t *turn) chat(d *rand.Rand, p probe.Plan) bool {
	if !t.answers(leastAnswer) {
		return false
	}
	greedy := d.IntN(2) == 0
	first := t.Logprobs && d.IntN(logprobsFirst) == 0
	var shape cover.Shape
	err := cover.ErrNoCover
	if first {
		shape, err = t.draw(d, false, func(s cover.Shape) bool { return s.Greedy == greedy && s.Logprobs })
	}
	if err != nil {
		shape, err = t.draw(d, t.owed(), func(s cover.Shape) bool { return s.Greedy == greedy })
	}
	if err != nil {
		shape, err = t.draw(d, false, func(s cover.Shape) bool { return s.Greedy != greedy })
	}
	if err != nil {
		return false
	}
	p.Greedy, p.Streamed = shape.Greedy, shape.Streamed
	p.PromptTokens = lengthIn(d, shape.Length, t.longestChat())
	t.bound(d, &p)
	t.decide(d, &p, shape.Logprobs)
	if !t.add(p, offerAndFleet) {
		return false
	}
	t.past.Arrivals++
	if p.Kind == probe.Sampled && d.IntN(repeatEvery) == 0 && len(t.past.Waiting) < maxWaiting {
		t.wait(d, p)
	}
	return true
}

// draw draws a shape of the chats that the offer can be asked.
func (t *turn) draw(d *rand.Rand, owed bool, fits func(cover.Shape) bool) (cover.Shape, error) {
	shortest, longest := cover.LengthOf(int(taskBytes/t.bytesPerToken())), cover.LengthOf(t.longestChat())
	return t.fleet.Week.Draw(func(s cover.Shape) bool {
		return !s.Tools && (!s.Logprobs || t.Logprobs) && s.Length >= min(shortest, longest) && s.Length <= longest &&
			fits(s)
	}, owed, t.fleet.Prior, d.Float64())
}

// longestChat returns how many tokens the prompt of a chat may have.
func (t *turn) longestChat() int {
	window := t.EffectiveTokens
	if !t.Active {
		window = t.StatedTokens
	}
	return max(1, min(window, maxChat)-answersHold-Spare(t.bytesPerToken()))
}

// lengthIn draws a number of tokens with so many binary digits, evenly in the logarithm.
func lengthIn(d *rand.Rand, digits uint8, longest int) int {
	if digits == 0 {
		return 1
	}
	low := float64(int64(1) << (digits - 1))
	n := int(low * math.Exp2(d.Float64()))
	return max(1, min(n, int(2*low)-1, longest))
}

// decide sets the kind of a chat and what it weighs.
func (t *turn) decide(d *rand.Rand, p *probe.Plan, logprobs bool) {
	switch {
	case logprobs:
		p.Kind, p.TopLogprobs = probe.Logprobs, topLogprobs
	case p.Greedy:
		p.Kind = probe.Greedy
	default:
		p.Kind = probe.Sampled
	}
	if !p.Greedy {
		p.Alternatives = t.alternatives(t.stratum.Class)
	}
	if p.Greedy && d.IntN(seedEvery) == 0 {
		seed := int64(d.IntN(100_000))
		p.Seed = &seed
	}
	if p.Streamed && d.IntN(hangUpEvery) == 0 {
		p.HangUp = 4 + d.IntN(28)
	}
}

// wait lets a sampled prompt return.
func (t *turn) wait(d *rand.Rand, p probe.Plan) {
	after := p.DueAt.Add(minRepeat + time.Duration(d.Int64N(int64(maxRepeat-minRepeat))))
	t.past.Waiting = append(t.past.Waiting, Repeat{
		ID: p.ID, After: after, Streamed: p.Streamed, PromptTokens: p.PromptTokens, MaxTokens: p.MaxTokens,
		Unbounded: p.Unbounded, BytesPerToken: p.BytesPerToken,
	})
	slices.SortStableFunc(t.past.Waiting, func(a, b Repeat) int { return a.After.Compare(b.After) })
}

// replay plans the return of an earlier prompt, if one is due and hides.
func (t *turn) replay(p probe.Plan) bool {
	if len(t.past.Waiting) == 0 || p.DueAt.Before(t.past.Waiting[0].After) {
		return false
	}
	r := t.past.Waiting[0]
	if !t.answers(r.MaxTokens) { // the catalog allowed more when it was planned
		t.past.Waiting = t.past.Waiting[1:]
		return false
	}
	p.Kind, p.Repeats, p.Streamed = probe.Replay, r.ID, r.Streamed
	p.PromptTokens, p.MaxTokens, p.BytesPerToken = r.PromptTokens, r.MaxTokens, r.BytesPerToken
	p.Unbounded = r.Unbounded
	if !t.covered(p) || !t.add(p, offerAndFleet) {
		return false
	}
	t.past.Arrivals++
	t.past.Waiting = t.past.Waiting[1:]
	return true
}

// embedding plans an embedding of a chat's length.
func (t *turn) embedding(d *rand.Rand, p probe.Plan) {
	p.Kind = probe.Embedding
	p.PromptTokens = min(48+d.IntN(400), t.longestChat())
	if t.owed() || t.fleet.Week.Room(shapeOf(p)) > 0 {
		if t.add(p, offerAndFleet) {
			t.past.Arrivals++
		}
	}
}

// visible plans a chat that the provider can tell from requests. It feeds V by B or C,
// which is chosen here.
func (t *turn) visible(d *rand.Rand, p probe.Plan) {
	p.Flow, p.Greedy, p.Feeds = probe.Visible, true, evidence.Greedy
	p.PromptTokens, p.MaxTokens = min(48+d.IntN(500), t.longestChat()), answers[d.IntN(len(answers))]
	logprobs := t.Logprobs && d.IntN(2) == 0
	if logprobs {
		p.Feeds = evidence.Logprobs
	}
	t.decide(d, &p, logprobs)
	if t.Embeddings {
		p.Kind, p.Feeds, p.Greedy, p.Seed, p.TopLogprobs, p.MaxTokens = probe.Embedding, evidence.Greedy, false, nil, 0, 0
	}
	if t.add(p, offerAndFleet) {
		t.past.Arrivals++
	}
}
