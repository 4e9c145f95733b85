package judge

import (
	"encoding/json"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

// score is what a reference says of the answer.
type score struct {
	statistic.Joined
	// judged are the positions that are judged.
	judged []statistic.Position
	void   statistic.Void
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

// readScore reads a reference's score of the answer: prompt_logprobs of a request whose last
// message is the answer, and usage, which counts the answer to the prompt. The one token
// that the reference then writes shows whether the answer may end there.
func (j *judging) readScore(raw []byte) score {
	var s score
	if s.Joined, s.void = j.join(raw); s.void != statistic.None {
		return s
	}
	s.judged = s.Positions
	if j.trims() {
		s.judged = s.Judged()
	}
	r, v := read(raw)
	if v != statistic.None {
		return s
	}
	if n := int64(len(s.Positions)); r.hasUsage && r.prompt > n {
		s.prompt = r.prompt - n
	}
	next, v := statistic.Content(nil, raw)
	if v == statistic.None && len(next) > 0 {
		s.best, s.end, s.ended = s.EndBehind(next[0], ends)
	}
	if !s.ended && r.finish == string(statistic.Stop) {
		s.ended = true // the likeliest token is the end
	}
	return s
}

// join finds the answer in a reference's list. Records of before trimmed hold the score of
// the answer as it came.
func (j *judging) join(raw []byte) (statistic.Joined, statistic.Void) {
	switch {
	case j.Version >= wholeFirst:
		return statistic.Join(raw, j.reply.text, question(j.Request))
	case j.trims():
		return statistic.JoinFromText(raw, j.reply.text, question(j.Request))
	}
	positions, v := statistic.Prompt(raw, j.reply.text)
	return statistic.Joined{Positions: positions}, v
}

// question returns the texts of a request's messages.
func question(request []byte) []string {
	var asked struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(request, &asked) != nil {
		return nil
	}
	var texts []string
	for _, m := range asked.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// maxBlankTokens bounds how many tokens trimmed blanks count for at most: honest answers end
// with a few line feeds.
const maxBlankTokens = 4

// output is our count of the answer's tokens. How many tokens the trimmed blanks are is not
// known; within that the engine's claim is ours.
func (j *judging) output(s score) int64 {
	n := int64(len(s.Positions))
	return min(max(n, j.Answer.ClaimedOutput), n+min(int64(s.Blanks), maxBlankTokens))
}

// scoreOf returns the n-th score of the model itself, which are those of no alternative:
// the first one judges, and a second one is compared with it.
func (j *judging) scoreOf(n int) (score, bool) {
	for _, s := range j.Scores {
		if s.Alternative != "" {
			continue
		}
		if n == 0 {
			return j.readScore(s.Raw), true
		}
		n--
	}
	return score{void: statistic.NoReference}, false
}

// alternative returns the score of a reference that stands for an alternative.
func (j *judging) alternative(g evidence.Alternative) score {
	for _, s := range j.Scores {
		if s.Alternative == g.String() {
			return j.readScore(s.Raw)
		}
	}
	return score{void: statistic.NoReference}
}
