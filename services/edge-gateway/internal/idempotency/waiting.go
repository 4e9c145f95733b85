package idempotency

import "sync"

// maxUploads is how many requests with a file of one consumer key may wait for others,
// because each keeps a part of the memory that all uploads share.
const maxUploads = 2

// waiting bounds the requests that wait for others, by their number and by the
// memory of their bodies.
type waiting struct {
	limit, maxPerKey share

	mu    sync.Mutex
	all   share
	ofKey map[string]share
}

// share is a number of waiting requests with the memory of their bodies.
type share struct {
	requests, uploads int
	bytes             int64
}

func shareOf(ask *Ask) share {
	s := share{requests: 1, bytes: ask.Holds}
	if ask.Upload {
		s.uploads = 1
	}
	return s
}

func (s share) plus(o share) share {
	return share{s.requests + o.requests, s.uploads + o.uploads, s.bytes + o.bytes}
}

func (s share) minus(o share) share {
	return share{s.requests - o.requests, s.uploads - o.uploads, s.bytes - o.bytes}
}

func (s share) within(bound share) bool {
	return s.requests <= bound.requests && s.uploads <= bound.uploads && s.bytes <= bound.bytes
}

// enter counts a request that waits; it reports false when there is no room for it.
func (w *waiting) enter(ask *Ask) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, ofKey := w.all.plus(shareOf(ask)), w.ofKey[ask.KeyID].plus(shareOf(ask))
	if !all.within(w.limit) || !ofKey.within(w.maxPerKey) {
		return false
	}
	w.all, w.ofKey[ask.KeyID] = all, ofKey
	return true
}

func (w *waiting) leave(ask *Ask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = w.all.minus(shareOf(ask))
	ofKey := w.ofKey[ask.KeyID].minus(shareOf(ask))
	if ofKey.requests == 0 {
		delete(w.ofKey, ask.KeyID)
		return
	}
	w.ofKey[ask.KeyID] = ofKey
}
