package httpapi

import (
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"svc.internal/services/edge-gateway/internal/idempotency"
)

// tape keeps a whole answer on its way to the client, up to the size that can be kept. It
// keeps nothing of a stream.
//
// An answer that is paid for is kept although its client left while it was written: the
// error of the write is returned with the answer's last byte.
type tape struct {
	status   int
	header   http.Header
	stream   bool
	over     bool
	declared string // Content-Length
	body     []byte
	failed   error // of the first write that failed
}

func (t *tape) begin(status int, header http.Header) {
	t.status, t.header = status, header
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	t.stream = err != nil || kind == "text/event-stream"
	t.declared = header.Get("Content-Length")
	if size, err := strconv.Atoi(t.declared); err != nil || size > idempotency.MaxAnswer {
		t.over = true
	}
}

// write keeps the bytes that are sent to w, whether or not they arrive.
func (t *tape) write(w io.Writer, p []byte) (int, error) {
	switch {
	case t.stream || t.over:
	case len(t.body)+len(p) > idempotency.MaxAnswer:
		t.over, t.body = true, nil
	default:
		t.body = append(t.body, p...)
	}
	n := len(p)
	if t.failed == nil {
		n, t.failed = w.Write(p)
	}
	if t.failed != nil && !t.stream && !t.over && !t.whole() {
		return len(p), nil
	}
	return n, t.failed
}

// whole reports whether all declared bytes have been kept.
func (t *tape) whole() bool { return t.declared == strconv.Itoa(len(t.body)) }

// answer returns the answer; nil when it is not whole, or too large.
func (t *tape) answer() *idempotency.Answer {
	if t.status != http.StatusOK || t.stream || t.over || !t.whole() {
		return nil
	}
	header := http.Header{}
	for name, values := range t.header {
		if said(name) {
			header[name] = values
		}
	}
	return &idempotency.Answer{Status: t.status, Header: header, Body: t.body}
}

// said reports whether a header belongs to the answer and is sent again with it. A header
// about the connection or the moment (rates, keep-alive) does not.
func said(name string) bool {
	switch name {
	case "Content-Type", "X-Request-Id", "Deprecation", "Sunset":
		return true
	}
	return strings.HasPrefix(name, ownPrefix)
}

// ownPrefix begins the names of the service's own headers.
const ownPrefix = "X-Svc-"
