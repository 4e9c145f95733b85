package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Cursor is a pull parser. Every method moves forward only. After the first fault
// every method does nothing and Err returns that fault, so that a caller may look
// at Err once, after its loop.
//
// Kind returns the kind of the next value. Skip consumes a whole value. Enter steps
// into an array or object. There NextElement or NextMember moves to the next part, and
// returns false behind the last part. Between two calls of NextElement or NextMember
// exactly one value must be consumed. End ends the document.
type Cursor struct {
	data  []byte
	pos   int
	depth int
	limit int
	first bool // no member or element of the innermost open container was seen
	utf8  bool // refuse bytes in strings that are not UTF-8
	fault Error
}

// NewCursor returns a cursor at the start of data, which must not change while the
// cursor is in use. A cursor does not enforce Options.MaxMembers.
func NewCursor(data []byte, opts Options) Cursor {
	return Cursor{data: data, limit: opts.depth(), utf8: opts.RefuseInvalidUTF8}
}

// Pos is the offset of the next byte to be read.
func (c *Cursor) Pos() int { return c.pos }

// Err is the first fault, or nil.
func (c *Cursor) Err() error {
	if !c.Failed() {
		return nil
	}
	fault := c.fault
	return &fault
}

// Failed reports whether a fault was met.
func (c *Cursor) Failed() bool { return c.fault.Reason != "" }

func (c *Cursor) fail(offset int, reason Reason) {
	if !c.Failed() {
		c.fault = Error{Offset: offset, Reason: reason}
	}
}

// failAt refuses the byte at offset, or the end of the document.
func (c *Cursor) failAt(offset int) {
	if offset >= len(c.data) {
		c.fail(len(c.data), ReasonTruncated)
		return
	}
	c.fail(offset, ReasonSyntax)
}

// Kind skips whitespace and returns the kind of the value that begins there, by its
// first byte. Invalid means a fault, now or as soon as the value is consumed.
func (c *Cursor) Kind() Kind {
	if c.Failed() {
		return Invalid
	}
	c.pos = skipSpace(c.data, c.pos)
	if c.pos >= len(c.data) {
		return Invalid
	}
	return kindOf(c.data[c.pos])
}

