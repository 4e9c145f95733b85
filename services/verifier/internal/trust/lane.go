package trust

import (
	"errors"
	"fmt"
)

// Lane is which requests routers give an offer, beside its trust.
type Lane uint8

// The lanes.
const (
	// Main is the lane of all offers that nothing is held against.
	Main Lane = iota
	// Probe gives an offer so few requests as a degraded one, enough to probe it.
	Probe
	// Shut gives an offer no requests, not even requests that name its provider.
	Shut
)

// ErrLane is the error for a name that is no lane's.
var ErrLane = errors.New("not a lane")

// String returns the lane's name, which is also its name in messages and in storage.
func (l Lane) String() string {
	switch l {
	case Main:
		return "main"
	case Probe:
		return "probe"
	case Shut:
		return "shut"
	default:
		return fmt.Sprintf("lane %d", uint8(l))
	}
}

// ParseLane returns the lane of a name that String returned.
func ParseLane(name string) (Lane, error) {
	for l := Main; l <= Shut; l++ {
		if l.String() == name {
			return l, nil
		}
	}
	return Shut, fmt.Errorf("%w: %q", ErrLane, name)
}
