package plan

import (
	"encoding/json"
	"sync"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// Lengths learns how many bytes of our prompts a token of each model has, by what
// references count. The tokens of a chat's template count too, so that the ratio of short
// prompts is a little low, which makes prompts shorter; long ones outweigh them, because
// bytes and tokens are summed. The zero value knows nothing. It is safe for concurrent use.
type Lengths struct {
	mu     sync.Mutex
	models map[string]lengths
}

// lengths are sums, halved from time to time.
type lengths struct{ bytes, tokens float64 }

const (
	// enoughTokens is how many tokens must be counted before the ratio is known, and
	// maxTokens is the sum at which both sums are halved, so that a model whose tokenizer
	// changed under its name is learnt anew.
	enoughTokens = 2_000
	maxTokens    = 1 << 22
	// maxModels bounds the models that are learnt.
	maxModels = 4_096
)

// Of returns the bytes per token of a model, 0 while it is not known.
func (l *Lengths) Of(model string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.models[model]
	if m.tokens < enoughTokens || !known(m.bytes/m.tokens) {
		return 0
	}
	return m.bytes / m.tokens
}

// Heard takes the count of a record's first score: of prompt and answer together, or of the
// prompt where the reference answered itself. A record without one says nothing.
func (l *Lengths) Heard(rec judge.Record) {
	bytes, tokens := count(rec)
	if bytes <= 0 || tokens <= 0 || tokens > statistic.MaxTokens {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m, there := l.models[rec.Plan.Offer.Model]
	if !there && len(l.models) >= maxModels {
		return
	}
	if l.models == nil {
		l.models = map[string]lengths{}
	}
	m.bytes, m.tokens = m.bytes+float64(bytes), m.tokens+float64(tokens)
	if m.tokens > maxTokens {
		m.bytes, m.tokens = m.bytes/2, m.tokens/2
	}
	l.models[rec.Plan.Offer.Model] = m
}

// count returns the bytes that a reference read, and how many tokens it says they are.
func count(rec judge.Record) (bytes int, tokens int64) {
	if len(rec.Scores) == 0 || rec.Scores[0].Alternative != "" {
		return 0, 0
	}
	var said struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	var counted struct {
		Usage struct {
			Prompt int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(rec.Request, &said) != nil || json.Unmarshal(rec.Scores[0].Raw, &counted) != nil {
		return 0, 0
	}
	for _, m := range said.Messages {
		bytes += len(m.Content)
	}
	switch rec.Plan.Kind {
	case probe.Greedy, probe.Sampled, probe.Logprobs, probe.Replay:
		answer, v := judge.Text(rec.Answer.Raw)
		if v != statistic.None {
			return 0, 0
		}
		bytes += len(answer)
	case probe.Recall, probe.Measure, probe.Check:
	default:
		return 0, 0
	}
	return bytes, counted.Usage.Prompt
}
