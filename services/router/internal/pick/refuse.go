package pick

import (
	"errors"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/trust"
)

// How long a caller is asked to wait before it tries again.
const (
	offlineRetry = 5 * time.Second
	busyRetry    = 2 * time.Second
)

// errBusy says that an eligible provider has no free slot now.
var errBusy = errors.New("all eligible providers are busy")

// refusal returns why a walk found nobody. A request is blamed only for what no provider
// takes: first for its body, about which only providers with the required capabilities
// count, and then for its window. Where named providers alone were looked at, the others
// are asked only if the named ones give cause to blame the request.
func (s *search) refusal() error {
	if s.full() {
		return errBusy
	}
	s.absent(s.wanted.list...)
	if s.named {
		if !s.tooBig() && !s.exceeds() {
			return offline("no provider that is wanted can serve this request now")
		}
		s.everybody()
	}
	switch {
	case s.online == 0:
		return offline("no provider is online for this model")
	case s.tooBig():
		return fault.New(fault.Exhausted, fault.RequestTooLarge,
			"the body has %d bytes, and no provider online takes more than %d", s.req.BodyBytes, s.maxBody)
	case s.exceeds():
		return s.tooLong()
	default:
		return offline("no provider that is online can serve this request now")
	}
}

// full reports whether a provider could serve if it had a free slot.
func (s *search) full() bool { return s.busy+s.busyProbe+s.engaged > 0 }

func (s *search) tooBig() bool {
	return s.capables > 0 && !s.bodyOpen && s.req.BodyBytes > s.maxBody
}

func (s *search) exceeds() bool {
	return s.online > 0 && !s.boundless && s.need > s.maxWindow
}

// absent counts providers that were asked for by name, are connected and do not offer the
// model.
func (s *search) absent(providers ...string) {
	view := s.picker.deps.View
	for _, p := range providers {
		if view.Knows(p) && len(view.Of(s.req.Model, p)) == 0 {
			s.passOver(p, NotOffered)
		}
	}
}

// everybody surveys all seats of the model.
func (s *search) everybody() {
	for _, seat := range s.picker.deps.View.Seats(s.req.Model) {
		if online(seat) != Eligible {
			continue
		}
		if a := s.appraise(seat); a.opinion.Lane != trust.Shut {
			s.survey(&a)
		}
	}
}

func (s *search) tooLong() error {
	limit := strconv.FormatInt(s.maxWindow, 10)
	if s.req.MaxTokens > 0 && s.req.PromptTokens <= s.maxWindow {
		return fault.New(fault.Invalid, fault.ContextLengthExceeded,
			"the prompt of about %d tokens and an answer of %d exceed the largest context window, which is %d tokens",
			s.req.PromptTokens, s.req.MaxTokens, s.maxWindow).On("max_tokens").With("max_context_length", limit)
	}
	return fault.New(fault.Invalid, fault.ContextLengthExceeded,
		"the prompt of about %d tokens exceeds the largest context window, which is %d tokens",
		s.req.PromptTokens, s.maxWindow).On("messages").With("max_context_length", limit)
}

func offline(text string) error {
	return fault.New(fault.Unavailable, fault.NoProviderOnline, "%s", text).After(offlineRetry)
}

func allBusy() error {
	return fault.New(fault.Unavailable, fault.ProvidersBusy, "all providers of this model are busy").After(busyRetry)
}
