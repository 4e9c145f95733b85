package tinylm

import (
	"context"
	"fmt"
	"slices"

	"svc.internal/pkg/tinylm/internal/kernel"
	"svc.internal/pkg/tinylm/internal/weights"
)

// State is the model's memory of the tokens that it has read. Generate works
// on a copy, so one State can be continued many times, also concurrently.
type State struct {
	model  *Model
	hidden []float32
	tokens int
	trace  uint64 // hash of the tokens read, from which Variant.LogitJitter is drawn
}

// ContextLengthError reports a prompt that leaves no room for an answer.
type ContextLengthError struct {
	// Tokens is the length of the prompt in tokens.
	Tokens int
}

func (e *ContextLengthError) Error() string {
	return fmt.Sprintf("the prompt has %d tokens (bytes); this model reads and writes at most %d in all",
		e.Tokens, ContextTokens)
}

// Read takes in a prompt that Prompt has laid out. It fails with a
// *ContextLengthError when the prompt is too long, and with ctx's error when
// ctx ends first.
func (m *Model) Read(ctx context.Context, prompt []byte) (*State, error) {
	if len(prompt) >= ContextTokens {
		return nil, &ContextLengthError{Tokens: len(prompt)}
	}
	s := m.begin()
	scratch := make([]float32, 3*m.set.Hidden)
	for _, token := range m.variant.keep(prompt) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.read(token, scratch)
	}
	s.tokens = len(prompt)
	return s, nil
}

// begin returns the state before the first token.
func (m *Model) begin() *State {
	return &State{model: m, hidden: make([]float32, m.set.Hidden), trace: mix(m.variant.Seed)}
}

// Tokens is the number of tokens read so far.
func (s *State) Tokens() int { return s.tokens }

// clone returns an independent copy.
func (s *State) clone() *State {
	return &State{model: s.model, hidden: slices.Clone(s.hidden), tokens: s.tokens, trace: s.trace}
}

// read takes in one token: one step of the recurrent unit. scratch has room
// for three times the hidden width.
func (s *State) read(token byte, scratch []float32) {
	set, h := s.model.set, s.model.set.Hidden
	in := s.model.fromInput[int(token)*3*h:][:3*h]
	clear(scratch[:2*h])
	copy(scratch[2*h:], set.CandidateBias)
	kernel.AddRows(scratch, s.hidden, set.Recurrent)
	for i, was := range s.hidden {
		z := kernel.Sigmoid(in[i] + scratch[i])
		r := kernel.Sigmoid(in[h+i] + scratch[h+i])
		c := kernel.Tanh(in[2*h+i] + float32(r*scratch[2*h+i]))
		s.hidden[i] = c + float32(z*(was-c))
	}
	s.model.variant.State.roundAll(s.hidden)
	s.tokens++
	s.trace = mix(s.trace ^ uint64(token))
}

// logits fills out, which has room for the vocabulary, with the score of each
// byte as the next token.
func (s *State) logits(out []float32) {
	copy(out, s.model.set.OutputBias)
	kernel.AddRows(out[:weights.Vocabulary], s.hidden, s.model.set.Output)
	s.model.variant.disturb(out[:weights.Vocabulary], s.trace)
}
