package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

// Writer writes the requests of plans. A request is a function of the secret, the bank of
// prompts and the plan, so that it need not be kept to be sent again. It is safe for
// concurrent use.
type Writer struct {
	secret  secret
	prompts *prompt.Writer
}

// NewWriter returns a writer. The bank is one that prompt.ReadBank or prompt.Demo returned.
func NewWriter(s prompt.Secret, bank prompt.Bank) *Writer {
	return &Writer{secret: secret(s), prompts: prompt.NewWriter(s, bank)}
}

// Body returns the request of a plan as a client library would write it, and the digits of
// its needles in the order of Plan.FromEnd. A probe that repeats another has exactly the
// other's messages, in a layout of its own. A fingerprint has no request.
func (w *Writer) Body(p probe.Plan) (body []byte, needles []string, err error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	var messages []prompt.Message
	switch p.Kind {
	case probe.Fingerprint:
		return nil, nil, fmt.Errorf("%w: a fingerprint has no prompt", probe.ErrPlan)
	case probe.Embedding:
		body, err = w.embedding(p)
		return body, nil, err
	case probe.Recall, probe.Measure, probe.Check:
		if messages, needles, err = w.recall(p); err != nil {
			return nil, nil, err
		}
	case probe.Greedy, probe.Sampled, probe.Logprobs, probe.Replay:
		if messages, err = w.chat(p); err != nil {
			return nil, nil, err
		}
	default:
		return nil, nil, fmt.Errorf("%w: the kind %.40q", probe.ErrPlan, p.Kind)
	}
	body, err = w.prompts.Body(prompt.ID(p.ID), messages, w.parameters(p))
	return body, needles, err
}

// chat returns the messages of a chat, those of the earlier probe for a Replay.
func (w *Writer) chat(p probe.Plan) ([]prompt.Message, error) {
	id := p.ID
	if p.Kind == probe.Replay {
		id = p.Repeats
	}
	// Writers of prompts take a token for four bytes.
	tokens := int(float64(p.PromptTokens) * ratio(p.BytesPerToken) / usualBytes)
	messages, err := w.prompts.Write(prompt.ID(id), p.Draw, max(1, min(tokens, prompt.MaxTokens)))
	if err != nil {
		return nil, fmt.Errorf("write the prompt of a probe: %w", err)
	}
	return messages, nil
}

// recall returns the messages of a recall and the digits of its needles.
func (w *Writer) recall(p probe.Plan) ([]prompt.Message, []string, error) {
	r, err := w.prompts.Recall(prompt.ID(p.ID), prompt.RecallPlan{
		Tokens: p.PromptTokens, BytesPerToken: ratio(p.BytesPerToken), FromEnd: p.FromEnd, Asked: p.Asked,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("write the prompt of a recall: %w", err)
	}
	digits := make([]string, len(r.Needles))
	for i, n := range r.Needles {
		digits[i] = n.Code
	}
	return r.Messages, digits, nil
}

// parameters returns what the request asks beside its messages. A sampled answer is from
// the whole distribution at temperature 1. top_p is always said there, because engines have
// defaults of their own.
func (w *Writer) parameters(p probe.Plan) prompt.Parameters {
	zero, one := 0.0, 1.0
	d := w.dice("parameters", p.ID)
	q := prompt.Parameters{
		Model: p.Offer.Model, MaxTokens: p.MaxTokens, Temperature: &zero, Seed: p.Seed, TopLogprobs: p.TopLogprobs,
		Stream: p.Streamed, IncludeUsage: d.IntN(2) == 0,
	}
	if p.Unbounded {
		q.MaxTokens = 0
	}
	if !p.Greedy {
		q.Temperature, q.TopP, q.Penalties = &one, &one, d.IntN(2) == 0
	}
	return q
}

// dice returns the choices of a request.
func (w *Writer) dice(purpose string, id probe.ID) *rand.Rand {
	return w.secret.dice(purpose+" "+id.String(), probe.Offer{}, 0)
}

// embedding returns the request for a vector.
func (w *Writer) embedding(p probe.Plan) ([]byte, error) {
	length := int(float64(p.PromptTokens) * ratio(p.BytesPerToken))
	text := w.prompts.Text("embedding", prompt.ID(p.ID), min(length, prompt.MaxTokens))
	var request any = struct {
		Input string `json:"input"`
		Model string `json:"model"`
	}{text, p.Offer.Model}
	if w.dice("layout", p.ID).IntN(2) == 0 {
		request = struct {
			Model  string `json:"model"`
			Input  string `json:"input"`
			Format string `json:"encoding_format"`
		}{p.Offer.Model, text, "float"}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("write an embedding's request: %w", err)
	}
	return body, nil
}
