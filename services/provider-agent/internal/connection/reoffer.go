package connection

// Reoffer registers again, over a connection beside the present one, because Offers has other
// models or capacities than before. No request is dropped: the earlier connection serves open
// requests, also for the models of before, until the next connection is registered.
func (l *Link) Reoffer(before []Offer) {
	l.slots.reoffer(before, l.deps.Offers())
	select {
	case l.anew <- struct{}{}:
	default:
	}
}
