package gate

import "runtime"

// teardown lets few sessions leave at a time. When thousands of sockets are cut at once,
// all their goroutines become runnable at once, and a request would wait for its turn
// behind all of them.
type teardown chan struct{}

// processors is how many the process may use. It is read at the start, because package governor takes some away while
// there is little to do.
var processors = runtime.GOMAXPROCS(0)

func newTeardown() teardown { return make(teardown, max(1, processors)) }

// pass does a part of a leave. The part must not wait for anything.
func (t teardown) pass(part func()) {
	t <- struct{}{}
	defer func() { <-t }()
	part()
}
