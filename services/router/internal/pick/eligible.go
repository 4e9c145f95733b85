package pick

import (
	"slices"
	"time"

	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/trust"
)

// Reason says why a seat was passed over.
type Reason uint8

// The reasons, in the order in which they are checked.
const (
	Eligible Reason = iota
	Inactive
	Draining
	Unhealthy
	NotVerified
	LacksCapability
	BodyTooLarge
	WindowTooSmall
	Unwanted
	Excluded
	BreakerOpen
	Busy
	// NotOffered is a provider that is connected, was asked for by name and does not
	// offer the model. Degraded is a provider that gets probes only, by its health or by
	// the verifier's word, so others were preferred.
	NotOffered
	Degraded
	// Outranked is a seat of the second tier that could have served, where a seat of the first
	// tier serves.
	Outranked
	reasons // the number of reasons
)

// String returns the reason as metrics and providers see it. The words are part of the
// contract and do not change.
func (r Reason) String() string {
	switch r {
	case Eligible:
		return "eligible"
	case Inactive:
		return "not_active"
	case Draining:
		return "draining"
	case Unhealthy:
		return "unhealthy"
	case NotVerified:
		return "not_verified"
	case BodyTooLarge:
		return "body_too_large"
	case LacksCapability:
		return "capability_missing"
	case WindowTooSmall:
		return "window_too_small"
	case Unwanted:
		return "not_wanted"
	case Excluded:
		return "already_failed"
	case BreakerOpen:
		return "breaker_open"
	case Busy:
		return "full"
	case NotOffered:
		return "not_offered"
	case Degraded:
		return "degraded"
	case Outranked:
		return "second_tier"
	default:
		return "unknown"
	}
}

// appraisal is a seat with the verifier's opinion of it and its effective window, which are
// looked up once.
type appraisal struct {
	seat    *presence.Seat
	opinion *trust.Opinion
	window  int64
	source  contextwindow.Source
}

// appraise looks up what is known of a seat that is online.
func (s *search) appraise(seat *presence.Seat) appraisal {
	a := appraisal{seat: seat, opinion: s.picker.deps.Trust.OfSeat(seat)}
	a.window, a.source = contextwindow.Effective(seat.Offer.Window, s.catalog, a.opinion.Window)
	return a
}

// online returns why a seat serves no consumers at all, or Eligible.
func online(seat *presence.Seat) Reason {
	switch {
	case !seat.Session.Active:
		return Inactive
	case seat.Session.Draining:
		return Draining
	case !seat.Offer.Healthy:
		return Unhealthy
	default:
		return Eligible
	}
}

// fits returns why a seat that is online cannot serve this request, or Eligible. It
// checks what needs no look at the record.
func (s *search) fits(a *appraisal) Reason {
	seat := a.seat
	if !s.capable(seat) {
		return LacksCapability
	}
	if limit := seat.Session.MaxRequestBytes; limit > 0 && s.req.BodyBytes > limit {
		return BodyTooLarge
	}
	if a.window > 0 && s.need > a.window {
		return WindowTooSmall
	}
	if !s.want(seat) {
		return Unwanted
	}
	if slices.Contains(s.req.Exclude, seat.Session.Provider) {
		return Excluded
	}
	return Eligible
}

// capable reports whether a seat declares everything that the request requires.
func (s *search) capable(seat *presence.Seat) bool {
	for _, c := range s.req.Capabilities {
		if !slices.Contains(seat.Session.Capabilities, c) {
			return false
		}
	}
	return true
}

// lane says what a seat may be used for.
type lane uint8

const (
	shut      lane = iota // nothing
	mainLane              // any request
	probeLane             // probes only
)

// laneOf returns the lane of a seat for an account's request, by what is known of the
// seat's provider. For a lane other than the main lane it returns the reason.
func laneOf(rec *health.Record, by trust.Lane, account tag.Account, now time.Time) (lane, Reason) {
	if rec != nil {
		admitted, probe := rec.Breaker.Admits(account, now)
		switch {
		case !admitted:
			return shut, BreakerOpen
		case probe:
			return probeLane, BreakerOpen
		case rec.Window.Health().Degraded, rec.Breaker.Shunned(account):
			return probeLane, Degraded
		}
	}
	if by == trust.Probe {
		return probeLane, Degraded
	}
	return mainLane, Eligible
}
