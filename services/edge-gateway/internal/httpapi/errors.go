package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// tell answers with an error, unless nobody is there to read it or an answer
// was begun.
func (h *Handler) tell(x *exchange, err error) {
	if f, ok := fault.As(err); ok && f.Kind == fault.Canceled && !clientLeft(x.request.Context()) {
		// It was a peer that went away or this server that stops, not the client.
		err = fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	x.err = err
	a := apierror.Of(err)
	if x.status != 0 {
		return
	}
	if a.Status == apierror.StatusClientClosed {
		x.status = a.Status
		return
	}
	h.setWriteDeadline(x)
	_ = formOf(x.request.URL.EscapedPath())(a, x, x.id) // a client that left is nobody's fault
	x.leaveUnread()
}

// clientLeft tells a client that left, for which net/http has no cause, from a
// server that ends its requests.
func clientLeft(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled)
}

// formOf is the form of a path's errors: agents read another than OpenAI's on some,
// whether or not there is such a route.
func formOf(path string) apierror.Form {
	switch {
	case path == statusPath:
		return apierror.Answer.WriteStatus
	case strings.HasSuffix(path, statusPath):
		// An agent with a prefix or a slash too much in its address must not take the
		// 404 for a verdict on its key.
		return apierror.Answer.WriteText
	case path == "/v1/messages", strings.HasPrefix(path, "/v1/messages/"):
		return apierror.Answer.WriteWrapped
	case strings.HasPrefix(path, "/api/v1/user/"), strings.HasPrefix(path, "/api/v1/consumer/"):
		return apierror.Answer.WriteFlat
	}
	return apierror.Answer.Write
}

// linger is how long the connection of a refused request without a good key stays
// open for what its client has sent already: a connection that is closed on unread
// bytes is reset, and the client might not read the answer.
const linger = 500 * time.Millisecond

// leaveUnread waits no longer for a body that belongs to nobody. Otherwise net/http
// would wait for up to 256 KiB of it after the answer, for as long as a body may
// take.
func (x *exchange) leaveUnread() {
	if x.unread && x.who == nil && x.status >= http.StatusBadRequest {
		_ = x.control.SetReadDeadline(time.Now().Add(linger))
	}
}
