package httpapi

import (
	"context"
	"errors"
	"strings"

	"svc.internal/services/edge-gateway/internal/apierror"
)

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
