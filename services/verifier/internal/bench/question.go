package bench

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
)

const (
	// firstAnswers is how many times to first token are measured at 4,096 tokens.
	firstAnswers = 5
	// firstAt is the prompt of the rule, firstSmall a short one.
	firstAt    = 4_096
	firstSmall = 256
	// firstTokens and togetherTokens bound the answers that are not timed as a whole.
	firstTokens    = 16
	togetherTokens = 64
	// quickTokens and quickQuestions are those of a development's run.
	quickTokens    = 32
	quickQuestions = 3
	// uncalibrated is how many questions are asked where nobody can judge them: they count
	// as answered or not.
	uncalibrated = 8
	// questionTokens bounds the answer of a question of B or C.
	questionTokens = 128
	// taskBytes is about how long the shortest prompts are.
	taskBytes = 240
)

// question is one question of a stage.
type question struct {
	// name is unique within the run.
	name string
	plan probe.Plan
	// wave groups the questions that are asked at once; waves follow each other.
	wave int
}

// Next returns the questions that are to be asked now, all at once. It returns none before
// Due, and the same ones until they are reported.
func (r Run) Next(now time.Time) []probe.Plan {
	if now.Before(r.StageAt) {
		return nil
	}
	open := r.open()
	var next []probe.Plan
	for _, q := range open {
		if q.wave == open[0].wave {
			next = append(next, q.plan)
		}
	}
	return next
}

// open returns the questions of the stage that have no report.
func (r Run) open() []question {
	var open []question
	for _, q := range r.questions() {
		if _, there := r.report(q.plan.ID); !there {
			open = append(open, q)
		}
	}
	return open
}

// pending returns an open question by its id.
func (r Run) pending(id probe.ID) (question, bool) {
	for _, q := range r.open() {
		if q.plan.ID == id {
			return q, true
		}
	}
	return question{}, false
}

// questions returns those of the stage, in their order, the answered ones included.
func (r Run) questions() []question {
	switch r.Stage {
	case Alone:
		return r.alone(r.Stage)
	case FirstTokens:
		return r.first(r.Stage)
	case Repeat, SecondRepeat:
		return append(r.alone(r.Stage), r.first(r.Stage)...)
	case Together:
		return r.together()
	case Questions, Others:
		return r.judged(r.Stage)
	case Recalls:
		return r.recalls()
	case Files:
		if r.Setup.Fingerprint && !r.Setup.Quick {
			q := r.question(Files, 0, probe.Fingerprint, 1, 0)
			return []question{q}
		}
	case Begins, Judging, Done:
	}
	return nil
}

// question returns a question that moves the run alone.
func (r Run) question(s Stage, i int, k probe.Kind, tokens, answer int) question {
	name := string(s) + " " + strconv.Itoa(i)
	return question{name: name, wave: i, plan: probe.Plan{
		ID: r.id(name), Offer: r.Setup.Offer, Kind: k, Flow: probe.Visible, Purpose: probe.Benchmark, Run: r.ID,
		DueAt: r.StageAt, Greedy: k != probe.Embedding && k != probe.Fingerprint,
		PromptTokens: tokens, MaxTokens: answer, BytesPerToken: r.bytesPerToken(), Stratum: r.Setup.Stratum,
	}}
}

// chat returns a question whose answer is timed. A model that makes vectors is asked for
// one of the same prompt.
func (r Run) chat(s Stage, i, tokens, answer int) question {
	if r.Setup.Embeddings {
		return r.question(s, i, probe.Embedding, tokens, 0)
	}
	q := r.question(s, i, probe.Greedy, tokens, min(answer, max(r.Setup.StatedTokens/2, 1)))
	q.plan.Streamed = true
	return q
}

// short returns the length of a short prompt.
func (r Run) short() int {
	return max(1, min(max(firstSmall/4, int(taskBytes/r.bytesPerToken())), r.Setup.StatedTokens/2))
}

// bytesPerToken returns the measured ratio, or one that makes no prompt too long.
func (r Run) bytesPerToken() float64 { return plan.Ratio(r.Setup.BytesPerToken) }

func (r Run) alone(s Stage) []question {
	n, tokens := battery.SpeedAnswers, battery.SpeedTokens
	if r.Setup.Quick {
		n, tokens = 1, quickTokens
	}
	all := make([]question, n)
	for i := range all {
		all[i] = r.chat(s, i, r.short(), tokens)
	}
	return all
}

// first returns those for the time to first token. The ones at 4,096 tokens count, and are
// repeated where the run was slow; a model of a smaller window has only the short one.
func (r Run) first(s Stage) []question {
	const base = 100 // the numbers behind those of alone
	var all []question
	if s == FirstTokens && !r.Setup.Embeddings {
		all = append(all, r.chat(s, base, min(firstSmall, r.short()*4), firstTokens))
	}
	if r.small() || r.Setup.Quick {
		return all
	}
	for i := range firstAnswers {
		all = append(all, r.chat(s, base+1+i, firstAt, firstTokens))
	}
	if quarter := r.Setup.StatedTokens / 4; s == FirstTokens && quarter > firstAt {
		all = append(all, r.chat(s, base+1+firstAnswers, quarter, firstTokens))
	}
	return all
}

