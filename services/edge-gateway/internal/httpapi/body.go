package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	// firstBuffer is how many bytes are reserved for a body because of its declared
	// length alone.
	firstBuffer = 64 << 10
	// keptBuffer is the largest buffer that is used again, so that a few giant bodies
	// leave no giant buffers behind.
	keptBuffer = 128 << 10
)

// buffers are reused between requests; each belongs to one request at a time.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *bytes.Buffer {
	if buf, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buf
	}
	return new(bytes.Buffer)
}

func (b *buffers) put(buf *bytes.Buffer) {
	if buf.Cap() > keptBuffer {
		return
	}
	buf.Reset()
	b.pool.Put(buf)
}

func tooLarge(limit int64) error {
	return fault.New(fault.Invalid, fault.RequestTooLarge, "The body has more than %d bytes.", limit)
}

// checkDeclared refuses a body that is too large by its own account.
func checkDeclared(r *http.Request, limit int64) error {
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	return nil
}

// overrules returns the error of a request with a good key that is refused before its
// body was read. A body of unknown length is read to the limit and thrown away, because
// 413 comes before 400. Without a good key nothing is read.
func overrules(r *http.Request, refusal error, limit int64) error {
	if r.ContentLength >= 0 {
		return refusal
	}
	n, _ := io.Copy(io.Discard, io.LimitReader(r.Body, limit+1))
	if n > limit {
		return tooLarge(limit)
	}
	return refusal
}

// arrival is a body that notes when it was read to its end.
type arrival struct {
	io.ReadCloser
	whole func()
}

// Read reads a part of the body.
func (a *arrival) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		a.whole()
	}
	return n, err
}

// checkEncoding refuses content encodings, which are not undone here.
func checkEncoding(h http.Header) error {
	for _, encoding := range h.Values("Content-Encoding") {
		if encoding = strings.TrimSpace(encoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
			return fault.New(fault.Invalid, apierror.UnsupportedEncoding,
				"The body must not be compressed.").On("Content-Encoding")
		}
	}
	return nil
}

// checkForm refuses content encodings, which are not undone here, and forms.
func checkForm(h http.Header) error {
	if err := checkEncoding(h); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(kind), "multipart/form-data") {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The body must be JSON, not a form.").On("Content-Type")
	}
	return nil
}

// readBody reads the whole body into buf. The body is read before anything is sent to a
// peer, so that no answer can cross it.
func readBody(r *http.Request, buf *bytes.Buffer, limit int64) error {
	if n := r.ContentLength; n > 0 {
		buf.Grow(int(min(n, firstBuffer)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch {
	case int64(buf.Len()) > limit:
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.Invalid, fault.InvalidRequest, "The body did not arrive in time.")
	case err != nil:
		return fault.Wrap(err, fault.Invalid, fault.InvalidRequest, "The body could not be read.")
	}
	return nil
}
