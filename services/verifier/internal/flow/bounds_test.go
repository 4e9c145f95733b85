package flow_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// A provider that answers a byte a second holds a place for no longer than the answer needs.
func TestAShortAnswerIsNotWaitedForAsLongAsALongOne(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]time.Duration{16: 3 * time.Minute, 128: 4 * time.Minute, 256: 6 * time.Minute} {
		p := plan(1)
		p.MaxTokens = tokens
		if got := flow.AnswerTime(p); got > want {
			t.Errorf("%d tokens: got %v, want at most %v", tokens, got, want)
		}
	}
}

// The slowest answers that pass a benchmark come four at a time, or eight of 64 tokens.
func TestTheSlowestAnswerThatPassesIsWaitedFor(t *testing.T) {
	t.Parallel()
	for tokens, together := range map[int]int{64: bench.MaxCapacity, 128: 4, 160: 4, 256: 1, probe.MaxAnswerTokens: 1} {
		p := plan(1)
		p.PromptTokens, p.MaxTokens = 4_096, tokens
		want := time.Duration(float64(tokens*together)/battery.MinSpeed*float64(time.Second)) +
			time.Duration(together)*battery.MaxFirstToken
		if got := flow.AnswerTime(p); got < want {
			t.Errorf("%d tokens, %d at once: got %v, want at least %v", tokens, together, got, want)
		}
	}
}

func TestAHubIsAskedToWaitForWhatTheTokensNeed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg = flow.DefaultConfig()
	w.build()
	p := visible(1)
	w.run(p)
	want := flow.AnswerTime(p).Milliseconds()
	if got := w.hub.asked[0].GetTimeoutMs(); got != want {
		t.Errorf("the challenge's timeout in ms: got %d, want %d", got, want)
	}
	w.cfg.AnswerTimeout = time.Minute
	w.build()
	before := len(w.hub.asked)
	w.run(visible(2))
	if got, want := w.hub.asked[before].GetTimeoutMs(), time.Minute.Milliseconds(); got != want {
		t.Errorf("beyond the bound: timeout in ms: got %d, want %d", got, want)
	}
}

// A provider that answers with what it wants must not fill memory and evidence.
func TestAnAnswerIsKeptWithinWhatItsTokensNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tokens, logprobs, want int }{
		{160, 0, 256 << 10}, {160, 5, 1 << 20}, {probe.MaxAnswerTokens, 0, 2 << 20}, {probe.MaxAnswerTokens, 5, 4 << 20},
	} {
		p := plan(1)
		p.MaxTokens, p.TopLogprobs = c.tokens, c.logprobs
		if got := flow.AnswerBytes(p); got > c.want {
			t.Errorf("%d tokens, %d log-probabilities: got %d, want at most %d", c.tokens, c.logprobs, got, c.want)
		}
		p.Unbounded = true
		if got, want := flow.AnswerBytes(p), 4<<20; got > want {
			t.Errorf("without a bound: got %d, want at most %d", got, want)
		}
	}
}

// entry is a log-probability as engines write it that escape what is not ASCII, of a token of
// seven letters of two bytes.
const entry = `{"token":"\u043f\u0440\u0438\u0432\u0435\u0442\u044b","logprob":-12.345678901234567,"bytes":[` +
	`208,191,209,128,208,184,208,178,208,181,209,130,209,139]`

// event is one of a stream, as the most verbose engines write it.
func event(logprobs int) string {
	said := `"logprobs":null`
	if logprobs > 0 {
		top := strings.Repeat(entry+"},", logprobs-1) + entry
		said = `"logprobs":{"content":[` + entry + `,"top_logprobs":[` + top + `}]}],"refusal":null}`
	}
	return `data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",` +
		`"created":1790000000,"model":"` + strings.Repeat("m", 128) + `","system_fingerprint":"fp_0123456789",` +
		`"choices":[{"index":0,"delta":{"role":"assistant","content":"` + strings.Repeat(`\u043f`, 7) + `",` +
		`"reasoning_content":null},` + said + `,"finish_reason":null,"stop_reason":null}],` +
		`"usage":{"prompt_tokens":4096,"completion_tokens":1024,"total_tokens":5120}}` + "\n\n"
}

func TestTheMostVerboseHonestStreamIsKeptWhole(t *testing.T) {
	t.Parallel()
	for _, logprobs := range []int{0, 5, 20} {
		for _, tokens := range []int{1, 48, 160, 1_024} {
			p := plan(1)
			p.MaxTokens, p.TopLogprobs = tokens, logprobs
			if got, want := flow.AnswerBytes(p), min(tokens*len(event(logprobs)), 4<<20); got < want {
				t.Errorf("%d tokens, %d log-probabilities: got %d, want at least %d", tokens, logprobs, got, want)
			}
		}
	}
	vector := plan(1)
	vector.Kind, vector.MaxTokens = probe.Embedding, 0
	number := len(strconv.FormatFloat(-1.2345678901234567e-05, 'g', -1, 64)) + len(", ")
	if got, want := flow.AnswerBytes(vector), statistic.MaxDimensions*number; got < want {
		t.Errorf("the longest vector: got %d, want at least %d", got, want)
	}
}
