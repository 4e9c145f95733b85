package bus

// Outcome returns a Future whose outcome is known, for code that stands in for a server.
func Outcome(duplicate bool, err error) *Future {
	f := &Future{done: make(chan struct{}), duplicate: duplicate, err: err}
	close(f.done)
	return f
}
