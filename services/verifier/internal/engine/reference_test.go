//go:build engine

package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/verifier/internal/statistic"
)

// topReference is how many log-probabilities a reference is asked for, and the most that
// Ollama states.
const topReference = 20

// reference scores answers with a model of the engine.
type reference struct {
	engine *ollama
	model  string
	// one answer at a time: the engine keeps the tokens of its last prompt.
	one sync.Mutex
}

// step is what the reference says of one position.
type step struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Top     []struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// decoded is what the reference says behind a prompt.
type decoded struct {
	Steps  []step `json:"logprobs"`
	Prompt int    `json:"prompt_eval_count"`
}

func (r *reference) decode(t *testing.T, prompt string, tokens int) decoded {
	t.Helper()
	raw := r.engine.call(t, "/api/generate", map[string]any{
		"model": r.model, "raw": true, "prompt": prompt, "stream": false, "logprobs": true, "top_logprobs": topReference,
		"options": map[string]any{"temperature": 0, "num_predict": tokens},
	})
	var d decoded
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatalf("read what the reference decoded: %v", err)
	}
	if len(d.Steps) == 0 {
		t.Fatalf("the reference decoded nothing: %s", raw)
	}
	return d
}

// score returns the score of a chat's answer, in the form of a reference that scores
// prompts. The tokens are the provider's, because Ollama tells nobody how it would cut the
// text. The first request is for the whole answer: behind a text that it is given, the
// engine cuts tokens anew, which is noise of a hundred times the rounding of 16 bits. Behind
// a difference as many tokens are asked for as agreed before it, and behind each request
// that agrees to its end twice as many.
func (r *reference) score(t *testing.T, ask, answer string, tokens []statistic.Position) []byte {
	t.Helper()
	r.one.Lock()
	defer r.one.Unlock()
	start := "[user] " + ask + "\n[assistant]"
	var b bytes.Buffer
	prompt, at, size := 0, 0, len(tokens)
	for done := 0; done < len(tokens); {
		d := r.decode(t, start+answer[:at], min(size, len(tokens)-done))
		if done == 0 {
			prompt = d.Prompt
		}
		size *= 2
		for agreed, s := range d.Steps {
			own := tokens[done].Own.Token
			s.write(t, &b, own)
			at += len(own)
			if done++; s.Token != own {
				size = agreed + 1
				break
			}
		}
	}
	return fmt.Appendf(nil, `{"choices":[{"index":0,"message":{"role":"assistant","content":""},`+
		`"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":1},"prompt_logprobs":[null%s]}`,
		prompt+len(tokens), b.String())
}

// write writes what the reference says of the answer's token, which stands first, and of
// the likeliest tokens. A token beyond them is at most as likely as the last of them.
func (s step) write(t *testing.T, to *bytes.Buffer, own string) {
	t.Helper()
	said := s.Top[len(s.Top)-1].Logprob
	for _, e := range s.Top {
		if e.Token == own {
			said = e.Logprob
			break
		}
	}
	var list []string
	add := func(token string, logprob float64) {
		text, err := json.Marshal(token)
		if err != nil {
			t.Fatalf("write a token: %v", err)
		}
		list = append(list, fmt.Sprintf(`"%d":{"logprob":%v,"decoded_token":%s}`, len(list), logprob, text))
	}
	add(own, said)
	for _, e := range s.Top {
		if e.Token != own {
			add(e.Token, e.Logprob)
		}
	}
	to.WriteString(",{" + strings.Join(list, ",") + "}")
}
