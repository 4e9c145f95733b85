package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// written is the file of a model.
func written(t *testing.T, c Config) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, c); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// reader takes the format apart, independently of the writer's types.
type reader struct {
	t    *testing.T
	file []byte
	at   int
}

func (r *reader) take(n int) []byte {
	r.t.Helper()
	if r.at+n > len(r.file) {
		r.t.Fatalf("the file ends at %d, and %d more bytes are expected at %d: r.at+n: got %d, want at most %d", len(r.file),
			n, r.at, r.at+n, len(r.file))
	}
	r.at += n
	return r.file[r.at-n : r.at]
}

func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }

func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) text() string { return string(r.take(int(r.u64()))) }

func (r *reader) value(kind uint32) any {
	switch kind {
	case 4, 5:
		return r.u32()
	case 6:
		return math.Float32frombits(r.u32())
	case 7:
		return r.take(1)[0] == 1
	case 8:
		return r.text()
	case 9:
		element := r.u32()
		list := make([]any, r.u64())
		for i := range list {
			list[i] = r.value(element)
		}
		return list
	}
	r.t.Fatalf("type %d at %d", kind, r.at)
	return nil
}

type entry struct {
	dimensions []uint64
	kind       uint32
	offset     uint64
}

type parsed struct {
	metadata map[string]any
	tensors  map[string]entry
	order    []string
	data     []byte // from the first tensor on
}

func parse(t *testing.T, file []byte) parsed {
	t.Helper()
	r := &reader{t: t, file: file}
	if magic := string(r.take(4)); magic != "GGUF" {
		t.Fatalf(`the file begins: got %q, want "GGUF"`, magic)
	}
	if v := r.u32(); v != 3 {
		t.Fatalf("version: got %d, want 3", v)
	}
	tensors, pairs := r.u64(), r.u64()
	p := parsed{metadata: map[string]any{}, tensors: map[string]entry{}}
	for range pairs {
		key := r.text()
		if _, twice := p.metadata[key]; twice {
			t.Errorf("%s stands twice", key)
		}
		p.metadata[key] = r.value(r.u32())
	}
	for range tensors {
		name := r.text()
		e := entry{dimensions: make([]uint64, r.u32())}
		for i := range e.dimensions {
			e.dimensions[i] = r.u64()
		}
		e.kind, e.offset = r.u32(), r.u64()
		p.tensors[name] = e
		p.order = append(p.order, name)
	}
	for r.at%32 != 0 {
		if r.take(1)[0] != 0 {
			t.Error("the filling before the tensors is not zero")
		}
	}
	p.data = file[r.at:]
	return p
}

func small() Config {
	return Config{Name: "m", Seed: 3, Layers: 2, Width: 12, Heads: 2, FeedForward: 20, Context: 64, Sharpness: 8}
}

func TestTheMetadataSaysWhatTheModelIs(t *testing.T) {
	c := small()
	c.Half = true
	got := parse(t, written(t, c)).metadata
	for key, want := range map[string]any{
		"general.architecture": "llama", "general.name": "m-3", "general.file_type": uint32(1),
		"general.alignment":    uint32(32),
		"llama.context_length": uint32(64), "llama.embedding_length": uint32(12), "llama.block_count": uint32(2),
		"llama.feed_forward_length": uint32(20), "llama.attention.head_count": uint32(2),
		"llama.rope.dimension_count": uint32(6),
		"tokenizer.ggml.model":       "llama", "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": false,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
	} {
		if got[key] != want {
			t.Errorf("%s: got %v, want %v", key, got[key], want)
		}
	}
	tokens, _ := got["tokenizer.ggml.tokens"].([]any)
	for _, key := range []string{"tokenizer.ggml.scores", "tokenizer.ggml.token_type"} {
		if list, _ := got[key].([]any); len(list) != len(tokens) {
			t.Errorf("%s: len(list): got %d, want %d", key, len(list), len(tokens))
		} else if len(tokens) == 0 {
			t.Errorf("%s: len(tokens): got 0, want at least 1", key)
		}
	}
	if got["llama.vocab_size"] != uint32(len(tokens)) {
		t.Errorf("the vocabulary's size: got %v, want %v", got["llama.vocab_size"], uint32(len(tokens)))
	}
}

