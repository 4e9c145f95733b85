package rewrite

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
)

// messageHas is what a message must have, bothNull what token probabilities must.
var (
	messageHas = []member{{"refusal", "null"}, {"content", "null"}, {"role", `"assistant"`}}
	bothNull   = []member{{"content", "null"}, {"refusal", "null"}}
)

// logprobs gives the token probabilities of a choice what they must have: lists
// of tokens, each with its bytes and its alternatives.
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

// withLogprobs gives the token probabilities of a chunk what they must have.
func withLogprobs(chunk []byte) []byte {
	if !hasLogprobs(chunk) {
		return chunk
	}
	f := filler{data: chunk, cur: jsonscan.New(chunk, jsonscan.Options{}).Cursor()}
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

// hasLogprobs tells an event with token probabilities from nearly all others,
// which is far cheaper than a scan. It is true of some that have none.
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
