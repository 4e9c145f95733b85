package session

import (
	"bytes"
	"errors"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// v1Options read agents' JSON. Answers of engines lie two levels deep in it.
var v1Options = jsonscan.Options{MaxDepth: jsonscan.DefaultMaxDepth + 2}

// v1Message is an envelope with what is known of its payload. All of it are raw
// JSON values that alias the message; one that was not there is empty.
type v1Message struct {
	kind, id []byte
	size     int // of the whole message
	// payload is all of it, for what few messages have.
	payload []byte
	// What answers have.
	chunk, response, failure, status, done []byte
}

var errNotEnvelope = errors.New("a message is not an object with type, request_id and payload")

// readV1 reads an envelope in one pass and without allocating. Of members that
// are repeated the last one counts, as in encoding/json.
func readV1(msg []byte) (m v1Message, err error) {
	c := jsonscan.NewCursor(msg, v1Options)
	if c.Kind() != jsonscan.Object {
		return m, errNotEnvelope
	}
	m.size = len(msg)
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			break
		}
		name := key.Name(msg)
		if string(name) == "payload" && c.Kind() == jsonscan.Object {
			m.readPayload(msg, &c)
			continue
		}
		value := c.Skip().Of(msg)
		switch string(name) {
		case "type":
			m.kind = value
		case "request_id":
			m.id = value
		}
	}
	if err := c.End(); err != nil {
		return v1Message{}, err
	}
	return m, nil
}

// readPayload walks the members of the payload, at which the cursor stands.
func (m *v1Message) readPayload(msg []byte, c *jsonscan.Cursor) {
	start := c.Pos()
	m.chunk, m.response, m.failure, m.status, m.done = nil, nil, nil, nil, nil
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			break
		}
		name := key.Name(msg)
		value := c.Skip().Of(msg)
		switch string(name) {
		case "chunk":
			m.chunk = value
		case "response":
			m.response = value
		case "error":
			m.failure = value
		case "status_code":
			m.status = value
		case "done":
			m.done = value
		}
	}
	m.payload = msg[start:c.Pos()]
}

// headID finds the request of a message of which only the beginning is here.
func headID(head []byte) (id []byte, ok bool) {
	c := jsonscan.NewCursor(head, v1Options)
	c.Enter()
	for {
		key, more := c.NextMember()
		if !more {
			return nil, false
		}
		name := key.Name(head)
		value := c.Skip().Of(head)
		if c.Failed() {
			return nil, false
		}
		if string(name) == "request_id" {
			return value, true
		}
	}
}

// plain is the content of a raw JSON string without escapes, as every number of
// a request that was sent is.
func plain(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// text decodes a raw JSON string; anything else is empty.
func text(raw []byte) string {
	s, err := jsonscan.DecodeString(raw)
	if err != nil {
		return ""
	}
	return s
}

// present reports whether a raw value is there and not null.
func present(raw []byte) bool { return len(raw) > 0 && raw[0] != 'n' }

// isTrue reports whether a raw value is true.
func isTrue(raw []byte) bool { return string(raw) == "true" }

// appendEvent appends a chunk as the event of a stream. JSON may have line ends
// between its parts, which would end the event.
func appendEvent(dst, chunk []byte) []byte {
	dst = append(dst, "data: "...)
	at := len(dst)
	dst = append(dst, chunk...)
	if bytes.ContainsAny(chunk, "\r\n") {
		for i := range dst[at:] {
			if b := dst[at+i]; b == '\r' || b == '\n' {
				dst[at+i] = ' '
			}
		}
	}
	return append(dst, "\n\n"...)
}

// doneEvent ends a stream.
const doneEvent = "data: [DONE]\n\n"

// v1Frame is a message for the agent: its beginning, a raw body, and the end.
type v1Frame struct {
	head []byte
	body []byte
	tail string
}

func (f *v1Frame) parts([]byte) (head, body []byte, tail string, err error) {
	return f.head, f.body, f.tail, nil
}

// size is in bytes.
func (f *v1Frame) size() int { return len(f.head) + len(f.body) + len(f.tail) }

// v1Head begins a message; the payload's members follow.
func v1Head(kind, id string) []byte {
	dst := make([]byte, 0, 256)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","request_id":`...)
	dst = jsonscan.AppendString(dst, id)
	return append(dst, `,"payload":{`...)
}

// v1Ack is an acknowledgement. The first that tells of success makes an agent
// registered.
func v1Ack(id string, success bool, message string) *v1Frame {
	dst := append(v1Head("ack", id), `"request_id":`...)
	dst = jsonscan.AppendString(dst, id)
	dst = append(dst, `,"success":`...)
	dst = strconv.AppendBool(dst, success)
	if message != "" {
		dst = append(dst, `,"message":`...)
		dst = jsonscan.AppendString(dst, message)
	}
	return &v1Frame{head: append(dst, "}}"...)}
}

// v1Error says what is wrong.
func v1Error(id string, code int, message string) *v1Frame {
	dst := v1Head("error", id)
	if id != "" {
		dst = append(dst, `"request_id":`...)
		dst = append(jsonscan.AppendString(dst, id), ',')
	}
	dst = append(dst, `"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	return &v1Frame{head: append(jsonscan.AppendString(dst, message), "}}"...)}
}

// v1Inference asks for an answer. The body goes into it as it is.
func v1Inference(id, endpoint, model string, body []byte, stream bool) *v1Frame {
	dst := append(v1Head("inference", id), `"endpoint_id":`...)
	dst = jsonscan.AppendString(dst, endpoint)
	dst = append(dst, `,"model_id":`...)
	dst = jsonscan.AppendString(dst, model)
	dst = append(dst, `,"stream":`...)
	dst = strconv.AppendBool(dst, stream)
	return &v1Frame{head: append(dst, `,"request":`...), body: body, tail: "}}"}
}

// v1Warmup asks for a model to be loaded.
func v1Warmup(id, model string) *v1Frame {
	dst := append(v1Head("warmup", id), `"model_id":`...)
	dst = jsonscan.AppendString(dst, model)
	return &v1Frame{head: append(dst, `,"warmup_type":"load"}}`...)}
}
