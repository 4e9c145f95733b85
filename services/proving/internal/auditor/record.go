package auditor

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// maxMembers bounds the members of one object.
const maxMembers = 256

// member is a member of an object, with its value as written.
type member struct {
	key   string
	value []byte
}

// record is the object of a line. It keeps the first fault.
type record struct {
	members []member
	err     error
}

// The faults of a line.
var (
	errNotObject = errors.New("is not one JSON object")
	errTwice     = errors.New("has a member twice")
	errMembers   = fmt.Errorf("has more than %d members", maxMembers)
)

// parse splits an object into its members, in one pass after the check that it is valid.
// The slice of members may be used again once the line is done with.
func (l *lines) parse(text []byte, into []member) (record, error) {
	text = bytes.Trim(text, " \t\r")
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return record{}, errNotObject
	}
	rec := record{members: into[:0]}
	for i := skipSpace(text, 1); text[i] != '}'; {
		if text[i] == ',' {
			i = skipSpace(text, i+1)
		}
		end := skipString(text, i)
		key, err := l.key(text[i:end])
		if err != nil {
			return record{}, err
		}
		i = skipSpace(text, skipSpace(text, end)+1) // over the colon
		end = skipValue(text, i)
		if _, ok := rec.find(key); ok {
			return record{}, fmt.Errorf("%w: %q", errTwice, key)
		}
		if len(rec.members) == maxMembers {
			return record{}, errMembers
		}
		rec.members = append(rec.members, member{key, text[i:end]})
		i = skipSpace(text, end)
	}
	return rec, nil
}

// key is the text of a quoted key. Keys are kept, because there are few.
func (l *lines) key(quoted []byte) (string, error) {
	if known, ok := l.keys[string(quoted)]; ok {
		return known, nil
	}
	var key string
	if err := json.Unmarshal(quoted, &key); err != nil {
		return "", fmt.Errorf("decode a key: %w", err)
	}
	if len(l.keys) < 4*maxMembers {
		l.keys[string(quoted)] = key
	}
	return key, nil
}

// The following functions walk valid text.

func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

func skipString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue is the end of the value at i.
func skipValue(text []byte, i int) int {
	depth := 0
	for {
		switch text[i] {
		case '"':
			i = skipString(text, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a number or a word ended just before
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
}

// find is a member's value.
func (r *record) find(key string) ([]byte, bool) {
	for i := range r.members {
		if r.members[i].key == key {
			return r.members[i].value, true
		}
	}
	return nil, false
}

// given is a member's value; false when it is missing or null.
func (r *record) given(key string) ([]byte, bool) {
	v, ok := r.find(key)
	return v, ok && string(v) != "null"
}

func (r *record) fail(key, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%q %s", key, what)
	}
}

// need returns a required value.
func (r *record) need(key string) []byte {
	v, ok := r.given(key)
	if !ok {
		r.fail(key, "is missing")
	}
	return v
}

// text returns a required string.
func (r *record) text(key string) string {
	v := r.need(key)
	if v == nil {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		r.fail(key, "is no string")
	}
	return s
}

// textOr returns a string; empty when it is missing or null.
func (r *record) textOr(key string) string {
	if _, ok := r.given(key); !ok {
		return ""
	}
	return r.text(key)
}

// integer returns a required whole number of 64 bits.
func (r *record) integer(key string) int64 {
	v := r.need(key)
	if v == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		r.fail(key, "is no integer of 64 bits")
	}
	return n
}

// integerOr returns a number, or other when it is missing or null.
func (r *record) integerOr(key string, other int64) int64 {
	if _, ok := r.given(key); !ok {
		return other
	}
	return r.integer(key)
}

// integers returns a required array of numbers.
func (r *record) integers(key string) []int64 {
	var all []int64
	if v := r.need(key); v != nil && json.Unmarshal(v, &all) != nil {
		r.fail(key, "is no array of integers")
	}
	return all
}

// count returns a number that is not negative.
func (r *record) count(key string) int64 {
	n := r.integer(key)
	if n < 0 {
		r.fail(key, "is negative")
	}
	return n
}

// flag returns a required boolean.
func (r *record) flag(key string) bool {
	v := r.need(key)
	if v != nil && string(v) != "true" && string(v) != "false" {
		r.fail(key, "is neither true nor false")
	}
	return string(v) == "true"
}

// flagOr returns a boolean; false when it is missing or null.
func (r *record) flagOr(key string) bool {
	_, ok := r.given(key)
	return ok && r.flag(key)
}

// id returns a required UUID.
func (r *record) id(key string) id {
	u, ok := parseID(r.text(key))
	if !ok {
		r.fail(key, "is no UUID")
	}
	return u
}

// idOr returns a UUID; zero when it is missing, null or empty.
func (r *record) idOr(key string) id {
	if r.textOr(key) == "" {
		return id{}
	}
	return r.id(key)
}

// time returns a required time, in microseconds since 1970.
func (r *record) time(key string) int64 {
	t, err := time.Parse(time.RFC3339Nano, r.text(key))
	if err != nil {
		r.fail(key, "is no time")
		return 0
	}
	return t.UnixMicro()
}

// timeOr returns a time; 0 when it is missing, null or empty.
func (r *record) timeOr(key string) int64 {
	if r.textOr(key) == "" {
		return 0
	}
	return r.time(key)
}

// day returns a required date, in days since 1970.
func (r *record) day(key string) int64 {
	t, err := time.Parse(time.DateOnly, r.text(key))
	if err != nil {
		r.fail(key, "is no date")
		return 0
	}
	return dayOf(t.UnixMilli())
}

// object returns a required object within.
func (r *record) object(l *lines, key string) record {
	in, err := l.parse(r.need(key), l.inner)
	if err != nil {
		r.fail(key, err.Error())
	}
	l.inner = in.members
	return in
}

// id is a UUID.
type id [16]byte

func parseID(text string) (u id, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return u, false
	}
	digits := []byte(text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:])
	_, err := hex.Decode(u[:], digits)
	return u, err == nil
}

// String is the usual form.
func (u id) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// zero reports whether the id is zero.
func (u id) zero() bool { return u == id{} }

// day is the UTC day inside a UUID of version 7, in days since 1970.
func (u id) day() int64 {
	var ms int64
	for _, b := range u[:6] {
		ms = ms<<8 | int64(b)
	}
	return dayOf(ms)
}

const dayMillis = 24 * 60 * 60 * 1000

func dayOf(ms int64) int64 { return ms / dayMillis }

// date is a day since 1970.
func date(day int64) time.Time { return time.UnixMilli(day * dayMillis).UTC() }
