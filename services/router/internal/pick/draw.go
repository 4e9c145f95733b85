package pick

import (
	"slices"

	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
)

// option is an eligible seat with a free slot.
type option struct {
	seat   *presence.Seat
	record *health.Record
	score  float64
	figure float64 // what the request sorts by
	place  int     // the provider's place in the request's order
	why    Reason  // why it is in the probe lane
	window int64   // the effective window
	source contextwindow.Source
}

// drop takes all options of a provider out of both lanes, so that they are not drawn
// again.
func (s *search) drop(provider string) {
	its := func(o option) bool { return o.seat.Session.Provider == provider }
	s.main, s.probe = slices.DeleteFunc(s.main, its), slices.DeleteFunc(s.probe, its)
}

// draw takes an option out of a lane: the option that the preferences put first, or else
// the better of two random options.
func (s *search) draw(from *[]option) option {
	lane := *from
	best := s.preferred(lane)
	if best < 0 {
		best = s.betterOfTwo(lane)
	}
	o := lane[best]
	last := len(lane) - 1
	lane[best], lane[last] = lane[last], option{}
	*from = lane[:last]
	return o
}

func (s *search) betterOfTwo(lane []option) int {
	best := s.random.IntN(len(lane))
	if len(lane) == 1 {
		return best
	}
	other := s.random.IntN(len(lane) - 1)
	if other >= best {
		other++
	}
	if s.better(&lane[other], &lane[best]) {
		return other
	}
	return best
}

// better reports whether a is preferred to b.
func (s *search) better(a, b *option) bool {
	if near := s.req.NearHub; near != "" && (a.seat.Hub == near) != (b.seat.Hub == near) {
		high, low := max(a.score, b.score), min(a.score, b.score)
		if high-low <= TieShare*high {
			return a.seat.Hub == near
		}
	}
	return a.score > b.score
}
