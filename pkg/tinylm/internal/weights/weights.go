// Package weights defines the parameters of tinylm and their file format.
//
// The network is one gated recurrent unit between an embedding and a linear
// output. All parameters are row-major float32. With the gates in the order update,
// reset, candidate, it computes
//
//	p = Embedding[byte] · Input + InputBias        (3·Hidden)
//	a = h · Recurrent                              (3·Hidden)
//	z = σ(p₀+a₀)   r = σ(p₁+a₁)   c = tanh(p₂ + r⊙(a₂+CandidateBias))
//	h' = c + z⊙(h−c)
//	logits = h' · Output + OutputBias              (256, one per byte)
//
// A file is the magic with the format's version, two little-endian uint32
// (embedding width, hidden width), the tensors in the order of Tensors as IEEE
// half floats, and a CRC-32C of all bytes before it.
package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Vocabulary is the number of tokens: one for each byte value.
const Vocabulary = 256

const (
	magic      = "tinylm\x00\x01"
	headerSize = len(magic) + 8
	// MaxWidth bounds both widths, so that a damaged header cannot ask for an
	// absurd allocation.
	MaxWidth = 1024
)

// ErrCorrupt is the cause of every failure to decode a file.
var ErrCorrupt = errors.New("weights file is corrupt")

// Set is all parameters of one network.
type Set struct {
	Embed, Hidden int

	Embedding     []float32 // Vocabulary x Embed
	Input         []float32 // Embed x 3·Hidden
	InputBias     []float32 // 3·Hidden
	Recurrent     []float32 // Hidden x 3·Hidden
	CandidateBias []float32 // Hidden
	Output        []float32 // Hidden x Vocabulary
	OutputBias    []float32 // Vocabulary
}

// New returns a set of zeros with the given widths.
func New(embed, hidden int) *Set {
	s := &Set{Embed: embed, Hidden: hidden}
	for i, size := range s.sizes() {
		*s.fields()[i] = make([]float32, size)
	}
	return s
}

// Tensors returns the parameters in file order. The slices share memory with s.
func (s *Set) Tensors() [][]float32 {
	out := make([][]float32, 0, 7)
	for _, field := range s.fields() {
		out = append(out, *field)
	}
	return out
}

// Count is the number of parameters.
func (s *Set) Count() int {
	n := 0
	for _, size := range s.sizes() {
		n += size
	}
	return n
}

func (s *Set) fields() []*[]float32 {
	return []*[]float32{&s.Embedding, &s.Input, &s.InputBias, &s.Recurrent, &s.CandidateBias, &s.Output, &s.OutputBias}
}

func (s *Set) sizes() []int {
	e, h := s.Embed, s.Hidden
	return []int{Vocabulary * e, e * 3 * h, 3 * h, h * 3 * h, h, h * Vocabulary, Vocabulary}
}

// Encode writes the file, rounding each parameter to a half float.
func (s *Set) Encode() []byte {
	out := make([]byte, 0, headerSize+2*s.Count()+crc32.Size)
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(s.Embed))
	out = binary.LittleEndian.AppendUint32(out, uint32(s.Hidden))
	for _, tensor := range s.Tensors() {
		for _, v := range tensor {
			out = binary.LittleEndian.AppendUint16(out, halfFrom(v))
		}
	}
	return binary.LittleEndian.AppendUint32(out, checksum(out))
}

// Decode reads a file and checks its version, size and checksum.
func Decode(file []byte) (*Set, error) {
	if len(file) < headerSize+crc32.Size || string(file[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: unknown format or version", ErrCorrupt)
	}
	embed := binary.LittleEndian.Uint32(file[len(magic):])
	hidden := binary.LittleEndian.Uint32(file[len(magic)+4:])
	if embed == 0 || hidden == 0 || embed > MaxWidth || hidden > MaxWidth {
		return nil, fmt.Errorf("%w: widths %d and %d", ErrCorrupt, embed, hidden)
	}
	shape := &Set{Embed: int(embed), Hidden: int(hidden)}
	if want := headerSize + 2*shape.Count() + crc32.Size; len(file) != want {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, len(file), want)
	}
	body, sum := file[:len(file)-crc32.Size], file[len(file)-crc32.Size:]
	if checksum(body) != binary.LittleEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	s := New(shape.Embed, shape.Hidden)
	rest := body[headerSize:]
	for _, tensor := range s.Tensors() {
		for i := range tensor {
			tensor[i] = halfTo(binary.LittleEndian.Uint16(rest))
			rest = rest[2:]
		}
	}
	return s, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
