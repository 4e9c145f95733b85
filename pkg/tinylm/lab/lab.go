// Package lab holds the models and prompts of the verifier's laboratory, which
// measures what a statistic sees of a cheat, without GPUs. Only tests and tools import
// it, so that no product binary carries its weights.
//
// The embedded model of package tinylm is too sure of its answers for that purpose: a
// changed weight rarely changes a byte. Base is trained less, so that about a third
// of the bytes of its greedy answers are informative: the two likeliest bytes lie
// within 2 nats. The weights come from
//
//	GOEXPERIMENT=simd go run ./tinylm/train -hidden 96 -steps 900 -seed 2 -out tinylm/lab/base.bin
//	GOEXPERIMENT=simd go run ./tinylm/train -hidden 48 -steps 500 -seed 3 -out tinylm/lab/smaller.bin
package lab

import (
	_ "embed" // the weights
	"fmt"
	"math/rand/v2"

	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/internal/corpus"
)

//go:embed base.bin
var base []byte

//go:embed smaller.bin
var smaller []byte

// fineTuneSeed fixes the weight errors of FineTune. Other seeds give relatives that
// differ more: the share of answers that show it is .57 to .86 over six seeds.
const fineTuneSeed = 55

// Base is the model that providers of the laboratory state to serve: 70,272
// parameters, about .8 nats a byte of held-out answers.
func Base() *tinylm.Model { return decode("base", base) }

// Smaller is a model of another size from another training: 32,448 parameters, about
// 2.05 nats a byte.
func Smaller() *tinylm.Model { return decode("smaller", smaller) }

// OtherTraining is tinylm-1: larger, and trained longer.
func OtherTraining() *tinylm.Model { return must(tinylm.Load()) }

// FineTune is Base with Gaussian errors of 5 % on its weights.
func FineTune() *tinylm.Model {
	return must(Base().Variant(tinylm.Variant{Seed: fineTuneSeed, WeightNoise: .05}))
}

// Honest is what an honest host makes of a model: its state is in half floats, and its
// logits differ by up to .004 as the host's seed says.
func Honest(m *tinylm.Model, seed uint64) *tinylm.Model { return Host(m, tinylm.Variant{Seed: seed}) }

// Host is a host whose numbers are as rough as those of an honest one, and that besides
// differs as v says. It panics when a number of v is out of range.
func Host(m *tinylm.Model, v tinylm.Variant) *tinylm.Model {
	v.State, v.LogitJitter = tinylm.RoundFP16, .004
	return must(m.Variant(v))
}

// Conversations draws conversations of the kind that the models were trained on, the
// same for the same seed. Each ends with a message of the user.
type Conversations struct{ sampler *corpus.Sampler }

// NewConversations returns the conversations of a seed.
func NewConversations(seed uint64) *Conversations {
	dice := rand.New(rand.NewPCG(seed, conversationStream)) //nolint:gosec // a seed must give the same conversations
	return &Conversations{corpus.NewSampler(dice.Uint64())}
}

// conversationStream keeps conversations apart from the conversations that a training with the same
// seed has read.
const conversationStream = 0x6c6162

// Next draws a conversation.
func (c *Conversations) Next() []tinylm.Message {
	drawn := c.sampler.Next()
	var out []tinylm.Message
	if drawn.System != "" {
		out = append(out, tinylm.Message{Role: tinylm.RoleSystem, Text: drawn.System})
	}
	for i, turn := range drawn.Turns {
		out = append(out, tinylm.Message{Role: tinylm.RoleUser, Text: turn.Question})
		if i < len(drawn.Turns)-1 {
			out = append(out, tinylm.Message{Role: tinylm.RoleAssistant, Text: turn.Answer})
		}
	}
	return out
}

func decode(name string, file []byte) *tinylm.Model {
	m, err := tinylm.Decode(file)
	if err != nil {
		panic(fmt.Sprintf("lab: weights %s: %v", name, err)) // embedded; a test loads them
	}
	return m
}

func must(m *tinylm.Model, err error) *tinylm.Model {
	if err != nil {
		panic(fmt.Sprintf("lab: %v", err))
	}
	return m
}
