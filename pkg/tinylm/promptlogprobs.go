package tinylm

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"svc.internal/pkg/tinylm/internal/transcript"
)

// scored is one token of a prompt with its log-probability, its rank and the likeliest
// tokens at its place.
type scored struct {
	Candidate
	rank int
	top  []Candidate
}

// readChat reads the prompt of a request and the text that the answer continues. It
// returns the score of each token if the request asks for them.
func (m *Model) readChat(ctx context.Context, c *chat) (*State, []scored, error) {
	length := len(c.prompt) + len(c.continued)
	if length >= ContextTokens {
		return nil, nil, &ContextLengthError{Tokens: length}
	}
	var scores []scored
	var see func(*Position)
	if c.scored {
		scores = make([]scored, 0, length)
		see = func(p *Position) {
			scores = append(scores, scored{Candidate{p.Byte, p.Logprob(p.Byte)}, p.Rank(p.Byte), p.Top(c.scoredTop)})
		}
	}
	walk := newWalk(m.begin())
	if err := walk.prompt(ctx, m.variant.keep(c.prompt), see); err != nil {
		return nil, nil, err
	}
	if err := walk.answer(ctx, c.continued, see); err != nil {
		return nil, nil, err
	}
	walk.state.tokens = length
	return walk.state, scores, nil
}

// writeScored sends a whole answer with its prompt_logprobs, which it encodes token by
// token, because together they take up to 10 MiB. Like writeJSON it ignores a failed write.
func writeScored(w http.ResponseWriter, out completion, scores []scored) {
	body, _ := json.Marshal(out) // strings and numbers always marshal
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	to := bufio.NewWriter(w)
	_, _ = to.Write(body[:len(body)-1])
	_, _ = to.WriteString(`,"prompt_logprobs":[`)
	var entry []byte
	var text unfinished
	for i := range scores {
		if i == 0 {
			entry = append(entry[:0], "null"...) // nothing precedes the first token
		} else {
			entry = appendScored(append(entry[:0], ','), &scores[i], &text)
		}
		_, _ = to.Write(entry)
		text.take(scores[i].Byte)
	}
	_, _ = to.WriteString("]}\n")
	_ = to.Flush()
}

// appendScored writes an object from token id to what is known of the token: first the
// token that stands there, then the other likeliest tokens.
func appendScored(to []byte, s *scored, text *unfinished) []byte {
	to = appendCandidate(append(to, '{'), s.Candidate, s.rank, text)
	for i, other := range s.top {
		if other.Byte != s.Byte {
			to = appendCandidate(append(to, ','), other, i+1, text)
		}
	}
	return append(to, '}')
}

func appendCandidate(to []byte, c Candidate, rank int, text *unfinished) []byte {
	decoded, _ := json.Marshal(text.with(c.Byte)) // a string always marshals
	to = strconv.AppendUint(append(to, '"'), uint64(c.Byte), 10)
	to = strconv.AppendFloat(append(to, `":{"logprob":`...), c.Logprob, 'g', -1, 64)
	to = strconv.AppendInt(append(to, `,"rank":`...), int64(rank), 10)
	to = append(append(to, `,"decoded_token":`...), decoded...)
	to = strconv.AppendUint(append(to, `,"bytes":[`...), uint64(c.Byte), 10)
	return append(to, "]}"...)
}

// unfinished holds the first bytes of a character whose last byte is still to come.
type unfinished struct {
	bytes [utf8.UTFMax]byte
	n     int
}

// with decodes b behind the bytes so far, as vLLM does: a byte that leaves its character
// unfinished is "", and the byte that finishes it is the whole character.
func (u *unfinished) with(b byte) string {
	switch {
	case b == transcript.System:
		return "<|system|>"
	case b == transcript.User:
		return "<|user|>"
	case b == transcript.Assistant:
		return "<|assistant|>"
	case b == transcript.End:
		return "<|end|>"
	case b < utf8.RuneSelf:
		return string(rune(b))
	}
	u.bytes[u.n] = b
	if character := u.bytes[:u.n+1]; utf8.Valid(character) {
		return string(character)
	}
	return ""
}

// take moves on behind b.
func (u *unfinished) take(b byte) {
	whole := u.with(b) != ""
	switch {
	case whole:
		u.n = 0
	case utf8.RuneStart(b):
		u.bytes[0], u.n = b, 1
	case u.n == 0 || u.n == utf8.UTFMax-1:
		u.n = 0 // no character has these bytes
	default:
		u.n++ // with has stored b
	}
}
