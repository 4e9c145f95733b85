package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/statistic"
)

// ownAnswer is a reference's answer with log-probabilities: the second token of each position
// lies behind the first by so many nats.
func ownAnswer(tokens int, behind float64) string {
	one := fmt.Sprintf(`{"token":"a","logprob":-0.3,"top_logprobs":[{"token":"a","logprob":-0.3},`+
		`{"token":"b","logprob":%v}]}`, -.3-behind)
	list := strings.TrimSuffix(strings.Repeat(one+",", tokens), ",")
	return `{"choices":[{"message":{"content":"` + strings.Repeat("a", tokens) + `"},"finish_reason":"stop",` +
		`"logprobs":{"content":[` + list + `]}}]}`
}

func TestScreeningRefusesAnswersThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw  string
		want statistic.Void
	}{
		"long and open":          {ownAnswer(statistic.MinTokens, 1), statistic.None},
		"a token too short":      {ownAnswer(statistic.MinTokens-1, 1), statistic.TooShort},
		"without a choice":       {ownAnswer(60, 4), statistic.NotInformative},
		"nothing":                {ownAnswer(0, 1), statistic.TooShort},
		"no log-probabilities":   {`{"choices":[{"message":{"content":"word"},"finish_reason":"stop"}]}`, statistic.None},
		"no answer":              {`{`, statistic.None},
		"a list that is no list": {`{"choices":[{"logprobs":{"content":[{"token":"a","logprob":7}]}}]}`, statistic.None},
	} {
		if got := judge.Screened([]byte(c.raw)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// What is not judged of a long answer does not count for it either.
func TestScreeningLooksAtWhatIsJudged(t *testing.T) {
	t.Parallel()
	sure, open := ownAnswer(statistic.JudgedTokens, 4), ownAnswer(statistic.JudgedTokens, 1)
	at := strings.Index(open, `"content":[`) + len(`"content":[`)
	more := open[at:strings.LastIndex(open, "]}}]}")]
	raw := sure
	end := strings.LastIndex(raw, "]}}]}")
	raw = raw[:end] + "," + more + raw[end:]
	if got := judge.Screened([]byte(raw)); got != statistic.NotInformative {
		t.Errorf("got %q, want %q", got, statistic.NotInformative)
	}
}
