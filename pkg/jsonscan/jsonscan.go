// Package jsonscan is a strict, validating scanner over one JSON document in
// memory. It finds where values are and never builds them, so that a body can be
// checked, understood and patched without being marshalled again.
//
// # Grammar
//
// RFC 8259 exactly, the same language that encoding/json.Valid accepts, with
// these documented differences:
//
//   - nesting deeper than Options.MaxDepth (default 128) is refused;
//   - with Options.RefuseInvalidUTF8, bytes inside strings that are not UTF-8
//     are refused; without it they are tolerated, as encoding/json does;
//   - a walk over an object refuses more than Options.MaxMembers members.
//
// A byte order mark, control characters inside strings and anything but
// whitespace after the document are refused. Numbers are checked by grammar
// and not evaluated, so 1e999999 is a valid number here. Only Int, Integral and
// Float judge its size. Escapes of lone surrogates are valid, and stay as they are
// in the raw bytes; DecodeString decodes them to U+FFFD.
//
// # Cost
//
// One pass, O(n), no recursion. A Cursor allocates nothing; memory does not
// grow with the input. Errors carry a byte offset and a reason, never content.
//
// # Two ways to use it
//
// Doc gives range iterators: Members over the top-level object, and Object and
// Array over a span found before (which scans that span a second time). Cursor
// is the pull parser beneath these, for callers that descend in a single pass.
package jsonscan

import (
	"iter"
	"strconv"
)

// DefaultMaxDepth is the nesting limit when Options.MaxDepth is zero.
const DefaultMaxDepth = 128

// maxDepthLimit is the size of the fixed stack of container kinds, in bits.
const maxDepthLimit = 1024

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds of JSON values. Invalid is no value at all.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"invalid", "null", "boolean", "number", "string", "array", "object"}

// String is the JSON name of the kind, fit for an error message.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Options bound the documents that are accepted. The zero value accepts the language
// of encoding/json, with nesting up to DefaultMaxDepth.
type Options struct {
	// MaxDepth is how many arrays and objects may be open at once. Zero is
	// DefaultMaxDepth; more than 1024 is taken as 1024.
	MaxDepth int
	// MaxMembers bounds the members of each object, and the elements of each
	// array, that is walked with Doc. Zero is no bound, which costs no memory,
	// because nothing is kept per member. The inside of a skipped value is not
	// counted.
	MaxMembers int
	// RefuseInvalidUTF8 refuses strings and keys that hold bytes that are not
	// UTF-8.
	RefuseInvalidUTF8 bool
}

func (o Options) depth() int {
	switch {
	case o.MaxDepth <= 0:
		return DefaultMaxDepth
	case o.MaxDepth > maxDepthLimit:
		return maxDepthLimit
	}
	return o.MaxDepth
}

// Span is the half-open byte range [Start, End) of a document. The zero Span
// is "not there": no value lies at offset zero with length zero.
type Span struct {
	Start, End int
}

// Found reports whether the span is set.
func (s Span) Found() bool { return s.End > s.Start }

// Len is the number of bytes in the span.
func (s Span) Len() int { return s.End - s.Start }

// Of is the part of data that the span covers.
func (s Span) Of(data []byte) []byte { return data[s.Start:s.End] }

// Key is the name of an object's member.
type Key struct {
	// Span covers the raw key between its quotes; it may be empty.
	Span Span
	// Escaped reports whether the key holds escapes. If it does, its raw bytes
	// are not its name.
	Escaped bool
}

// Name is the key's name: a slice of data when the key has no escapes, and a new
// slice when the key has escapes.
func (k Key) Name(data []byte) []byte {
	raw := k.Span.Of(data)
	if !k.Escaped {
		return raw
	}
	return appendUnescaped(make([]byte, 0, len(raw)), raw)
}

// Member is one member of an object.
type Member struct {
	Key   Key
	Value Span
	Kind  Kind
}

// Element is one element of an array.
type Element struct {
	Value Span
	Kind  Kind
}

// Reason is why a document was refused.
type Reason string

