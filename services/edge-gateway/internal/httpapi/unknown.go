package httpapi

import (
	"strings"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// unknown is the route of whatever has no other.
var unknown = route{"unknown", nil, func(_ *Handler, x *exchange) error {
	return fault.New(fault.NotFound, apierror.UnknownRoute,
		"There is no route %s %s. The API is under /v1.", method(x.request.Method), shownPath(x.request.URL.Path))
}}

// maxShownPath bounds how much of a path an answer repeats, in bytes.
const maxShownPath = 128

// shownPath is a path as it may stand in a message: bounded, in printable ASCII.
func shownPath(path string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, path[:min(len(path), maxShownPath)])
}
