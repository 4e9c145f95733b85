package statistic

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"

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

// walker reads one JSON document token by token, so that the document is never held
// whole and values that nobody asked for are skipped.
type walker struct {
	dec   *json.Decoder
	left  int64
	r     io.Reader
	depth int
}

func newWalker(r io.Reader) *walker {
	w := &walker{r: r, left: MaxBody}
	w.dec = json.NewDecoder(w)
	w.dec.UseNumber()
	return w
}

// Read passes at most MaxBody bytes on.
func (w *walker) Read(p []byte) (int, error) {
	n, err := w.r.Read(p[:min(int64(len(p)), w.left+1)])
	if w.left -= int64(n); w.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// next returns the next token and keeps account of the nesting.
func (w *walker) next() (json.Token, error) {
	t, err := w.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'), json.Delim('['):
		if w.depth++; w.depth > maxDepth {
			return nil, errTooLarge
		}
	case json.Delim('}'), json.Delim(']'):
		w.depth--
	}
	return t, nil
}

// skip passes over the next value.
func (w *walker) skip() error {
	at := w.depth
	for {
		if _, err := w.next(); err != nil {
			return err
		}
		if w.depth == at {
			return nil
		}
	}
}

// object calls member for each member of the next value, which must read the value. It
// reports false for null. A name of once that stands twice is refused, because readers
// differ in which of the two counts.
func (w *walker) object(once []string, member func(name string) error) (bool, error) {
	t, err := w.next()
	if err != nil || t == nil {
		return false, err
	}
	if t != json.Delim('{') {
		return false, errMalformed
	}
	seen := make([]bool, len(once))
	for w.dec.More() {
		t, err := w.next()
		if err != nil {
			return false, err
		}
		name, _ := t.(string)
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
	_, err = w.next()
	return true, err
}

// array calls element for each element of the next value, at most limit times. It reports
// false for null.
func (w *walker) array(limit int, element func(i int) error) (bool, error) {
	t, err := w.next()
	if err != nil || t == nil {
		return false, err
	}
	if t != json.Delim('[') {
		return false, errMalformed
	}
	for i := 0; w.dec.More(); i++ {
		if i == limit {
			return false, errTooLarge
		}
		if err := element(i); err != nil {
			return false, err
		}
	}
	_, err = w.next()
	return true, err
}

// text returns the next value, a string or null, which is the empty string.
func (w *walker) text(limit int) (string, error) {
	t, err := w.next()
	if err != nil || t == nil {
		return "", err
	}
	s, ok := t.(string)
	switch {
	case !ok:
		return "", errMalformed
	case len(s) > limit:
		return "", errTooLarge
	}
	return s, nil
}

// logprob returns the next value, a number of nats.
func (w *walker) logprob() (exact.Logprob, error) {
	t, err := w.next()
	if err != nil {
		return 0, err
	}
	n, ok := t.(json.Number)
	if !ok {
		return 0, errMalformed
	}
	nats, err := strconv.ParseFloat(string(n), 64)
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
	switch _, err := w.dec.Token(); {
	case err == nil:
		return errMalformed
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}
