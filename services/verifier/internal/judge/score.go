package judge

import (
	"bytes"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

// score is what a reference says of the answer.
type score struct {
	positions []statistic.Position
	void      statistic.Void
	// prompt is the tokens of the prompt by the reference's count, 0 if it states none.
	prompt int64
	// best and end are its log-probabilities behind the answer, if ended.
	best, end exact.Logprob
	ended     bool
}

// ends are the texts of tokens that end an answer, as engines show them.
var ends = []string{
	"<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<|end|>", "<end_of_turn>", "<eos>",
	"<|return|>", "<｜end▁of▁sentence｜>", "<|eom_id|>", "[EOS]", "<|END_OF_TURN_TOKEN|>",
}

// readScore reads a reference's score of an answer's text: prompt_logprobs of a request
// whose last message is the answer, and usage, which counts the answer to the prompt. The
// one token that the reference then writes says whether the answer may end there.
func readScore(raw []byte, text string) score {
	var s score
	if s.positions, s.void = statistic.Prompt(bytes.NewReader(raw), text); s.void != statistic.None {
		return s
	}
	r, v := read(raw)
	if v != statistic.None {
		return s
	}
	if r.hasUsage && r.prompt > int64(len(s.positions)) {
		s.prompt = r.prompt - int64(len(s.positions))
	}
	next, v := statistic.Content(nil, bytes.NewReader(raw))
	if v == statistic.None && len(next) > 0 {
		s.best, s.end, s.ended = statistic.EndOf(next[0], ends)
	}
	if !s.ended && r.finish == string(statistic.Stop) {
		s.ended = true // the likeliest token is the end
	}
	return s
}

// scoreOf returns the n-th score of the model itself, which are those of no alternative:
// the first one judges, and a second one is compared with it.
func (j *judging) scoreOf(n int) (score, bool) {
	for _, s := range j.Scores {
		if s.Alternative != "" {
			continue
		}
		if n == 0 {
			return readScore(s.Raw, j.reply.text), true
		}
		n--
	}
	return score{void: statistic.NoReference}, false
}

// alternative returns the score of a reference that stands for an alternative.
func (j *judging) alternative(g evidence.Alternative) score {
	for _, s := range j.Scores {
		if s.Alternative == g.String() {
			return readScore(s.Raw, j.reply.text)
		}
	}
	return score{void: statistic.NoReference}
}
