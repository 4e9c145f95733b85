package wsconn

import (
	"sync"
	"sync/atomic"

	"svc.internal/services/provider-hub/internal/quota"
)

// Counts are the figures of all connections of a pool, for metrics.
type Counts struct {
	// FramesIn are messages that came.
	FramesIn atomic.Int64
	// Discarded are large messages that were thrown away.
	Discarded atomic.Int64
}

// bufferBytes is the size of the buffers that connections share.
const bufferBytes = 64<<10 + 1<<10

// busyBytes is the size of the buffers that connections borrow to read through.
const busyBytes = 16 << 10

// Pool is what the connections of a server share: buffers, and the budget of
// messages that do not fit into one. It is safe for concurrent use.
type Pool struct {
	buffers sync.Pool // of *[]byte, each of bufferBytes
	inputs  sync.Pool // of *[]byte, each of busyBytes
	large   *quota.Budget
	counts  *Counts
}

// NewPool returns a pool whose large messages take their buffers out of a budget.
func NewPool(large *quota.Budget, counts *Counts) *Pool {
	return &Pool{
		buffers: sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }},
		inputs:  sync.Pool{New: func() any { b := make([]byte, busyBytes); return &b }},
		large:   large, counts: counts,
	}
}

// Get lends a buffer of 65 KiB, to encode messages into.
func (p *Pool) Get() *[]byte { return p.buffers.Get().(*[]byte) }

// Put takes a buffer back.
func (p *Pool) Put(b *[]byte) { p.buffers.Put(b) }
