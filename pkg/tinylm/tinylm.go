// Package tinylm is a very small language model and an OpenAI-compatible HTTP
// server around it. It is the engine that answers where there is no other engine,
// because it needs no GPU, no download and no configuration. When it is asked
// about itself, it says what it is.
//
// The model is a recurrent network (one gated recurrent unit, about 300
// thousand parameters) over bytes: one token is one byte, in the prompt and in
// the answer. The model was really trained, by the program in the train directory,
// on generated chat text (internal/corpus). Its weights are embedded as half
// floats. It greets, counts, knows small tables and lists, tells stories, and
// otherwise says that it does not know. It cannot reason.
//
// Everything is deterministic: the same prompt and Params give the same bytes
// on every machine (internal/kernel says how).
package tinylm

import (
	_ "embed"
	"fmt"
	"hash/crc32"

	"svc.internal/pkg/tinylm/internal/kernel"
	"svc.internal/pkg/tinylm/internal/weights"
)

const (
	// ModelName is the name of the embedded model.
	ModelName = "tinylm-1"
	// ContextTokens bounds prompt and answer together, in bytes. The network
	// itself has no context window; with the bound it behaves like models that do.
	ContextTokens = 4096
)

//go:embed weights.bin
var embedded []byte

// Model is the trained network. It is immutable, and safe for concurrent use.
type Model struct {
	set *weights.Set
	// fromInput is Embedding·Input + InputBias for each byte. It is computed once,
	// so that reading a byte costs only the recurrent product.
	fromInput   []float32
	fingerprint string
	// variant is zero for a faithful model; see Variant.
	variant Variant
}

// Load returns the model with the embedded weights, after checking their
// format, version, size and checksum.
func Load() (*Model, error) {
	m, err := Decode(embedded)
	if err != nil {
		return nil, fmt.Errorf("load embedded weights: %w", err)
	}
	return m, nil
}

// Decode returns the model of a weights file that the program in the train
// directory has written, after checking the file's format, version, size and
// checksum.
func Decode(file []byte) (*Model, error) {
	set, err := weights.Decode(file)
	if err != nil {
		return nil, err
	}
	return newModel(set, fmt.Sprintf("fp_%08x", crc32.ChecksumIEEE(file))), nil
}

func newModel(set *weights.Set, fingerprint string) *Model {
	width := 3 * set.Hidden
	m := &Model{set: set, fromInput: make([]float32, weights.Vocabulary*width), fingerprint: fingerprint}
	for token := range weights.Vocabulary {
		row := m.fromInput[token*width:][:width]
		copy(row, set.InputBias)
		kernel.AddRows(row, set.Embedding[token*set.Embed:][:set.Embed], set.Input)
	}
	return m
}

// Variant returns a model that differs from m as v says. Errors of the weights add to
// those of m; all else is as in v alone. The variant keeps m's fingerprint, because a
// cheat would.
func (m *Model) Variant(v Variant) (*Model, error) {
	if !v.valid() {
		return nil, ErrVariant
	}
	out := &Model{set: m.set, fromInput: m.fromInput, fingerprint: m.fingerprint, variant: v}
	if v.WeightBits == 0 && v.WeightNoise == 0 {
		return out, nil
	}
	set := weights.New(m.set.Embed, m.set.Hidden)
	for i, tensor := range m.set.Tensors() {
		copy(set.Tensors()[i], tensor)
	}
	v.disturbWeights(set)
	out = newModel(set, m.fingerprint)
	out.variant = v
	return out, nil
}

// Parameters is the number of trained numbers in the model.
func (m *Model) Parameters() int { return m.set.Count() }

// Fingerprint names the weights file: it changes when the file changes, and only then.
func (m *Model) Fingerprint() string { return m.fingerprint }
