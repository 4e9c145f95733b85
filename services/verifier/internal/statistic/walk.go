package statistic

import (
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/verifier/internal/exact"
)

// maxDepth bounds the nesting of a body.
const maxDepth = 32

// fail is a Void on its way out of a walk.
type fail struct{ why Void }

func (f *fail) Error() string { return string(f.why) }

var (
	errMalformed = &fail{Malformed}
	errTooLarge  = &fail{TooLarge}
)

// reason returns the Void of a walk's error.
func reason(err error) Void {
	var f *fail
	switch {
	case err == nil:
		return None
	case errors.As(err, &f):
		return f.why
	}
	return Malformed // not JSON, or cut off
}

// walker reads one JSON document in a single pass: values that nobody asked for are checked
// and passed over.
type walker struct {
	cur  jsonscan.Cursor
	body []byte
}

// newWalker begins a walk. It refuses a body beyond MaxBody unread.
func newWalker(body []byte) (*walker, error) {
	if len(body) > MaxBody {
		return nil, errTooLarge
	}
	return &walker{jsonscan.NewCursor(body, jsonscan.Options{MaxDepth: maxDepth}), body}, nil
}

// fault is the cursor's first fault as a Void.
func (w *walker) fault() error {
	var fault *jsonscan.Error
	switch err := w.cur.Err(); {
	case err == nil:
		return nil
	case errors.As(err, &fault) && fault.Reason == jsonscan.ReasonDepth:
		return errTooLarge
	default:
		return errMalformed
	}
}

// skip passes over the next value.
func (w *walker) skip() error {
	w.cur.Skip()
	return w.fault()
}

// value returns the next value, which must be of a kind or null, in its raw form, which is
// nil for null.
func (w *walker) value(kind jsonscan.Kind) ([]byte, error) {
	is := w.cur.Kind()
	raw := w.cur.Skip()
	switch err := w.fault(); {
	case err != nil:
		return nil, err
	case is == jsonscan.Null:
		return nil, nil
	case is != kind:
		return nil, errMalformed
	}
	return raw.Of(w.body), nil
}

// enter steps into the next value, a container of a kind. It reports false for null.
func (w *walker) enter(kind jsonscan.Kind) (bool, error) {
	switch is := w.cur.Kind(); {
	case is == jsonscan.Null:
		return false, w.skip()
	case is != kind:
		return false, errMalformed
	}
	w.cur.Enter()
	return true, w.fault()
}

// object calls member for each member of the next value, which must read the value. It
// reports false for null. A name of once that stands twice is refused, because readers
// differ in which of the two counts.
func (w *walker) object(once []string, member func(name string) error) (bool, error) {
	if ok, err := w.enter(jsonscan.Object); err != nil || !ok {
		return false, err
	}
	var seen [8]bool // more than any list of names
	for {
		key, more := w.cur.NextMember()
		if !more {
			return true, w.fault()
		}
		name := w.name(key)
		if i := slices.Index(once, name); i >= 0 {
			if seen[i] {
				return false, errMalformed
			}
			seen[i] = true
		}
		if err := member(name); err != nil {
			return false, err
		}
	}
}

// name is a member's name. Bytes that are not UTF-8 are U+FFFD, as in every text.
func (w *walker) name(key jsonscan.Key) string {
	name := key.Name(w.body)
	if !key.Escaped && !utf8.Valid(name) {
		decoded, _ := jsonscan.DecodeString(w.body[key.Span.Start-1 : key.Span.End+1]) // the cursor has checked it
		return decoded
	}
	return string(name)
}

// array calls element for each element of the next value, at most limit times. It reports
// false for null.
func (w *walker) array(limit int, element func(i int) error) (bool, error) {
	if ok, err := w.enter(jsonscan.Array); err != nil || !ok {
		return false, err
	}
	for i := 0; w.cur.NextElement(); i++ {
		if i == limit {
			return false, errTooLarge
		}
		if err := element(i); err != nil {
			return false, err
		}
	}
	return true, w.fault()
}

// text returns the next value, a string or null, which is the empty string.
func (w *walker) text(limit int) (string, error) {
	raw, err := w.value(jsonscan.String)
	if err != nil || raw == nil {
		return "", err
	}
	s, err := jsonscan.DecodeString(raw)
	switch {
	case err != nil:
		return "", errMalformed
	case len(s) > limit:
		return "", errTooLarge
	}
	return s, nil
}

// number returns the next value, a number, as it is written.
func (w *walker) number() (string, error) {
	raw, err := w.value(jsonscan.Number)
	if err == nil && raw == nil {
		err = errMalformed
	}
	return string(raw), err
}

// logprob returns the next value, a number of nats.
func (w *walker) logprob() (exact.Logprob, error) {
	n, err := w.number()
	if err != nil {
		return 0, err
	}
	nats, err := strconv.ParseFloat(n, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errMalformed
	}
	l, err := exact.Round(nats)
	if err != nil {
		return 0, errMalformed
	}
	return l, nil
}

// end refuses whatever follows the document.
func (w *walker) end() error {
	if w.cur.End() != nil {
		return errMalformed
	}
	return nil
}
