// Package corpus generates the text that tinylm is trained on: short chat
// exchanges, written here as templates and lists and put together by a
// deterministic sampler. Nothing is read from outside the program.
//
// An Intent is one thing that a user may want, in several phrasings, with one
// answer. The first phrasing of an intent is always trained on. Of the others
// about one in twelve is held out of training, so that the loss on held-out
// phrasings measures whether the model learned the meaning of questions rather
// than their letters.
package corpus

import (
	"hash/fnv"
	"math/rand/v2"
)

// Intent is one wish of a user, with its phrasings and its answer.
type Intent struct {
	// Questions holds at least one phrasing; the first is always trained on.
	Questions []string
	Answer    string
}

// Topic is a group of intents with one weight in the training text.
type Topic struct {
	Name string
	// Weight is the topic's relative frequency among sampled exchanges.
	Weight  int
	Intents []Intent
}

// Exchange is one question with its answer.
type Exchange struct{ Question, Answer string }

// Conversation is an optional system text and one or more exchanges.
type Conversation struct {
	System string
	Turns  []Exchange
}

// Topics returns every topic in a fixed order.
func Topics() []Topic {
	return []Topic{
		{"greetings", 8, greetings()},
		{"identity", 14, identity()},
		{"service", 14, service()},
		{"counting", 22, counting()},
		{"arithmetic", 40, arithmetic()},
		{"calendar", 6, calendar()},
		{"colours", 6, colours()},
		{"words", 10, words()},
		{"places", 4, places()},
		{"tongues", 4, tongues()},
		{"echoes", 7, echoes()},
		{"verses", 4, verses()},
		{"stories", 10, stories()},
		{"unknown", 22, unknown()},
	}
}

// HeldOut returns every held-out phrasing, with its answer, in a fixed order.
func HeldOut() []Exchange {
	var out []Exchange
	for _, topic := range Topics() {
		for _, intent := range topic.Intents {
			for i, q := range intent.Questions {
				if heldOut(i, q) {
					out = append(out, Exchange{q, intent.Answer})
				}
			}
		}
	}
	return out
}

// heldOut reports whether the i-th phrasing of an intent is kept from training.
func heldOut(i int, question string) bool {
	if i == 0 {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(question)) // a hash.Hash never fails
	return h.Sum32()%12 == 0
}

// Sampler draws training conversations, the same conversations for the same seed.
type Sampler struct {
	rng    *rand.Rand
	topics []Topic
	total  int
}

// NewSampler returns a sampler whose draws are fixed by seed.
func NewSampler(seed uint64) *Sampler {
	rng := rand.New(rand.NewPCG(seed, 0x7469_6e79)) //nolint:gosec // a seed must give the same corpus again
	s := &Sampler{rng: rng, topics: Topics()}
	for i, topic := range s.topics {
		s.total += topic.Weight
		s.topics[i].Intents = trainable(topic.Intents)
	}
	return s
}

// trainable drops the held-out phrasings.
func trainable(intents []Intent) []Intent {
	out := make([]Intent, len(intents))
	for i, intent := range intents {
		out[i].Answer = intent.Answer
		for j, q := range intent.Questions {
			if !heldOut(j, q) {
				out[i].Questions = append(out[i].Questions, q)
			}
		}
	}
	return out
}

// Next draws one conversation. Most are a single exchange. Some have a system text
// in front or earlier turns, so that the model learns to answer the last question
// whatever comes before it.
func (s *Sampler) Next() Conversation {
	var c Conversation
	if s.rng.IntN(8) == 0 {
		c.System = s.system()
	}
	turns := 1
	for turns < 4 && s.rng.IntN(3) == 0 {
		turns++
	}
	for range turns {
		c.Turns = append(c.Turns, s.exchange())
	}
	return c
}

// exchange draws a topic by weight, then an intent, then a phrasing.
func (s *Sampler) exchange() Exchange {
	ticket := s.rng.IntN(s.total)
	for _, topic := range s.topics {
		if ticket -= topic.Weight; ticket >= 0 {
			continue
		}
		if topic.Name == "unknown" && s.rng.IntN(2) == 0 {
			return Exchange{s.vary(s.gibberish()), unknownAnswer}
		}
		intent := pick(s.rng, topic.Intents)
		return Exchange{s.vary(pick(s.rng, intent.Questions)), intent.Answer}
	}
	panic("corpus: topic weights do not add up to the total") // unreachable: ticket < total
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }
