package main

import (
	"math"

	"svc.internal/pkg/tinylm/internal/corpus"
	"svc.internal/pkg/tinylm/internal/weights"
)

// evaluate returns the mean loss on the answers to held-out phrasings, in nats
// per byte. Each phrasing stands in its own conversation.
func evaluate(params *weights.Set) float64 {
	const rows = 16
	held := corpus.HeldOut()
	var sum, total float64
	for len(held) > 0 {
		part := held[:min(rows, len(held))]
		held = held[len(part):]
		b := pad(part)
		n := newNetwork(params, len(part), len(b.input)/len(part))
		var weight float64
		for _, w := range b.weight {
			weight += float64(w)
		}
		sum += n.loss(b) * weight
		total += weight
	}
	return sum / total
}

// pad lays out exchanges as the rows of one batch. Shorter rows end in cells without
// weight.
func pad(exchanges []corpus.Exchange) *batch {
	texts, steps := make([][]byte, len(exchanges)), 0
	for i, x := range exchanges {
		texts[i] = render(corpus.Conversation{Turns: []corpus.Exchange{x}})
		steps = max(steps, len(texts[i])-1)
	}
	rows := len(texts)
	b := &batch{make([]byte, rows*steps), make([]byte, rows*steps), make([]float32, rows*steps), make([]bool, rows*steps)}
	for r, text := range texts {
		answer := false
		b.fresh[r] = true
		for t := range len(text) - 1 {
			cell := t*rows + r
			answer = inAnswer(answer, text[t])
			b.input[cell], b.target[cell] = text[t], text[t+1]
			if answer {
				b.weight[cell] = 1
			}
		}
	}
	return b
}

// bits converts nats to bits.
func bits(nats float64) float64 { return nats / math.Ln2 }
