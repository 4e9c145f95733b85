package gguf

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// The format's numbers of tensor types.
const (
	tensorFloat32 = 0
	tensorFloat16 = 1
)

// stream separates the weights' random numbers from those of other users of
// the same seed.
const stream = 0x67677566

func newRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // weights are no secret, and the same for the same seed
}

// tensor is a matrix, or a vector when it has one row.
type tensor struct {
	name string
	// columns is the length of a row; the format names it first.
	columns, rows int
	half          bool
	// deviation is that of the weights of a row; 0 fills with ones.
	deviation func(row int) float64
}

// tensors are those of the Llama architecture, in the order of the file.
func tensors(c Config) []tensor {
	vocabulary := len(newVocabulary().tokens)
	matrix := func(name string, in, out int) tensor {
		keeps := 1 / math.Sqrt(float64(in)) // the size of what goes through
		return tensor{name: name, columns: in, rows: out, half: c.Half, deviation: func(int) float64 { return keeps }}
	}
	norm := func(name string) tensor { return tensor{name: name, columns: c.Width, rows: 1} }
	embedding := matrix("token_embd.weight", c.Width, vocabulary)
	embedding.deviation = func(int) float64 { return 1 }
	list := []tensor{embedding}
	for layer := range c.Layers {
		block := fmt.Sprintf("blk.%d.", layer)
		list = append(list,
			norm(block+"attn_norm.weight"),
			matrix(block+"attn_q.weight", c.Width, c.Width),
			matrix(block+"attn_k.weight", c.Width, c.Width),
			matrix(block+"attn_v.weight", c.Width, c.Width),
			matrix(block+"attn_output.weight", c.Width, c.Width),
			norm(block+"ffn_norm.weight"),
			matrix(block+"ffn_gate.weight", c.Width, c.FeedForward),
			matrix(block+"ffn_up.weight", c.Width, c.FeedForward),
			matrix(block+"ffn_down.weight", c.FeedForward, c.Width),
		)
	}
	output := matrix("output.weight", c.Width, vocabulary)
	output.deviation = func(token int) float64 {
		deviation := c.Sharpness / math.Sqrt(float64(c.Width))
		if token < notText {
			return deviation / 20
		}
		return deviation
	}
	return append(list, norm("output_norm.weight"), output)
}

func (t tensor) elements() uint64 { return uint64(t.columns) * uint64(t.rows) }

// size in bytes.
func (t tensor) size() uint64 {
	if t.half {
		return 2 * t.elements()
	}
	return 4 * t.elements()
}

// describe writes the tensor's entry; offset counts from the first tensor.
func (t tensor) describe(e *encoder, offset uint64) {
	e.text(t.name)
	if t.rows == 1 {
		e.u32(1)
		e.u64(uint64(t.columns))
	} else {
		e.u32(2)
		e.u64(uint64(t.columns))
		e.u64(uint64(t.rows))
	}
	if t.half {
		e.u32(tensorFloat16)
	} else {
		e.u32(tensorFloat32)
	}
	e.u64(offset)
}

// fill writes the weights.
func (t tensor) fill(e *encoder, random *rand.Rand) {
	for row := range t.rows {
		for range t.columns {
			weight := float32(1)
			if t.deviation != nil {
				weight = float32(random.NormFloat64() * t.deviation(row))
			}
			if t.half {
				e.u16(float16(weight))
			} else {
				e.f32(weight)
			}
		}
	}
}

// float16 rounds to the nearest half-precision number, ties to even; what is
// too small to be one of its normal numbers becomes zero.
func float16(f float32) uint16 {
	const (
		mantissaCut = 23 - 10
		biasGap     = (127 - 15) << 23
		smallest    = (127 - 14) << 23 // 2^-14
		tooLarge    = (127 + 16) << 23 // 2^16
		infinity    = 0x7c00
	)
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits < smallest:
		return sign
	case bits >= tooLarge:
		return sign | infinity
	}
	odd := bits >> mantissaCut & 1
	// A carry out of the mantissa is a step of the exponent, as it should be.
	bits += 1<<(mantissaCut-1) - 1 + odd
	return sign | uint16((bits-biasGap)>>mantissaCut)
}
