package challenge

import (
	"errors"

	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/session"
)

// refused says why a session does not take a challenge.
func refused(err error) error {
	switch {
	case errors.Is(err, session.ErrBusy):
		return fault.New(fault.Unavailable, fault.ProviderBusy, "the provider has no free slot")
	case errors.Is(err, session.ErrChallenged):
		return tooMany("this session has too many challenges under way")
	case errors.Is(err, session.ErrNotOffered):
		return fault.New(fault.Precondition, fault.ChallengeUnsupported,
			"the agent does not serve this model, or takes no such challenge")
	case errors.Is(err, session.ErrTooLarge):
		return fault.New(fault.Precondition, fault.ChallengeUnsupported, "the challenge is too large for this agent")
	case errors.Is(err, session.ErrNotSendable):
		return fault.New(fault.Invalid, fault.InvalidRequest, "the challenge is not JSON that can be sent")
	}
	return gone()
}

func gone() error {
	return fault.New(fault.Unavailable, fault.SessionGone, "this hub does not hold that session")
}

func tooMany(text string) error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded, "%s", text)
}
