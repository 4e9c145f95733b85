package admission

import (
	"errors"
	"testing"

	"svc.internal/pkg/fault"
)

func TestTheEarlierErrorIsReported(t *testing.T) {
	ranked := []error{
		fault.New(fault.Exhausted, fault.RequestTooLarge, ""),
		fault.New(fault.Unauthenticated, fault.KeyRevoked, ""),
		fault.New(fault.Invalid, fault.InvalidProvider, ""),
		fault.New(fault.NotFound, fault.ModelNotFound, ""),
		fault.New(fault.Denied, fault.ModelNotAllowed, ""),
		fault.New(fault.Precondition, fault.InsufficientCredits, ""),
		fault.New(fault.Exhausted, fault.RateLimitExceeded, ""),
		fault.New(fault.Unavailable, fault.NoProviderOnline, ""),
	}
	for i, a := range ranked {
		for j, b := range ranked {
			if got := earlier(a, b); !errors.Is(got, ranked[min(i, j)]) {
				t.Errorf("of %v and %v: got the error %v, want %v", a, b, got, ranked[min(i, j)])
			}
		}
		if earlier(a, nil) == nil {
			t.Error("an error beside none: earlier(a, nil): got no error, want one")
		} else if earlier(nil, a) == nil {
			t.Error("an error beside none: earlier(nil, a): got no error, want one")
		}
	}
	if earlier(nil, nil) != nil {
		t.Error("an error was made up")
	}
}
