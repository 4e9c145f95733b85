package judge

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"

	"svc.internal/services/verifier/internal/statistic"
)

// The bounds of an answer's form.
const (
	// maxDocuments bounds the events of a stream.
	maxDocuments = 8_192
	// maxCount bounds a count of tokens.
	maxCount = statistic.MaxTokens
)

// reply is what an engine answered: a chat or a vector.
type reply struct {
	text   string
	finish string
	// prompt and output are the usage that the body states, if it has one.
	prompt, output int64
	hasUsage       bool
	vector         []float64
	// documents are the JSON objects of the body, in which log-probabilities stand.
	documents []json.RawMessage
}

// read reads an engine's answer: one JSON object, a stream of events (text/event-stream),
// or the objects of a stream one behind the other, as dialect v1 has them. Names of members
// count as they are written, and none that matters may stand twice, because readers differ
// in which of the two counts.
func read(raw []byte) (reply, statistic.Void) {
	documents, v := split(raw)
	if v != statistic.None {
		return reply{}, v
	}
	r := reply{documents: documents}
	for _, d := range documents {
		if v := r.add(d); v != statistic.None {
			return reply{}, v
		}
	}
	return r, statistic.None
}

// split returns the documents of a body.
func split(raw []byte) ([]json.RawMessage, statistic.Void) {
	if len(raw) > statistic.MaxBody {
		return nil, statistic.TooLarge
	}
	if body := bytes.TrimSpace(raw); len(body) > 0 && body[0] == '{' {
		return objects(body)
	}
	return events(raw)
}

// objects splits objects that stand one behind the other.
func objects(body []byte) ([]json.RawMessage, statistic.Void) {
	var out []json.RawMessage
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var one json.RawMessage
		switch err := d.Decode(&one); {
		case errors.Is(err, io.EOF):
			return out, statistic.None
		case err != nil:
			return nil, statistic.Malformed
		case len(out) == maxDocuments:
			return nil, statistic.TooLarge
		}
		out = append(out, one)
	}
}

var done = []byte("[DONE]")

// events splits a stream of events. The data lines of an event are joined by a line feed, as
// the format has it; other fields and comments say nothing. Nothing may follow [DONE].
func events(raw []byte) ([]json.RawMessage, statistic.Void) {
	var (
		out   []json.RawMessage
		data  []byte
		has   bool
		ended bool
	)
	lines := bytes.Split(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\n"))
	for i, line := range lines {
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			rest = bytes.TrimPrefix(rest, []byte(" "))
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, rest...), true
		}
		if (len(line) > 0 && i < len(lines)-1) || !has {
			continue
		}
		switch {
		case ended:
			return nil, statistic.Malformed
		case bytes.Equal(bytes.TrimSpace(data), done):
			ended = true
		case len(out) == maxDocuments:
			return nil, statistic.TooLarge
		case !json.Valid(data):
			return nil, statistic.Malformed
		default:
			out = append(out, json.RawMessage(data))
		}
		data, has = nil, false
	}
	if len(out) == 0 {
		return nil, statistic.Malformed
	}
	return out, statistic.None
}

// add takes one document into the reply.
func (r *reply) add(d json.RawMessage) statistic.Void {
	m, ok := members(d)
	switch {
	case !ok:
		return statistic.Malformed
	case present(m["error"]):
		return statistic.Failed
	}
	r.usage(m["usage"])
	if present(m["data"]) {
		return r.vectors(m["data"])
	}
	var choices []json.RawMessage
	if !list(m["choices"], &choices) || len(choices) > 1 {
		return statistic.Malformed
	}
	if len(choices) == 0 {
		return statistic.None
	}
	return r.choice(choices[0])
}

// choice takes the one choice of a document into the reply.
func (r *reply) choice(raw json.RawMessage) statistic.Void {
	m, ok := members(raw)
	if !ok {
		return statistic.Malformed
	}
	var index int
	if present(m["index"]) && (json.Unmarshal(m["index"], &index) != nil || index != 0) {
		return statistic.Malformed
	}
	message, delta := m["message"], m["delta"]
	if present(message) && (present(delta) || len(r.documents) > 1) {
		return statistic.Malformed
	}
	if !present(message) {
		message = delta
	}
	text, ok := content(message)
	if !ok || text != "" && r.finish != "" {
		return statistic.Malformed
	}
	if len(r.text)+len(text) > statistic.MaxAnswerBytes {
		return statistic.TooLarge
	}
	r.text += text
	if !present(m["finish_reason"]) {
		return statistic.None
	}
	var finish string
	if json.Unmarshal(m["finish_reason"], &finish) != nil || r.finish != "" && r.finish != finish {
		return statistic.Malformed
	}
	r.finish = finish
	return statistic.None
}

// content returns the text of a message or a delta; null is none.
func content(raw json.RawMessage) (string, bool) {
	if !present(raw) {
		return "", true
	}
	m, ok := members(raw)
	if !ok {
		return "", false
	}
	if !present(m["content"]) {
		return "", true
	}
	var text string
	return text, json.Unmarshal(m["content"], &text) == nil
}

// usage takes a statement of usage into the reply. One that cannot be read is none.
func (r *reply) usage(raw json.RawMessage) {
	m, ok := members(raw)
	if !ok {
		return
	}
	prompt, ok := count(m["prompt_tokens"])
	if !ok {
		return
	}
	output, _ := count(m["completion_tokens"]) // embeddings have none
	r.prompt, r.output, r.hasUsage = prompt, output, true
}

// vectors takes the one vector of an embedding into the reply: numbers, or base64 of
// little-endian float32.
func (r *reply) vectors(raw json.RawMessage) statistic.Void {
	var data []json.RawMessage
	if !list(raw, &data) || len(data) != 1 || r.vector != nil {
		return statistic.Malformed
	}
	m, ok := members(data[0])
	if !ok {
		return statistic.Malformed
	}
	var packed string
	if json.Unmarshal(m["embedding"], &packed) == nil {
		b, err := base64.StdEncoding.DecodeString(packed)
		if err != nil || len(b)%4 != 0 {
			return statistic.Malformed
		}
		if len(b)/4 > statistic.MaxDimensions {
			return statistic.TooLarge
		}
		for ; len(b) > 0; b = b[4:] {
			r.vector = append(r.vector, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
		return statistic.None
	}
	if json.Unmarshal(m["embedding"], &r.vector) != nil {
		return statistic.Malformed
	}
	if len(r.vector) > statistic.MaxDimensions {
		return statistic.TooLarge
	}
	return statistic.None
}
