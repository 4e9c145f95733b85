package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// begun is the time from which on a client that leaves pays: a second after dispatch, and
// a little more for the way there.
const begun = 1400 * time.Millisecond

// leavings are F5 and F10: the prompt is used, and then the answer fails.
func leavings() []Case {
	return []Case{
		{Hole: "F5", Name: "left_before_a_whole_answer", Before: "a prompt of 4,000 words for nothing", Run: leftLate(``)},
		{Hole: "F5", Name: "left_before_a_stream_began", Before: "a prompt of 4,000 words for nothing",
			Run: leftLate(`,"stream":true`)},
		{Hole: "F5", Name: "left_at_once_often", Before: "40 of 40 taken", Run: leftEarly},
		{Hole: "F10", Name: "fails_late_by_its_content", Before: "75% of the answer, the prompt free", Run: failsLate},
	}
}

// slow makes a model give no content before the test ends.
func slow(tokens int) fakeengine.Behaviour {
	return fakeengine.Behaviour{Tokens: fakeengine.Words(tokens), BeforeFirstToken: make(chan struct{})}
}

func leftLate(stream string) func(t testing.TB, s *stage) Outcome {
	return func(t testing.TB, s *stage) Outcome {
		const words = 4000
		id, engine, p := s.served(t, model{}, slow(5))
		account, key := s.caller(t)
		leave := s.begin(t, key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":64%s}`, id,
			strings.Repeat("word ", words), stream))
		arrived(t, engine, 1)
		pass(t, begun)
		leave()
		spent := s.spent(t, account)
		// An input token costs 1,000 nano-USD.
		if got, want := spent/1000, int64(words*9/10); got < want {
			t.Errorf("got a prompt of %d words read by the engine for %d tokens, want at least %d billed", words, got, want)
		}
		return Outcome{Got: fmt.Sprintf("a prompt of %d words read", words), Paid: fmt.Sprintf("%d tokens", spent/1000),
			Harm: short(p) + " paid by that"}
	}
}

// leftEarly leaves until it is refused. On a busy machine a client may leave only after a
// second; it then pays and does not count. So leftEarly tries more often than the 30
// times that are free.
func leftEarly(t testing.TB, s *stage) Outcome {
	const tries = 120
	id, engine, _ := s.served(t, model{}, slow(5))
	account, key := s.caller(t)
	for i := range tries {
		leave := s.begin(t, key, trial.Chat(id, `,"max_tokens":8`))
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			_ = engine.WaitRequests(t.Context(), i+1)
		}()
		select {
		case <-seen:
		case <-time.After(time.Second): // refused before it reached the engine
		}
		leave()
		if len(engine.Requests()) <= i {
			break
		}
	}
	taken := len(engine.Requests())
	engine.Script(id, fakeengine.Behaviour{})
	// The gateway's report of the client that left reaches the ledger a little later.
	var r reply
	trial.Until(t, "an account whose clients left too often is refused", func() bool {
		r = s.chat(t, key, trial.Chat(id, ""))
		return r.status != http.StatusOK
	})
	if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "given up within a second") {
		t.Errorf("after %d requests left at once: got %d %s, want 429 for that", taken, r.status, r.body)
	}
	return Outcome{Got: fmt.Sprintf("%d prompts, then %d", taken, r.status), Paid: fmt.Sprintf("%d nano-USD",
		s.spent(t, account)), Harm: "prompts that were begun"}
}

func failsLate(t testing.TB, s *stage) Outcome {
	const bound, said = 16, 12
	var raw strings.Builder
	for _, word := range fakeengine.Words(said) {
		fmt.Fprintf(&raw,
			"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","+
				"\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":null}]}\n\n", word)
	}
	raw.WriteString(
		"data: {\"error\":{\"message\":\"the content cannot be processed\",\"type\":\"invalid_request_error\"," +
			"\"code\":400}}\n\n")
	id, _, p := s.served(t, model{}, fakeengine.Behaviour{Raw: raw.String(), ContentType: "text/event-stream"})
	_, key := s.caller(t)
	r := s.chat(t, key, trial.Chat(id, fmt.Sprintf(`,"stream":true,"max_tokens":%d`, bound)))
	b := s.bill(t, key, r.id())
	if r.words() != said || b.prompt == 0 {
		t.Errorf("got %d of %d tokens for %v, want %d and the prompt billed", r.words(), bound, b, said)
	}
	return Outcome{Got: fmt.Sprintf("%d of %d tokens", r.words(), bound), Paid: b.String(),
		Harm: short(p) + " paid by that"}
}