// small reports whether a prompt of 4,096 tokens does not fit.
func (r Run) small() bool {
	return r.Setup.Embeddings || r.Setup.StatedTokens < firstAt+firstTokens+plan.Spare(r.bytesPerToken())
}

// together asks 2, 4, 8 … at once, up to the capacity.
func (r Run) together() []question {
	var all []question
	for size := 2; !r.Setup.Quick && r.Setup.Capacity > 1; size *= 2 {
		size = min(size, r.Setup.Capacity)
		for range size {
			q := r.chat(Together, len(all), r.short(), togetherTokens)
			q.wave = size
			all = append(all, q)
		}
		if size == r.Setup.Capacity {
			break
		}
	}
	return all
}

// judged returns the questions of B and C: as many as are wanted, and one more for each
// whose observation was void, within a bound.
func (r Run) judged(s Stage) []question {
	want, limit := battery.Questions, maxQuestions
	switch {
	case r.Setup.Quick:
		want, limit = quickQuestions, quickQuestions
	case !r.Setup.Calibrated:
		want, limit = uncalibrated, uncalibrated
	}
	var all []question
	for i := 0; want > 0 && i < limit; i++ {
		q := r.about(s, i)
		if report, there := r.report(q.plan.ID); !there || report.Judged {
			want--
		}
		all = append(all, q)
	}
	return all
}

// about returns the i-th question of B and C, which take turns where C is declared. Where
// nobody can judge the answer, it feeds nothing.
func (r Run) about(s Stage, i int) question {
	q := r.honesty(s, i)
	if r.Setup.Unjudged {
		q.plan.Feeds = evidence.NoFamily
	}
	return q
}

func (r Run) honesty(s Stage, i int) question {
	if r.Setup.Embeddings {
		q := r.question(s, i, probe.Embedding, r.short()*2, 0)
		q.plan.Feeds, q.wave = evidence.Greedy, i/r.Setup.Capacity
		return q
	}
	q := r.question(s, i, probe.Greedy, 0, questionTokens)
	q.plan.Feeds = evidence.Greedy
	if r.Setup.Logprobs && i%2 == 1 {
		q.plan.Kind, q.plan.Feeds, q.plan.TopLogprobs = probe.Logprobs, evidence.Logprobs, 5
	}
	short := r.short()
	room := max(1, min(3*short, r.Setup.StatedTokens-questionTokens-plan.Spare(r.bytesPerToken())-short))
	q.plan.PromptTokens = short + r.dice(q.name).IntN(room)
	q.wave = i / min(r.Setup.Capacity, 4)
	return q
}

// recalls returns one at half of the window and one at the whole, and a second one at the
// whole where the first lost its oldest needles. While nobody knows how long our tokens are,
// no prompt is known to fill a window, and none is asked.
func (r Run) recalls() []question {
	possible := !r.Setup.Embeddings && plan.Recallable(r.Setup.StatedTokens, r.bytesPerToken(), plan.Needles)
	if r.Setup.Quick || r.Setup.BytesPerToken == 0 || !possible {
		return nil
	}
	all := []question{r.recall(0, .5), r.recall(1, nearFull)}
	if last, there := r.report(all[1].plan.ID); there && r.lost(last) {
		all = append(all, r.recall(2, nearFull))
	}
	return all
}

// lost reports whether a recall of the whole window did not reach 95% of it.
func (r Run) lost(p Report) bool {
	short := r.Setup.StatedTokens / 20
	return !p.Unknown && r.recall(1, nearFull).plan.PromptTokens-p.Oldest > short
}

// nearFull is the share of the stated window that a recall of the whole asks for.
const nearFull = .98

func (r Run) recall(i int, share float64) question {
	answer := plan.RecallAnswer(plan.Needles, r.bytesPerToken())
	q := r.question(Recalls, i, probe.Recall, 1, answer)
	q.plan.Feeds = evidence.NoFamily
	tokens := min(int(share*float64(r.Setup.StatedTokens)), r.Setup.StatedTokens-answer-plan.Spare(r.bytesPerToken()))
	plan.Place(r.dice(q.name), &q.plan, tokens, plan.Needles)
	return q
}

// id returns the id of a question by its name: a UUID of version 7 of the run's beginning.
// The prompt follows from it and from the verifier's secret, so that a provider who knows
// the id of a run cannot foresee its questions.
func (r Run) id(name string) probe.ID {
	sum := r.sum("id", name)
	var id probe.ID
	copy(id[:6], r.ID[:6])
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (r Run) sum(purpose, name string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "svc bench v1 %s %x %s", purpose, r.ID[:], name))
}

func (r Run) dice(name string) *rand.Rand {
	return rand.New(rand.NewChaCha8(r.sum("dice", name))) //nolint:gosec // sizes and places, no secrets
}
