package lab

import (
	"context"
	"fmt"

	"svc.internal/pkg/tinylm"
	tinylab "svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

// question is a prompt of the laboratory.
type question struct {
	index     int
	prompt    []byte
	maxTokens int
}

// seed is that of the sampled answer to the question.
func (q question) seed() uint64 { return uint64(1_000 + q.index) }

// reply is a provider's answer, and the log-probabilities that it declares.
type reply struct {
	text     string
	declared []statistic.Position
}

// server answers questions as a provider does.
type server func(ctx context.Context, q question, temperature float64) (reply, error)

// declared is how many log-probabilities are asked for.
const declared = 5

// serve is the provider that runs a model.
func serve(m *tinylm.Model) server {
	return func(ctx context.Context, q question, temperature float64) (reply, error) {
		return generate(ctx, m, q, temperature)
	}
}

// fromCache is a provider that answers with what it kept of another question.
func fromCache(m *tinylm.Model, all []question) server {
	return func(ctx context.Context, q question, temperature float64) (reply, error) {
		return generate(ctx, m, all[(q.index+1)%len(all)], temperature)
	}
}

func generate(ctx context.Context, m *tinylm.Model, q question, temperature float64) (reply, error) {
	state, err := m.Read(ctx, q.prompt)
	if err != nil {
		return reply{}, fmt.Errorf("read a prompt: %w", err)
	}
	var text []byte
	var r reply
	p := tinylm.Params{
		Temperature: temperature, TopP: 1, Seed: q.seed(), MaxTokens: q.maxTokens, TopLogprobs: declared,
	}
	_, err = state.Generate(ctx, p, func(t tinylm.Token) error {
		text = append(text, t.Byte)
		own, err := entry(t.Byte, t.Logprob)
		if err != nil {
			return err
		}
		top, err := entries(t.Top)
		r.declared = append(r.declared, statistic.Position{Own: own, Top: top})
		return err
	})
	if err != nil {
		return reply{}, fmt.Errorf("answer: %w", err)
	}
	r.text = string(text)
	return r, nil
}

// score is what a reference says of an answer.
func score(ctx context.Context, m *tinylm.Model, q question, text string) ([]statistic.Position, error) {
	scores, err := m.Score(ctx, q.prompt, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	out := make([]statistic.Position, len(scores.Answer))
	for i := range scores.Answer {
		p := &scores.Answer[i]
		if out[i].Own, err = entry(p.Byte, p.Logprob(p.Byte)); err != nil {
			return nil, err
		}
		if out[i].Top, err = entries(p.Top(statistic.MaxTop)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func entry(token byte, nats float64) (statistic.Entry, error) {
	l, err := exact.Round(nats)
	return statistic.Entry{Token: string([]byte{token}), Logprob: l}, err
}

func entries(candidates []tinylm.Candidate) ([]statistic.Entry, error) {
	out := make([]statistic.Entry, len(candidates))
	for i, c := range candidates {
		var err error
		if out[i], err = entry(c.Byte, c.Logprob); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// The seeds of hosts. No two hosts round alike.
const (
	referenceSeed = 1
	cheatSeed     = 2
	hostSeed      = 100
)

// screened draws n questions whose greedy answers on the reference can speak for or against
// a provider (statistic.Screen).
func screened(ctx context.Context, o Options, reference *tinylm.Model, n int) ([]question, error) {
	talks := tinylab.NewConversations(99)
	var all []question
	for drawn := 0; len(all) < n; {
		batch := make([]question, 64)
		for i := range batch {
			batch[i] = question{prompt: tinylm.Prompt(talks.Next()), maxTokens: 48 + 37*drawn%113}
			drawn++
		}
		useful, err := spread(ctx, o, len(batch), func(ctx context.Context, i int) (bool, error) {
			r, err := generate(ctx, reference, batch[i], 0)
			return statistic.Screen(r.declared) == statistic.None, err
		})
		if err != nil {
			return nil, err
		}
		for i, q := range batch {
			if useful[i] && len(all) < n {
				q.index = len(all)
				all = append(all, q)
			}
		}
	}
	return all, nil
}