func kindOf(b byte) Kind {
	switch b {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return Invalid
}

// Enter steps into the array or object that begins here.
func (c *Cursor) Enter() {
	switch c.Kind() {
	case Array, Object:
	default:
		c.failAt(c.pos)
		return
	}
	if c.depth++; c.depth > c.limit {
		c.fail(c.pos, ReasonDepth)
		return
	}
	c.pos++
	c.first = true
}

// NextMember moves to the value of the next member of the object that was entered,
// and returns the member's key. It returns false at the object's end or after a
// fault.
func (c *Cursor) NextMember() (Key, bool) {
	if !c.next('}') {
		return Key{}, false
	}
	if c.pos >= len(c.data) || c.data[c.pos] != '"' {
		c.failAt(c.pos)
		return Key{}, false
	}
	start := c.pos + 1
	end, escaped := c.scanString(c.pos)
	if c.Failed() {
		return Key{}, false
	}
	i := skipSpace(c.data, end)
	if i >= len(c.data) || c.data[i] != ':' {
		c.failAt(i)
		return Key{}, false
	}
	c.pos = i + 1
	return Key{Span: Span{start, end - 1}, Escaped: escaped}, true
}

// NextElement moves to the next element of the array that was entered. It returns
// false at the array's end or after a fault.
func (c *Cursor) NextElement() bool { return c.next(']') }

// next moves to the first byte of the next part, behind whitespace and the comma that
// follows an earlier part, and returns true. It returns false after it has consumed
// the closing bracket, or after a fault.
func (c *Cursor) next(closing byte) bool {
	if c.Failed() {
		return false
	}
	i := skipSpace(c.data, c.pos)
	c.pos = i
	if i >= len(c.data) {
		c.failAt(i)
		return false
	}
	if c.data[i] == closing {
		c.pos++
		c.depth--
		c.first = false
		return false
	}
	if !c.first {
		if c.data[i] != ',' {
			c.failAt(i)
			return false
		}
		i = skipSpace(c.data, i+1)
	}
	c.first = false
	c.pos = i
	return true
}

// End checks that only whitespace follows, and returns the first fault.
func (c *Cursor) End() error {
	if !c.Failed() {
		if c.pos = skipSpace(c.data, c.pos); c.pos < len(c.data) {
			c.fail(c.pos, ReasonTrailing)
		}
	}
	return c.Err()
}

// Skip consumes and checks one value with all that it holds, and returns its span.
func (c *Cursor) Skip() Span {
	if c.Failed() {
		return Span{}
	}
	i := skipSpace(c.data, c.pos)
	start := i
	if i < len(c.data) && (c.data[i] == '{' || c.data[i] == '[') {
		i = c.skipContainer(i)
	} else {
		i = c.skipScalar(i)
	}
	if c.Failed() {
		return Span{}
	}
	c.pos = i
	return Span{start, i}
}

// skipContainer consumes the array or object at i. It keeps the kind of each open
// container as one bit in a fixed stack, so it needs no recursion.
func (c *Cursor) skipContainer(i int) int {
	var objects [maxDepthLimit / 64]uint64
	open := 0
	data := c.data
	for {
		// A value begins at i.
		if i < len(data) && (data[i] == '{' || data[i] == '[') {
			if c.depth+open+1 > c.limit {
				c.fail(i, ReasonDepth)
				return i
			}
			isObject := data[i] == '{'
			setBit(&objects, open, isObject)
			open++
			i = skipSpace(data, i+1)
			if i < len(data) && data[i] == closer(isObject) {
				open--
				i++
			} else {
				if isObject {
					i = c.skipKey(i)
				}
				if c.Failed() {
					return i
				}
				continue
			}
		} else {
			i = c.skipScalar(i)
			if c.Failed() {
				return i
			}
		}
		// A value ended at i: close the containers that end here, or go on behind a comma.
		for {
			if open == 0 {
				return i
			}
			isObject := getBit(&objects, open-1)
			i = skipSpace(data, i)
			if i >= len(data) {
				c.failAt(i)
				return i
			}
			if data[i] == closer(isObject) {
				open--
				i++
				continue
			}
			if data[i] != ',' {
				c.failAt(i)
				return i
			}
			i = skipSpace(data, i+1)
			if isObject {
				i = c.skipKey(i)
			}
			break
		}
		if c.Failed() {
			return i
		}
	}
}

func closer(isObject bool) byte {
	if isObject {
		return '}'
	}
	return ']'
}

func setBit(set *[maxDepthLimit / 64]uint64, i int, on bool) {
	bit := uint64(1) << (i & 63)
	if on {
		set[i>>6&(len(set)-1)] |= bit
	} else {
		set[i>>6&(len(set)-1)] &^= bit
	}
}

func getBit(set *[maxDepthLimit / 64]uint64, i int) bool {
	return set[i>>6&(len(set)-1)]>>(i&63)&1 != 0
}

// skipKey consumes a key and its colon and returns the start of the value.
func (c *Cursor) skipKey(i int) int {
	if i >= len(c.data) || c.data[i] != '"' {
		c.failAt(i)
		return i
	}
	i, _ = c.scanString(i)
	if c.Failed() {
		return i
	}
	i = skipSpace(c.data, i)
	if i >= len(c.data) || c.data[i] != ':' {
		c.failAt(i)
		return i
	}
	return skipSpace(c.data, i+1)
}

// skipScalar consumes a string, number or literal.
func (c *Cursor) skipScalar(i int) int {
	if i >= len(c.data) {
		c.failAt(i)
		return i
	}
	switch c.data[i] {
	case '"':
		i, _ = c.scanString(i)
		return i
	case 't':
		return c.literal(i, "true")
	case 'f':
		return c.literal(i, "false")
	case 'n':
		return c.literal(i, "null")
	}
	end, reason := scanNumber(c.data, i)
	if reason != "" {
		if end >= len(c.data) {
			reason = ReasonTruncated
		}
		c.fail(end, reason)
	}
	return end
}

func (c *Cursor) literal(i int, word string) int {
	for k := 0; k < len(word); k++ {
		if i+k >= len(c.data) || c.data[i+k] != word[k] {
			c.failAt(i + k)
			return i
		}
	}
	return i + len(word)
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// stringStop returns a word in which the lowest set bit is the high bit of the first
// byte of x that a string cannot hold unescaped: a quote, a backslash or a control
// character. It returns 0 if x has no such byte. Only the lowest set bit counts, because
// higher bits may be set for other bytes.
func stringStop(x uint64) uint64 {
	quote := x ^ '"'*lowBits
	slash := x ^ '\\'*lowBits
	return ((x-0x20*lowBits)&^x | (quote-lowBits)&^quote | (slash-lowBits)&^slash) & highBits
}

// scanString consumes the string whose opening quote is at i. It returns the offset
// behind the closing quote and reports whether there were escapes.
func (c *Cursor) scanString(i int) (end int, escaped bool) {
	data := c.data
	start := i + 1
	i = start
	var seen uint64
	for {
		for i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			seen |= x
			if stop := stringStop(x); stop != 0 {
				i += bits.TrailingZeros64(stop) >> 3
				break
			}
			i += 8
		}
		for i < len(data) && data[i] >= 0x20 && data[i] != '"' && data[i] != '\\' {
			seen |= uint64(data[i])
			i++
		}
		if i >= len(data) {
			c.failAt(i)
			return i, escaped
		}
		switch data[i] {
		case '"':
			if c.utf8 && seen&highBits != 0 {
				c.checkUTF8(start, i)
			}
			return i + 1, escaped
		case '\\':
			escaped = true
			if i = c.scanEscape(i); c.Failed() {
				return i, escaped
			}
		default:
			c.fail(i, ReasonControl)
			return i, escaped
		}
	}
}

// scanEscape consumes the escape whose backslash is at i.
func (c *Cursor) scanEscape(i int) int {
	if i+1 >= len(c.data) {
		c.failAt(len(c.data))
		return i
	}
	switch c.data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
	default:
		c.fail(i, ReasonEscape)
		return i
	}
	for k := i + 2; k < i+6; k++ {
		if k >= len(c.data) {
			c.failAt(k)
			return i
		}
		if hexValue(c.data[k]) < 0 {
			c.fail(i, ReasonEscape)
			return i
		}
	}
	return i + 6
}

