package gate

import "sync"

// turn lets a socket have at most one writer, and none while nothing is due, because the stack of a
// waiting goroutine would be a large part of what an idle socket takes. A turn is taken at first, so
// that nothing is written before the handshake is through.
type turn struct {
	mu    sync.Mutex
	free  bool // no writer runs
	again bool // something became due since the writer looked last
	over  bool // no writer starts any more
	// news tells a writer that waits that something became due; nil while none waits. left is closed
	// when the last writer has left; nil while nobody waits for that.
	news, left chan struct{}
}

// take reports whether the caller starts a writer. Otherwise the writer that runs looks again.
func (t *turn) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free && !t.over {
		t.free = false
		return true
	}
	t.again = true
	t.tellLocked()
	return false
}

// give reports whether the writer is to end. It is to look again if something became due meanwhile.
func (t *turn) give() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.again && !t.over {
		t.again = false
		return false
	}
	t.leaveLocked()
	return true
}

// quit says that the writer ends and that no other starts.
func (t *turn) quit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.leaveLocked()
}

func (t *turn) leaveLocked() {
	t.free = true
	if t.left != nil {
		close(t.left)
	}
}

// wait returns a channel on which the writer, which goes on, hears that something became due.
func (t *turn) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = make(chan struct{}, 1)
	if t.again {
		t.tellLocked()
	}
	return t.news
}

func (t *turn) tellLocked() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// end lets no writer start any more, and waits until none runs.
func (t *turn) end() {
	t.mu.Lock()
	t.over = true
	var left chan struct{}
	if !t.free {
		left = make(chan struct{})
		t.left = left
	}
	t.mu.Unlock()
	if left != nil {
		<-left
	}
}
