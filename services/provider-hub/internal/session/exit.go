package session

import "runtime"

// exit lets few sessions leave at a time. When thousands of sockets are cut at
// once, all their goroutines become runnable at once, and whoever has a request
// would wait for its turn behind all of them.
type exit chan struct{}

func newExit() exit { return make(exit, max(1, runtime.GOMAXPROCS(0))) }

// pass does a part of a leave, which must not wait for anything.
func (e exit) pass(part func()) {
	e <- struct{}{}
	defer func() { <-e }()
	part()
}
