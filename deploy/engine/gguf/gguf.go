// Package gguf writes small language models with random weights in the GGUF
// file format, version 3, for engines that read the Llama architecture. Nobody
// can use what such a model says; but an engine that loads it does everything
// for it that it does for a real one, within milliseconds and without anything
// having been downloaded.
//
// A file is: the magic bytes, the version and two counts; metadata, as pairs of
// a key and a typed value; one entry for each tensor with its shape, type and
// offset; then, from the next multiple of 32 bytes on, the tensors, each at a
// multiple of 32 bytes. All numbers are little-endian. The tokenizer is part of
// the metadata (see vocabulary.go).
//
// The same Config makes the same bytes. Another seed makes another model, whose
// answers differ from the first token on. Weights are drawn so that activations
// keep their size from layer to layer, and the rows of the output matrix for
// tokens that are no text are damped: answers are printable, and hardly ever
// end before they are cut off.
package gguf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	magic   = "GGUF"
	version = 3
	// alignment of the tensors' section and of each tensor, in bytes; it is
	// also told in the metadata.
	alignment = 32
	// maxWeights bounds a model: 256 Mi weights are a file of 1 GiB.
	maxWeights = 256 << 20
)

// Config is the shape of a model. Bigger is slower, which tests can use.
type Config struct {
	// Name is shown by engines; it has no effect.
	Name string
	// Seed of the weights.
	Seed uint64
	// Layers is the number of transformer blocks.
	Layers int
	// Width is the size of an embedding. Heads must divide it into even parts.
	Width int
	Heads int
	// FeedForward is the size of the blocks' hidden layers.
	FeedForward int
	// Context is the longest sequence in tokens the model claims to know.
	Context int
	// Half stores matrices as 16-bit numbers.
	Half bool
	// Sharpness scales the output: with 0 all tokens are equally likely, with
	// more the distribution gets peaks.
	Sharpness float64
}

// Default is a model of about 600 KB that answers thousands of tokens a second
// on one core.
func Default() Config {
	return Config{Name: "tiny", Seed: 1, Layers: 2, Width: 64, Heads: 4, FeedForward: 128, Context: 2048, Sharpness: 8}
}

// Validate reports all faults of a shape at once.
func (c Config) Validate() error {
	var faults []error
	for _, size := range []struct {
		name  string
		value int
		max   int
	}{
		{"layers", c.Layers, 256}, {"width", c.Width, 1 << 14}, {"heads", c.Heads, 256},
		{"feed-forward size", c.FeedForward, 1 << 16}, {"context", c.Context, 1 << 24},
	} {
		if size.value < 1 || size.value > size.max {
			faults = append(faults, fmt.Errorf("%s must be 1 to %d, not %d", size.name, size.max, size.value))
		}
	}
	if c.Sharpness < 0 || c.Sharpness > 1000 {
		faults = append(faults, fmt.Errorf("sharpness must be 0 to 1000, not %v", c.Sharpness))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	// Positions are encoded by turning pairs of numbers of each head.
	if c.Width%(2*c.Heads) != 0 {
		return fmt.Errorf("%d heads do not divide a width of %d into even parts", c.Heads, c.Width)
	}
	var weights uint64
	for _, t := range tensors(c) {
		weights += t.elements()
	}
	if weights > maxWeights {
		return fmt.Errorf("the model has %d weights; %d are the most", weights, uint64(maxWeights))
	}
	return nil
}

// Write writes the model that c describes.
func Write(to io.Writer, c Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	buffered := bufio.NewWriterSize(to, 1<<20)
	e := &encoder{to: buffered}
	list := tensors(c)
	pairs := metadata(c)
	e.bytes([]byte(magic))
	e.u32(version)
	e.u64(uint64(len(list)))
	e.u64(uint64(len(pairs)))
	for _, p := range pairs {
		e.text(p.key)
		p.value.encode(e)
	}
	var offset uint64
	for _, t := range list {
		t.describe(e, offset)
		offset += aligned(t.size())
	}
	e.align()
	random := newRandom(c.Seed)
	for _, t := range list {
		t.fill(e, random)
		e.align()
	}
	if err := errors.Join(e.err, buffered.Flush()); err != nil {
		return fmt.Errorf("write the model: %w", err)
	}
	return nil
}

// aligned rounds up to the alignment.
func aligned(n uint64) uint64 { return (n + alignment - 1) / alignment * alignment }
