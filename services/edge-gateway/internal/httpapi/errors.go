package httpapi

import (
	"context"
	"errors"
	"slices"
	"strings"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// clientLeft tells a client that left, for which net/http has no cause, from a
// server that ends its requests.
func clientLeft(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled)
}

// flat are the paths of users that existing agents call, and flatBelow where such paths
// begin. Agents read the text of an error in its member error.
var (
	flat = []string{
		"/api/v1/user/signup", "/api/v1/user/login", "/api/v1/user/me/provider-keys",
		"/api/v1/user/me/provider-proposals", "/api/v1/user/upgrade-to-provider",
		"/api/v1/consumer/upgrade-to-provider",
	}
	flatBelow = []string{"/api/v1/user/me/provider-keys/", "/api/v1/user/me/provider-proposals/"}
)

func isFlat(path string) bool {
	return slices.Contains(flat, path) ||
		slices.ContainsFunc(flatBelow, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
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
	case isFlat(path):
		return apierror.Answer.WriteFlat
	}
	return apierror.Answer.Write
}
