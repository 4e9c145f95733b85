package tinylm

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"svc.internal/pkg/tinylm/internal/weights"
)

// Variant is how a model differs from its weights: as another honest host does, or as
// a cheat does. The zero value differs in nothing. Everything random follows from Seed,
// so that the same variant of the same model gives the same bits.
//
// The errors stand for errors of real engines:
//
//   - WeightBits 8, 5, 4: q8_0 or int8, q5_0, and q4_0 or int4 group-wise formats, whose
//     blocks of 32 weights share one scale;
//   - WeightNoise: a fine-tune, or a close relative of the model;
//   - State: activations and caches kept in half floats or bfloat16;
//   - Logits: an output layer that computes in half floats or bfloat16;
//   - LogitJitter: sums in another order, as another GPU, kernel or batch gives them;
//   - KeepTokens: a prompt truncated to save work, or a smaller window than stated;
//   - Temperature: an engine that samples colder or hotter than it was asked to.
type Variant struct {
	// Seed fixes WeightNoise and LogitJitter.
	Seed uint64
	// WeightBits quantizes the matrices, not the biases, to 2^bits − 1 levels that
	// lie symmetrically around zero, the largest weight of a block being the outermost
	// level. A block is 32 numbers in the order of the weights file. Zero leaves the
	// weights as they are; otherwise WeightBits is 2 to 8.
	WeightBits int
	// WeightNoise adds to each number of each matrix a Gaussian error. The error's
	// standard deviation is WeightNoise times the root mean square of the matrix.
	WeightNoise float64
	// State rounds the state after each token.
	State Rounding
	// Logits rounds the logits after LogitJitter.
	Logits Rounding
	// LogitJitter adds to each logit an error that is uniform in ±LogitJitter. It
	// follows from Seed and all tokens read, so that the same context has the same error.
	LogitJitter float64
	// KeepTokens reads only the last KeepTokens tokens of each prompt and says nothing
	// of it: usage claims the whole prompt. Zero reads all.
	KeepTokens int
	// Temperature, unless nil, is used instead of that of each request.
	Temperature *float64
}

// Rounding is a format that numbers are rounded to.
type Rounding uint8

// The formats.
const (
	RoundNone Rounding = iota // float32, as computed
	RoundFP16                 // IEEE half float
	RoundBF16                 // bfloat16
)

// block is the number of weights that share a scale.
const block = 32

// ErrVariant is the error for a Variant whose numbers are out of range.
var ErrVariant = errors.New("tinylm: a number of the variant is out of range")

// noiseStream keeps the random numbers of WeightNoise apart from those of other uses
// of a seed.
const noiseStream = 0x6e6f697365

func (v *Variant) valid() bool {
	bits := v.WeightBits == 0 || 2 <= v.WeightBits && v.WeightBits <= 8
	noise := 0 <= v.WeightNoise && v.WeightNoise <= 1 && 0 <= v.LogitJitter && v.LogitJitter <= 1
	temperature := v.Temperature == nil || 0 <= *v.Temperature && *v.Temperature <= 2
	return bits && noise && temperature && v.KeepTokens >= 0 && v.State <= RoundBF16 && v.Logits <= RoundBF16
}

// disturbWeights adds the errors of the weights.
func (v *Variant) disturbWeights(set *weights.Set) {
	dice := rand.New(rand.NewPCG(v.Seed, noiseStream)) //nolint:gosec // a seed must give the same variant again
	for _, matrix := range [][]float32{set.Embedding, set.Input, set.Recurrent, set.Output} {
		quantize(matrix, v.WeightBits)
		addNoise(matrix, v.WeightNoise, dice)
	}
}

// quantize rounds each block of w to the levels of its largest weight.
func quantize(w []float32, bits int) {
	if bits == 0 {
		return
	}
	outermost := float32(int(1)<<(bits-1) - 1)
	for part := range slices.Chunk(w, block) {
		var largest float32
		for _, x := range part {
			largest = max(largest, x, -x)
		}
		if largest == 0 {
			continue
		}
		scale := largest / outermost
		for i, x := range part {
			part[i] = scale * float32(math.RoundToEven(float64(x/scale)))
		}
	}
}

// addNoise adds Gaussian errors of the relative size to w.
func addNoise(w []float32, size float64, dice *rand.Rand) {
	if size == 0 {
		return
	}
	var squares float64
	for _, x := range w {
		squares += float64(float64(x) * float64(x))
	}
	deviation := size * math.Sqrt(squares/float64(len(w)))
	for i := range w {
		w[i] += float32(deviation * dice.NormFloat64())
	}
}

// keep returns the part of a prompt that is read.
func (v *Variant) keep(prompt []byte) []byte {
	if v.KeepTokens == 0 {
		return prompt
	}
	return prompt[max(0, len(prompt)-v.KeepTokens):]
}

// disturb adds the errors of the logits that follow the tokens of trace.
func (v *Variant) disturb(logits []float32, trace uint64) {
	if v.LogitJitter != 0 {
		for i := range logits {
			uniform := float64(mix(trace+uint64(i)+1)>>11) / (1 << 53)
			logits[i] += float32((float64(2*uniform) - 1) * v.LogitJitter)
		}
	}
	v.Logits.roundAll(logits)
}

// roundAll rounds each number of x.
func (r Rounding) roundAll(x []float32) {
	switch r {
	case RoundFP16:
		for i := range x {
			x[i] = weights.RoundHalf(x[i])
		}
	case RoundBF16:
		for i := range x {
			x[i] = weights.RoundBrain(x[i])
		}
	default:
	}
}

// mix scatters the bits of x: a step of the generator SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