func TestTensorsFollowEachOtherAlignedAndFillTheFile(t *testing.T) {
	for _, half := range []bool{false, true} {
		c := small()
		c.Half = half
		p := parse(t, written(t, c))
		if len(p.order) != 3+9*c.Layers {
			t.Errorf("tensors: got %d, want %d", len(p.order), 3+9*c.Layers)
		}
		end := uint64(0)
		for _, name := range p.order {
			e := p.tensors[name]
			if e.offset%32 != 0 {
				t.Errorf("%s begins: e.offset%%32: got %d, want 0", name, e.offset%32)
			} else if e.offset != (end+31)/32*32 {
				t.Errorf("%s begins: e.offset: got %d, want %d", name, e.offset, (end+31)/32*32)
			}
			size := uint64(4)
			if e.kind == 1 {
				size = 2
			}
			for _, d := range e.dimensions {
				size *= d
			}
			end = e.offset + size
		}
		if uint64(len(p.data)) != (end+31)/32*32 {
			t.Errorf("the tensors end: got %d, want %d", uint64(len(p.data)), (end+31)/32*32)
		}
	}
}

func TestTensorsHaveTheirArchitecturesShapes(t *testing.T) {
	c := small()
	c.Half = true
	p := parse(t, written(t, c))
	vocabulary := uint64(len(newVocabulary().tokens))
	for name, want := range map[string]entry{
		"token_embd.weight":        {dimensions: []uint64{12, vocabulary}, kind: 1},
		"blk.1.attn_norm.weight":   {dimensions: []uint64{12}, kind: 0},
		"blk.1.attn_q.weight":      {dimensions: []uint64{12, 12}, kind: 1},
		"blk.0.ffn_up.weight":      {dimensions: []uint64{12, 20}, kind: 1},
		"blk.0.ffn_down.weight":    {dimensions: []uint64{20, 12}, kind: 1},
		"output_norm.weight":       {dimensions: []uint64{12}, kind: 0},
		"output.weight":            {dimensions: []uint64{12, vocabulary}, kind: 1},
		"blk.1.ffn_norm.weight":    {dimensions: []uint64{12}, kind: 0},
		"blk.0.ffn_gate.weight":    {dimensions: []uint64{12, 20}, kind: 1},
		"blk.0.attn_k.weight":      {dimensions: []uint64{12, 12}, kind: 1},
		"blk.0.attn_v.weight":      {dimensions: []uint64{12, 12}, kind: 1},
		"blk.0.attn_output.weight": {dimensions: []uint64{12, 12}, kind: 1},
	} {
		got, there := p.tensors[name]
		switch {
		case !there:
			t.Errorf("%s: p.tensors[name]: got none, want one", name)
			continue
		case got.kind != want.kind:
			t.Errorf("%s: kind: got %d, want %d", name, got.kind, want.kind)
			continue
		case len(got.dimensions) != len(want.dimensions):
			t.Errorf("%s: len(got.dimensions): got %d, want %d, in %+v", name, len(got.dimensions), len(want.dimensions), got)
			continue
		}
		for i := range want.dimensions {
			if got.dimensions[i] != want.dimensions[i] {
				t.Errorf("%s is %v, want %v", name, got.dimensions, want.dimensions)
			}
		}
	}
	norm := p.data[p.tensors["output_norm.weight"].offset:]
	if f := math.Float32frombits(binary.LittleEndian.Uint32(norm)); f != 1 {
		t.Errorf("a norm begins: got %v, want 1", f)
	}
}

func TestTheSeedAloneMakesTheWeights(t *testing.T) {
	c := small()
	first := written(t, c)
	if !bytes.Equal(first, written(t, c)) {
		t.Error("the same seed made another file")
	}
	c.Seed++
	other := written(t, c)
	if bytes.Equal(parse(t, first).data, parse(t, other).data) {
		t.Error("another seed made the same weights")
	}
}

