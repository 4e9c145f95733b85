package admission

import (
	"net/http"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// Foremost returns the error of several that comes first in the public order of errors,
// and its index; nil and -1 when there is none.
func Foremost(errs []error) (at int, err error) {
	at = -1
	for i, e := range errs {
		if e != nil && (err == nil || rank(e) < rank(err)) {
			at, err = i, e
		}
	}
	return at, err
}

// earlier returns the error of two that comes first in the public order; each may be nil.
func earlier(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil || rank(a) <= rank(b):
		return a
	}
	return b
}

func rank(err error) int {
	status := apierror.Of(err).Status
	for i, s := range precedence {
		if s == status {
			return i
		}
	}
	return len(precedence)
}

// precedence is the public order of errors by their status. The client gets the first.
var precedence = []int{
	http.StatusRequestEntityTooLarge, http.StatusUnauthorized, http.StatusBadRequest, http.StatusNotFound,
	http.StatusForbidden, http.StatusPaymentRequired, http.StatusTooManyRequests,
}
