package openai

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"svc.internal/pkg/jsonscan"
)

// The types of errors, as the public API names them.
const (
	TypeInvalidRequest    = "invalid_request_error"
	TypeAuthentication    = "authentication_error"
	TypePermission        = "permission_error"
	TypeInsufficientQuota = "insufficient_quota"
	TypeRateLimit         = "rate_limit_error"
	TypeNotFound          = "not_found_error"
	TypeServer            = "server_error"
)

// MaxErrorMessage bounds, in bytes, the message that ParseError keeps.
const MaxErrorMessage = 4 << 10

// maxErrorField bounds, in bytes, type, param and code that ParseError keeps.
const maxErrorField = 256

// Error is an error as it goes over the wire.
type Error struct {
	// Status is the HTTP status; it is not part of the body.
	Status int
	// Message is for people.
	Message string
	// Type is one of the Type constants.
	Type string
	// Param is the path of the faulty field; empty is null on the wire.
	Param string
	// Code is the value that programs switch on; empty is null on the wire.
	Code string
	// Reason is metadata.reason; empty leaves metadata out.
	Reason string
	// ResetsAt is metadata.resets_at, a time in RFC 3339; empty leaves it out.
	ResetsAt string
}

// AppendError appends the error body:
//
//	{"error":{"message":…,"type":…,"param":…,"code":…,"metadata":{"reason":…,"resets_at":…}},
//	"request_id":"…"}
//
// "error" is always the first key, because some clients recognise an error
// within a stream only by a data line that begins with it. An empty requestID
// leaves request_id out.
func AppendError(dst []byte, e Error, requestID string) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = jsonscan.AppendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = jsonscan.AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendNullable(dst, e.Code)
	if e.Reason != "" {
		dst = append(dst, `,"metadata":{"reason":`...)
		dst = jsonscan.AppendString(dst, e.Reason)
		if e.ResetsAt != "" {
			dst = append(dst, `,"resets_at":`...)
			dst = jsonscan.AppendString(dst, e.ResetsAt)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonscan.AppendString(dst, requestID)
	}
	return append(dst, '}')
}

// AppendErrorEvent appends the error as a server-sent event. No [DONE] may
// follow it.
func AppendErrorEvent(dst []byte, e Error, requestID string) []byte {
	dst = append(dst, "data: "...)
	dst = AppendError(dst, e, requestID)
	return append(dst, "\n\n"...)
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonscan.AppendString(dst, s)
}

// ParseError reads the error body of an engine, whatever its dialect:
//
//	{"error":{"message":…,"type":…,"param":…,"code":…}}   OpenAI, vLLM ≥ 0.9
//	{"object":"error","message":…,"type":…,"code":400}    older vLLM, SGLang
//	{"error":"text"}                                      Ollama
//	{"message":…}   {"detail":…}   {"detail":[{"msg":…}]} proxies, FastAPI
//	[{"error":{…}}]                                       Gemini
//	plain text
//
// Members that are missing or of another kind stay empty; a number as code is
// kept as its digits. Status is left zero. The message is valid UTF-8 without
// control characters, at most MaxErrorMessage bytes, and the engine's: a
// caller decides whether a client may see it.
func ParseError(body []byte) Error {
	doc := jsonscan.New(body, jsonscan.Options{})
	if doc.Valid() != nil {
		return Error{Message: cleanText(body)}
	}
	c := doc.Cursor()
	if c.Kind() == jsonscan.Array {
		c.Enter()
		c.NextElement()
	}
	var e Error
	switch kind := c.Kind(); kind {
	case jsonscan.Object:
		readError(body, &c, &e, true)
	case jsonscan.String:
		e.Message = errorText(body, &c, kind)
	default:
	}
	return e
}

// readError reads the members of the object at the cursor into e. At the outer level an
// "error" member overrules the members beside it.
func readError(body []byte, c *jsonscan.Cursor, e *Error, outer bool) {
	var inner Error
	found := false
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			break
		}
		kind := c.Kind()
		switch name := string(key.Name(body)); {
		case name == "error" && outer && kind == jsonscan.Object:
			readError(body, c, &inner, false)
			found = true
		case name == "error" && outer && kind == jsonscan.String:
			inner.Message = errorText(body, c, kind)
			found = true
		case name == "detail" && kind == jsonscan.Array:
			readDetail(body, c, e)
		case name == "detail" && kind == jsonscan.Object:
			readError(body, c, e, false)
		case name == "message", name == "detail", name == "msg":
			if text := errorText(body, c, kind); text != "" {
				e.Message = text
			}
		case name == "type":
			e.Type = truncate(errorText(body, c, kind), maxErrorField)
		case name == "param":
			e.Param = truncate(errorText(body, c, kind), maxErrorField)
		case name == "code":
			e.Code = truncate(errorText(body, c, kind), maxErrorField)
		default:
			c.Skip()
		}
	}
	if found {
		if inner.Type == "" {
			inner.Type = e.Type
		}
		if inner.Message == "" {
			inner.Message = e.Message
		}
		*e = inner
	}
}

// readDetail reads the first of FastAPI's validation errors.
func readDetail(body []byte, c *jsonscan.Cursor, e *Error) {
	c.Enter()
	for first := true; c.NextElement(); first = false {
		if first && c.Kind() == jsonscan.Object {
			readError(body, c, e, false)
			continue
		}
		c.Skip()
	}
}

// errorText consumes the value at the cursor and returns the text of a string or the
// digits of a number.
func errorText(body []byte, c *jsonscan.Cursor, kind jsonscan.Kind) string {
	raw := c.Skip().Of(body)
	switch kind {
	case jsonscan.Number:
		return truncate(string(raw[:min(len(raw), maxErrorField)]), maxErrorField)
	case jsonscan.String:
		decoded, err := jsonscan.AppendDecoded(nil, raw)
		if err != nil {
			return ""
		}
		return cleanText(decoded)
	default:
		return ""
	}
}

// cleanText returns text trimmed, without control characters and within the bound.
func cleanText(text []byte) string {
	text = bytes.TrimSpace(text)
	// Every rune that is dropped or replaced is at most three bytes of output
	// for one of input, so that a bounded prefix is enough to look at.
	text = text[:min(len(text), 2*MaxErrorMessage)]
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r >= 0x7F && r < 0xA0:
			return -1
		}
		return r
	}, string(text))
	return truncate(strings.ToValidUTF8(s, "\uFFFD"), MaxErrorMessage)
}

// truncate cuts s to at most n bytes without splitting a rune.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