func TestTokensThatAreNoTextAreDamped(t *testing.T) {
	c := Default()
	p := parse(t, written(t, c))
	output := p.data[p.tensors["output.weight"].offset:]
	spread := func(from, to int) float64 {
		sum := 0.0
		for i := from * c.Width; i < to*c.Width; i++ {
			f := float64(math.Float32frombits(binary.LittleEndian.Uint32(output[4*i:])))
			sum += f * f
		}
		return math.Sqrt(sum / float64((to-from)*c.Width))
	}
	if bytesSpread, textSpread := spread(0, 259), spread(259, 514); textSpread < 0.9 || textSpread > 1.1 {
		t.Errorf("weights are around: got %v, want 0.9 to 1.1", textSpread)
	} else if bytesSpread > 0.06 {
		t.Errorf("bytesSpread: got %v, want at most 0.06", bytesSpread)
	}
}

func TestEveryTextHasTokens(t *testing.T) {
	v := newVocabulary()
	seen := map[string]bool{}
	bytesSeen := 0
	for i, token := range v.tokens {
		if seen[token] {
			t.Errorf("token %q stands twice", token)
		}
		seen[token] = true
		if v.classes[i] == classByte {
			bytesSeen++
		}
		if (v.classes[i] != classNormal) != (i < notText) {
			t.Errorf("token %d, %q, is of class: v.classes[i] != classNormal: got %t, want %t", i, token,
				v.classes[i] != classNormal, i < notText)
		}
	}
	switch {
	case bytesSeen != 256:
		t.Errorf("bytes that have a token: bytesSeen: got %d, want 256", bytesSeen)
	case !seen["<0x00>"]:
		t.Error(`bytes have a token: seen["<0x00>"]: got false, want true`)
	case !seen["<0xFF>"]:
		t.Error(`bytes have a token: seen["<0xFF>"]: got false, want true`)
	}
	for _, c := range `{}[]":,\-+.eE0123456789truefalsn` {
		if !seen[string(c)] {
			t.Errorf("JSON needs %q", c)
		}
	}
}

func TestHalfPrecisionRoundsToTheNearest(t *testing.T) {
	for f, want := range map[float32]uint16{
		0: 0, 1: 0x3c00, -2: 0xc000, 0.5: 0x3800, 65504: 0x7bff, 65519: 0x7bff, 65520: 0x7c00, 1e9: 0x7c00, -1e9: 0xfc00,
		1.0 / 16384:   0x0400, // 2^-14, the smallest normal number
		1e-8:          0,
		0.333333333:   0x3555,
		1 + 1.0/2048:  0x3c00, // a tie goes to the even neighbour
		1 + 3.0/2048:  0x3c02,
		1 + 1.1/2048:  0x3c01,
		1.99999988079: 0x4000, // the carry reaches the exponent
	} {
		if got := float16(f); got != want {
			t.Errorf("%v: got %#04x, want %#04x", f, got, want)
		}
	}
}

func TestImpossibleShapesAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"layers must be 1 to 256, not 0":      func(c *Config) { c.Layers = 0 },
		"width must be":                       func(c *Config) { c.Width = -64 },
		"heads must be":                       func(c *Config) { c.Heads = 0 },
		"feed-forward size must be":           func(c *Config) { c.FeedForward = 1 << 17 },
		"context must be":                     func(c *Config) { c.Context = 1 << 30 },
		"sharpness must be 0 to 1000":         func(c *Config) { c.Sharpness = -1 },
		"3 heads do not divide a width of 64": func(c *Config) { c.Heads = 3 },
		"weights; 268435456 are the most":     func(c *Config) { c.Layers, c.Width, c.FeedForward = 200, 1<<12, 1<<14 },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c := Default()
	c.Layers, c.Heads = 0, 0
	switch err := Write(&bytes.Buffer{}, c); {
	case err == nil:
		t.Error("the faults that are told: got no error, want one")
	case !strings.Contains(err.Error(), "layers"):
		t.Errorf(`the faults that are told: got the error %q, want "layers" in it`, err)
	case !strings.Contains(err.Error(), "heads"):
		t.Errorf(`the faults that are told: got the error %q, want "heads" in it`, err)
	}
}

// full takes so many bytes and then no more.
type full int

var errFull = errors.New("no room")

func (f *full) Write(p []byte) (int, error) {
	if *f -= full(len(p)); *f < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestAFullDiskIsTold(t *testing.T) {
	room := full(1000)
	if err := Write(&room, Default()); !errors.Is(err, errFull) {
		t.Errorf("got the error %v, want %v", err, errFull)
	}
}
