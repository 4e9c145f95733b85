package trust

import (
	"errors"
	"fmt"
)

// Lane is which requests routers give an offer, beside its trust. Its text is its name in
// messages and in storage. The zero value names no lane: an effect with it leaves the lane
// as it is.
type Lane string

// The lanes, the best first.
const (
	// Main is the lane of all offers that nothing is held against.
	Main Lane = "main"
	// Probe gives an offer as few requests as a degraded one, enough to probe it.
	Probe Lane = "probe"
	// Shut gives an offer no requests, not even requests that name its provider.
	Shut Lane = "shut"
)

// ErrLane is the error for a name that is no lane's.
var ErrLane = errors.New("not a lane")

// ParseLane returns the lane of a name. The lane of an unknown name is Shut.
func ParseLane(name string) (Lane, error) {
	switch l := Lane(name); l {
	case Main, Probe, Shut:
		return l, nil
	default:
		return Shut, fmt.Errorf("%w: %q", ErrLane, name)
	}
}

// String returns the lane's name.
func (l Lane) String() string { return string(l) }

// Worse returns the lane that gives fewer requests. The ladder of misrepresentation and that
// of benchmarks each keep a lane; an offer has the worse of the two. No lane counts as Main,
// and an unknown one as Shut.
func Worse(a, b Lane) Lane {
	if b.rank() > a.rank() {
		a = b
	}
	return [...]Lane{Main, Probe, Shut}[a.rank()]
}

// rank orders lanes, the best first.
func (l Lane) rank() int {
	switch l {
	case "", Main:
		return 0
	case Probe:
		return 1
	default:
		return 2
	}
}
