package jsonscan

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeString decodes a raw JSON string, quotes included. Escapes of lone
// surrogates and bytes that are not UTF-8 become U+FFFD, as in encoding/json.
func DecodeString(raw []byte) (string, error) {
	inner, escaped, err := stringBody(raw)
	if err != nil {
		return "", err
	}
	if !escaped && utf8.Valid(inner) {
		return string(inner), nil
	}
	return string(appendUnescaped(make([]byte, 0, len(inner)), inner)), nil
}

// AppendDecoded appends the decoded raw JSON string, quotes included, to dst.
func AppendDecoded(dst, raw []byte) ([]byte, error) {
	inner, _, err := stringBody(raw)
	if err != nil {
		return dst, err
	}
	return appendUnescaped(dst, inner), nil
}

// StringIs reports whether raw is a JSON string, quotes included, that decodes to
// want.
func StringIs(raw []byte, want string) bool {
	inner, escaped, err := stringBody(raw)
	if err != nil {
		return false
	}
	if !escaped {
		return string(inner) == want
	}
	return string(appendUnescaped(make([]byte, 0, len(inner)), inner)) == want
}

// DecodedLen is the number of bytes that AppendDecoded would append for a string
// that a scan has found valid.
func DecodedLen(raw []byte) int {
	n := 0
	for i := 1; i < len(raw)-1; {
		if b := raw[i]; b < utf8.RuneSelf && b != '\\' {
			n++
			i++
			continue
		}
		r, size := decodeRune(raw[i : len(raw)-1])
		n += utf8.RuneLen(r)
		i += size
	}
	return n
}

// stringBody checks that raw is exactly one JSON string and returns the bytes
// between its quotes.
func stringBody(raw []byte) (inner []byte, escaped bool, err error) {
	if len(raw) == 0 || raw[0] != '"' {
		return nil, false, &Error{Reason: ReasonNotString}
	}
	c := NewCursor(raw, Options{})
	end, escaped := c.scanString(0)
	c.pos = end
	if err := c.End(); err != nil {
		return nil, false, err
	}
	if end != len(raw) {
		return nil, false, &Error{Offset: end, Reason: ReasonTrailing}
	}
	return raw[1 : end-1], escaped, nil
}

// appendUnescaped appends the decoded inside of a valid JSON string.
func appendUnescaped(dst, inner []byte) []byte {
	for i := 0; i < len(inner); {
		if b := inner[i]; b < utf8.RuneSelf && b != '\\' {
			dst = append(dst, b)
			i++
			continue
		}
		r, size := decodeRune(inner[i:])
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return dst
}

// decodeRune decodes the escape or the UTF-8 sequence at the start of b, which
// comes from a valid string.
func decodeRune(b []byte) (rune, int) {
	if b[0] != '\\' || len(b) < 2 {
		return utf8.DecodeRune(b)
	}
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(b[1]), 2
	}
	r := unhex(b[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if pair := utf16.DecodeRune(r, unhex(b[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func unhex(b []byte) rune {
	var r rune
	for _, d := range b[:min(4, len(b))] {
		r = r<<4 | rune(hexValue(d))
	}
	return r
}

// Int reads a raw number as an int64. The number must be written without fraction
// and exponent.
func Int(raw []byte) (int64, error) {
	end, reason := scanNumber(raw, 0)
	if reason != "" || end != len(raw) {
		return 0, &Error{Offset: min(end, len(raw)), Reason: ReasonNotInteger}
	}
	for i, b := range raw {
		if b == '.' || b == 'e' || b == 'E' {
			return 0, &Error{Offset: i, Reason: ReasonNotInteger}
		}
	}
	return digitsToInt(raw[0] == '-', raw[sign(raw):], nil, 0)
}

// Integral reads a raw number as an integer however it is written: 1e3 and 1.0
// are integers, 1.5 and 1e-1 are not. A huge exponent costs nothing.
func Integral(raw []byte) (int64, error) {
	end, reason := scanNumber(raw, 0)
	if reason != "" || end != len(raw) {
		return 0, &Error{Offset: min(end, len(raw)), Reason: ReasonNotInteger}
	}
	whole := raw[sign(raw):]
	var fraction, exponent []byte
	for i, b := range whole {
		if b == 'e' || b == 'E' {
			whole, exponent = whole[:i], whole[i+1:]
			break
		}
	}
	for i, b := range whole {
		if b == '.' {
			whole, fraction = whole[:i], whole[i+1:]
			break
		}
	}
	return digitsToInt(raw[0] == '-', whole, fraction, clampExponent(exponent, len(raw)))
}

func sign(raw []byte) int {
	if raw[0] == '-' {
		return 1
	}
	return 0
}

// clampExponent reads an exponent and bounds its size. A number of n bytes with an
// exponent beyond the bound is zero, has a fraction or is out of range anyway.
func clampExponent(text []byte, n int) int {
	bound := n + 32
	negative := len(text) > 0 && text[0] == '-'
	e := 0
	for _, b := range text {
		if isDigit(b) {
			e = min(e*10+int(b-'0'), bound)
		}
	}
	if negative {
		return -e
	}
	return e
}

// digitsToInt is ±whole.fraction × 10^exponent, if the product is an int64.
func digitsToInt(negative bool, whole, fraction []byte, exponent int) (int64, error) {
	digit := func(i int) byte {
		if i < len(whole) {
			return whole[i] - '0'
		}
		return fraction[i-len(whole)] - '0'
	}
	digits := len(whole) + len(fraction)
	point := len(whole) + exponent // how many digits stand before the point
	var u uint64
	for i := range digits {
		d := digit(i)
		if i >= point {
			if d != 0 {
				return 0, &Error{Reason: ReasonNotInteger}
			}
			continue
		}
		if u > (1<<63)/10 {
			return 0, &Error{Reason: ReasonRange}
		}
		u = u*10 + uint64(d)
	}
	for i := digits; i < point && u != 0; i++ {
		if u > (1<<63)/10 {
			return 0, &Error{Reason: ReasonRange}
		}
		u *= 10
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), nil
	case !negative && u < 1<<63:
		return int64(u), nil
	}
	return 0, &Error{Reason: ReasonRange}
}

// Float reads a raw number as a float64 within [low, high]. A number too large for
// a float64 is out of range, and a number too small is zero.
func Float(raw []byte, low, high float64) (float64, error) {
	end, reason := scanNumber(raw, 0)
	if reason != "" || end != len(raw) {
		return 0, &Error{Offset: min(end, len(raw)), Reason: ReasonNotNumber}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < low || f > high {
		return 0, &Error{Reason: ReasonRange}
	}
	return f, nil
}

// EqualFold reports whether a decoded key equals name under Unicode simple
// folding, as strings.EqualFold does and as Go's encoding/json matches keys:
// U+212A equals k, and U+017F equals s.
func EqualFold(key []byte, name string) bool {
	// Two equal letters differ in length by at most a factor of three (s and
	// U+017F by two, k and U+212A by three).
	if len(key) > 3*len(name) || len(name) > 3*len(key) {
		return false
	}
	return strings.EqualFold(string(key), name)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string with quotes. Bytes that are not UTF-8
// become U+FFFD. U+2028 and U+2029 are escaped, so that the result is also one line
// of text and a JavaScript literal.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= 0x20 && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		if b < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), "\uFFFD"...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xF])
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xF])
}