// checkUTF8 refuses the first byte of [start, end) that is not UTF-8.
func (c *Cursor) checkUTF8(start, end int) {
	if utf8.Valid(c.data[start:end]) {
		return
	}
	for i := start; i < end; {
		r, size := utf8.DecodeRune(c.data[i:end])
		if r == utf8.RuneError && size == 1 {
			c.fail(i, ReasonUTF8)
			return
		}
		i += size
	}
}

// scanNumber consumes a number by the grammar and returns the offset behind it. On a
// fault it returns the offset and the reason of the fault.
func scanNumber(data []byte, i int) (int, Reason) {
	if i < len(data) && data[i] == '-' {
		i++
		if i >= len(data) || !isDigit(data[i]) {
			return i, ReasonNumber
		}
	}
	switch {
	case i >= len(data) || !isDigit(data[i]):
		return i, ReasonSyntax
	case data[i] == '0':
		i++
	default:
		i = skipDigits(data, i)
	}
	if i < len(data) && data[i] == '.' {
		i++
		if i >= len(data) || !isDigit(data[i]) {
			return i, ReasonNumber
		}
		i = skipDigits(data, i)
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if i >= len(data) || !isDigit(data[i]) {
			return i, ReasonNumber
		}
		i = skipDigits(data, i)
	}
	return i, ""
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && isDigit(data[i]) {
		i++
	}
	return i
}

func isDigit(b byte) bool { return b-'0' < 10 }

// skipSpace returns the offset of the first byte at or behind i that is not
// whitespace.
func skipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

func hexValue(b byte) int {
	switch {
	case isDigit(b):
		return int(b - '0')
	case b-'a' < 6:
		return int(b-'a') + 10
	case b-'A' < 6:
		return int(b-'A') + 10
	}
	return -1
}
