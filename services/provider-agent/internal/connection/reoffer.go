package connection

// Reoffer registers again, over a connection beside the one that there is, because Offers
// has other models or capacities than before. No request is dropped: the earlier
// connection serves what is open, before included, until the next one is registered.
func (l *Link) Reoffer(before []Offer) {
	l.slots.reoffer(before, l.deps.Offers())
	select {
	case l.anew <- struct{}{}:
	default:
	}
}
