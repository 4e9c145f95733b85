package inference

import "time"

// keepAlive keeps the client of a stream alive while its request waits for a hub. It fires on a goroutine of
// its own. That goroutine may write only while the request has handed over the stream that it waits for,
// because everything else of a request belongs to the request's goroutine.
type keepAlive struct {
	sink     Sink
	lease    *Lease // what was gathered is paid for while it is valid
	flow     *flow
	interval time.Duration
	timer    *time.Timer
	waiting  chan *hubStream // holds the stream while the request waits
	ended    chan struct{}
}

// startKeepAlive starts the keep-alives after a time. The request stops them.
func startKeepAlive(sink Sink, lease *Lease, f *flow, first, interval time.Duration) *keepAlive {
	k := &keepAlive{
		sink: sink, lease: lease, flow: f, interval: interval,
		waiting: make(chan *hubStream, 1), ended: make(chan struct{}),
	}
	k.timer = time.AfterFunc(max(0, first), k.fire)
	return k
}

func (k *keepAlive) handOver(s *hubStream) { k.waiting <- s }

// takeBack waits for a comment that is just being written.
func (k *keepAlive) takeBack() { <-k.waiting }

// stop ends the keep-alives of a request that will hand over no stream again.
func (k *keepAlive) stop() {
	close(k.ended)
	k.timer.Stop()
}

// fire writes a comment, unless something was written shortly before. A client that cannot be written to has
// left.
func (k *keepAlive) fire() {
	var s *hubStream
	select {
	case s = <-k.waiting:
	case <-k.ended:
		return
	}
	defer k.handOver(s)
	paid := k.lease.Valid()
	left, err := k.sink.KeepAlive(k.interval, paid)
	switch {
	case err != nil:
		k.flow.failed = true
		k.flow.written()
		s.giveUp(clientLeft)
		return
	case left > 0:
		k.timer.Reset(left)
		return
	case paid || k.flow.gathered == 0:
		k.flow.written()
	}
	k.timer.Reset(k.interval)
}