// The reasons. They are stable and safe to show to whoever sent the document.
const (
	ReasonSyntax     Reason = "unexpected character"
	ReasonTruncated  Reason = "unexpected end of document"
	ReasonControl    Reason = "control character in string"
	ReasonEscape     Reason = "invalid escape in string"
	ReasonUTF8       Reason = "string is not valid UTF-8"
	ReasonNumber     Reason = "malformed number"
	ReasonTrailing   Reason = "unexpected data after the document"
	ReasonDepth      Reason = "nested too deeply"
	ReasonMembers    Reason = "too many members"
	ReasonNotObject  Reason = "not an object"
	ReasonNotArray   Reason = "not an array"
	ReasonNotString  Reason = "not a string"
	ReasonNotInteger Reason = "not an integer"
	ReasonNotNumber  Reason = "not a number"
	ReasonRange      Reason = "number out of range"
)

// Error is a refusal. It never holds any of the document's content.
type Error struct {
	// Offset is the byte offset of the fault in the document (in the value,
	// for the functions that take a raw value).
	Offset int
	Reason Reason
}

// Error is "reason at byte offset".
func (e *Error) Error() string {
	return string(e.Reason) + " at byte " + strconv.Itoa(e.Offset)
}

// Doc is one JSON document and the bounds under which it is read.
type Doc struct {
	data []byte
	opts Options
}

// New returns a Doc over data, which must not change while the Doc is in use.
func New(data []byte, opts Options) Doc { return Doc{data: data, opts: opts} }

// Valid checks the whole document, whose value may be of any kind.
func (d Doc) Valid() error {
	c := d.Cursor()
	c.Skip()
	return c.End()
}

// Cursor returns a cursor at the start of the document.
func (d Doc) Cursor() Cursor { return NewCursor(d.data, d.opts) }

// CursorAt returns a cursor at the value at span, which an earlier walk over
// the same document found. The cursor reads nothing behind the span, and counts
// depth from the span.
func (d Doc) CursorAt(span Span) Cursor {
	c := NewCursor(d.data[:span.End], d.opts)
	c.pos = span.Start
	return c
}

// Members walks the members of the top-level object in one pass and checks the
// whole document. A fault comes as the last pair, with an error. The document is
// whole and valid only if the walk ends by itself and without an error.
func (d Doc) Members() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		c := d.Cursor()
		if !d.members(&c, yield) {
			return
		}
		if err := c.End(); err != nil {
			yield(Member{}, err)
		}
	}
}

// Object walks the members of the object at span, which an earlier walk over
// the same document found. Depth counts from the span.
func (d Doc) Object(span Span) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		c := d.CursorAt(span)
		d.members(&c, yield)
	}
}

// Array walks the elements of the array at span, which an earlier walk over
// the same document found. Depth counts from the span.
func (d Doc) Array(span Span) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		c := d.CursorAt(span)
		if c.Kind() != Array {
			c.fail(c.pos, ReasonNotArray)
		}
		c.Enter()
		for n := 1; c.NextElement(); n++ {
			if d.opts.MaxMembers > 0 && n > d.opts.MaxMembers {
				c.fail(c.pos, ReasonMembers)
				break
			}
			e := Element{Kind: c.Kind()}
			e.Value = c.Skip()
			if c.Failed() {
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := c.Err(); err != nil {
			yield(Element{}, err)
		}
	}
}

// members walks the object at the cursor. It reports whether the walk came to
// the object's end without a fault and without the consumer stopping.
func (d Doc) members(c *Cursor, yield func(Member, error) bool) bool {
	if c.Kind() != Object {
		c.fail(c.pos, ReasonNotObject)
	}
	c.Enter()
	n := 0
	for {
		key, ok := c.NextMember()
		if !ok {
			break
		}
		if n++; d.opts.MaxMembers > 0 && n > d.opts.MaxMembers {
			c.fail(key.Span.Start, ReasonMembers)
			break
		}
		m := Member{Key: key, Kind: c.Kind()}
		m.Value = c.Skip()
		if c.Failed() {
			break
		}
		if !yield(m, nil) {
			return false
		}
	}
	if err := c.Err(); err != nil {
		yield(Member{}, err)
		return false
	}
	return true
}
