package v1

import (
	"errors"

	"svc.internal/pkg/jsonscan"
)

// envelope is a message with the known members of its payload. All of them are raw JSON
// values that alias the message; a missing one is empty.
type envelope struct {
	kind, id []byte
	// payload is the whole payload, for the few messages that need it.
	payload []byte
	// Members of answers.
	chunk, response, failure, status, done []byte
	// Members of answers to warm-ups and of refusals.
	success, loadTime, message []byte
	// Members of replies to tasks.
	challenge, benchmark, results []byte
}

var errNotEnvelope = errors.New("a message is not an object with type, request_id and payload")

// readEnvelope reads a message in one pass and without allocating. Of members that are
// repeated the last one counts, as in encoding/json.
func readEnvelope(msg []byte) (m envelope, err error) {
	c := jsonscan.NewCursor(msg, options)
	if c.Kind() != jsonscan.Object {
		return m, errNotEnvelope
	}
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
		return envelope{}, err
	}
	return m, nil
}

// readPayload walks the members of the payload, at which the cursor stands.
func (m *envelope) readPayload(msg []byte, c *jsonscan.Cursor) {
	start := c.Pos()
	*m = envelope{kind: m.kind, id: m.id}
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
		case "success":
			m.success = value
		case "load_time_ms":
			m.loadTime = value
		case "message":
			m.message = value
		case "challenge_id":
			m.challenge = value
		case "benchmark_id":
			m.benchmark = value
		case "results":
			m.results = value
		}
	}
	m.payload = msg[start:c.Pos()]
}

// Name implements dialect.Codec.
func (codec) Name(head []byte) []byte {
	c := jsonscan.NewCursor(head, options)
	c.Enter()
	for {
		key, more := c.NextMember()
		if !more {
			return nil
		}
		name := key.Name(head)
		value := c.Skip().Of(head)
		if c.Failed() {
			return nil
		}
		if string(name) == "request_id" {
			return plain(value)
		}
	}
}

// plain is the content of a raw JSON string without escapes, as every name of a
// request that was sent is.
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
