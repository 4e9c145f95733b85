package gguf

import "strconv"

// The format's numbers of value types.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

// value is metadata of one type: its type's number, then itself.
type value interface{ encode(*encoder) }

type (
	number  uint32
	float   float32
	flag    bool
	text    string
	texts   []string
	reals   []float32
	classes []tokenClass
)

func (v number) encode(e *encoder) {
	e.u32(typeUint32)
	e.u32(uint32(v))
}

func (v float) encode(e *encoder) {
	e.u32(typeFloat32)
	e.f32(float32(v))
}

func (v flag) encode(e *encoder) {
	e.u32(typeBool)
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (v text) encode(e *encoder) {
	e.u32(typeString)
	e.text(string(v))
}

func (v texts) encode(e *encoder) {
	array(e, typeString, len(v))
	for _, s := range v {
		e.text(s)
	}
}

func (v reals) encode(e *encoder) {
	array(e, typeFloat32, len(v))
	for _, f := range v {
		e.f32(f)
	}
}

func (v classes) encode(e *encoder) {
	array(e, typeInt32, len(v))
	for _, c := range v {
		e.u32(uint32(c))
	}
}

func array(e *encoder, element uint32, length int) {
	e.u32(typeArray)
	e.u32(element)
	e.u64(uint64(length))
}

type pair struct {
	key   string
	value value
}

// metadata is what an engine needs to know to run the model.
func metadata(c Config) []pair {
	v := newVocabulary()
	fileType := number(0) // all 32-bit
	if c.Half {
		fileType = 1 // mostly 16-bit
	}
	return []pair{
		{"general.architecture", text("llama")},
		{"general.name", text(c.Name + "-" + strconv.FormatUint(c.Seed, 10))},
		{"general.file_type", fileType},
		{"general.alignment", number(alignment)},
		{"llama.context_length", number(c.Context)},
		{"llama.embedding_length", number(c.Width)},
		{"llama.block_count", number(c.Layers)},
		{"llama.feed_forward_length", number(c.FeedForward)},
		{"llama.attention.head_count", number(c.Heads)},
		{"llama.attention.head_count_kv", number(c.Heads)},
		{"llama.attention.layer_norm_rms_epsilon", float(1e-5)},
		{"llama.rope.dimension_count", number(c.Width / c.Heads)},
		{"llama.rope.freq_base", float(10_000)},
		{"llama.vocab_size", number(len(v.tokens))},
		{"tokenizer.ggml.model", text("llama")},
		{"tokenizer.ggml.tokens", texts(v.tokens)},
		{"tokenizer.ggml.scores", reals(v.scores)},
		{"tokenizer.ggml.token_type", classes(v.classes)},
		{"tokenizer.ggml.unknown_token_id", number(unknownToken)},
		{"tokenizer.ggml.bos_token_id", number(beginToken)},
		{"tokenizer.ggml.eos_token_id", number(endToken)},
		{"tokenizer.ggml.add_bos_token", flag(true)},
		{"tokenizer.ggml.add_eos_token", flag(false)},
	}
}
