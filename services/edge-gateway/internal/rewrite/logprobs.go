package rewrite

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
)

// messageHas are the members that a message must have, and bothNull the members that
// token probabilities must have.
var (
	messageHas = []member{{"refusal", "null"}, {"content", "null"}, {"role", `"assistant"`}}
	bothNull   = []member{{"content", "null"}, {"refusal", "null"}}
)

// logprobs completes the token probabilities of a choice: lists of tokens, each with its
// bytes and its alternatives.
func (f *filler) logprobs() {
	f.object(bothNull, func(name string) {
		if (name != "content" && name != "refusal") || f.cur.Kind() != jsonscan.Array {
			f.cur.Skip()
			return
		}
		f.elements(func(int) { f.tokenLogprob([]member{{"bytes", "null"}, {"top_logprobs", "[]"}}) })
	})
}

func (f *filler) tokenLogprob(wanted []member) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return
	}
	f.object(wanted, func(name string) {
		if name != "top_logprobs" || f.cur.Kind() != jsonscan.Array {
			f.cur.Skip()
			return
		}
		f.elements(func(int) { f.tokenLogprob([]member{{"bytes", "null"}}) })
	})
}

// withLogprobs completes the token probabilities of a chunk.
func withLogprobs(chunk []byte) []byte {
	if !hasLogprobs(chunk) {
		return chunk
	}
	f := newFiller(chunk)
	return f.run(func() {
		f.object(nil, func(name string) {
			if name == "choices" && f.cur.Kind() == jsonscan.Array {
				f.choicesWithLogprobs()
				return
			}
			f.cur.Skip()
		})
	})
}

func (f *filler) choicesWithLogprobs() {
	f.elements(func(int) {
		if f.cur.Kind() != jsonscan.Object {
			f.cur.Skip()
			return
		}
		f.object(nil, func(name string) {
			if name == "logprobs" && f.cur.Kind() == jsonscan.Object {
				f.logprobs()
				return
			}
			f.cur.Skip()
		})
	})
}

// hasLogprobs reports whether an event may have token probabilities, far more cheaply
// than a scan does. It is true of some events that have none, and false of nearly all.
func hasLogprobs(json []byte) bool {
	const name = `"logprobs"`
	for rest := json; ; {
		i := bytes.Index(rest, []byte(name))
		if i < 0 {
			return false
		}
		rest = rest[i+len(name):]
		if value := bytes.TrimLeft(rest, ": \t\r\n"); len(value) > 0 && value[0] == '{' {
			return true
		}
	}
}
