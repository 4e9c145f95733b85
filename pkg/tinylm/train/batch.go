package main

import (
	"svc.internal/pkg/tinylm/internal/corpus"
	"svc.internal/pkg/tinylm/internal/transcript"
)

// questionWeight is the weight in the loss of a byte outside of answers. It is
// small, because the model is to answer, and guessing questions teaches it little.
const questionWeight = 0.1

// batch is the text that the network reads at once, laid out [step][row].
type batch struct {
	input  []byte
	target []byte
	weight []float32 // of the target in the loss
	fresh  []bool    // the input begins a conversation: forget what came before
}

// feed keeps one endless stream of conversations for each row.
type feed struct {
	sampler *corpus.Sampler
	streams [][]byte // rest of the current conversation
	answers []bool   // the stream stands inside an answer
	batch
}

func newFeed(seed uint64, rows, steps int) *feed {
	cells := rows * steps
	return &feed{
		sampler: corpus.NewSampler(seed), streams: make([][]byte, rows), answers: make([]bool, rows),
		batch: batch{make([]byte, cells), make([]byte, cells), make([]float32, cells), make([]bool, cells)},
	}
}

// next fills the batch with the next steps of every stream.
func (f *feed) next() *batch {
	rows := len(f.streams)
	for cell := range f.input {
		row := cell % rows
		f.fresh[cell] = false
		if len(f.streams[row]) < 2 { // the last byte of a conversation predicts nothing
			f.streams[row] = render(f.sampler.Next())
			f.answers[row] = false
			f.fresh[cell] = true
		}
		s := f.streams[row]
		f.streams[row] = s[1:]
		f.answers[row] = inAnswer(f.answers[row], s[0])
		f.input[cell], f.target[cell] = s[0], s[1]
		f.weight[cell] = questionWeight
		if f.answers[row] {
			f.weight[cell] = 1
		}
	}
	return &f.batch
}

// inAnswer reports whether the byte after b belongs to an answer, the answer's End
// included. before is its result for the byte before b.
func inAnswer(before bool, b byte) bool {
	switch b {
	case transcript.Assistant:
		return true
	case transcript.End:
		return false
	default:
		return before
	}
}

func render(c corpus.Conversation) []byte {
	var out []byte
	if c.System != "" {
		out = transcript.AppendSystem(out, c.System)
	}
	for _, turn := range c.Turns {
		out = transcript.AppendAnswer(transcript.AppendUser(out, turn.Question), turn.Answer)
	}
	return out
}
