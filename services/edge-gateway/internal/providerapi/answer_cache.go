package providerapi

import (
	"container/list"
	"sync"
	"time"

	"svc.internal/pkg/apikey"
)

// answerCache remembers the credentials that were good when they were last looked up, up to
// a bound; the one that was used least recently goes first. With provider keys it
// keeps the last answers to their status calls, up to a bound of their bytes together
// and of their age; the one that was said first goes first. It holds digests and
// answers, and no credential.
type answerCache struct {
	limit    int
	maxBytes int
	keptFor  time.Duration

	mu    sync.Mutex
	order *list.List // of *keptKey, most recent first
	at    map[apikey.Digest]*list.Element
	said  *list.List // of those *keptKey that have an answer, the last that was said first
	bytes int        // of the answers
}

type keptKey struct {
	digest apikey.Digest
	answer []byte // nil for none
	at     time.Time
	said   *list.Element // nil without an answer
}

func newKept(most, mostBytes int, keptFor time.Duration) *answerCache {
	return &answerCache{
		limit: most, maxBytes: mostBytes, keptFor: keptFor,
		order: list.New(), at: map[apikey.Digest]*list.Element{}, said: list.New(),
	}
}

// knows reports whether a credential was good when it was last looked up.
func (k *answerCache) knows(d apikey.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at[d] != nil
}

// know notes a good credential.
func (k *answerCache) know(d apikey.Digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.find(d)
}

func (k *answerCache) find(d apikey.Digest) *keptKey {
	if element, ok := k.at[d]; ok {
		k.order.MoveToFront(element)
		return element.Value.(*keptKey)
	}
	if len(k.at) >= k.limit {
		k.remove(k.order.Back())
	}
	one := &keptKey{digest: d}
	k.at[d] = k.order.PushFront(one)
	return one
}

// keep notes the answer to a status call. One that is larger than all may be together
// is not kept.
func (k *answerCache) keep(d apikey.Digest, answer []byte, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.find(d)
	k.unsay(one)
	k.expire(now)
	if len(answer) > k.maxBytes {
		return
	}
	for k.bytes+len(answer) > k.maxBytes {
		k.unsay(k.said.Back().Value.(*keptKey))
	}
	one.answer, one.at, one.said = answer, now, k.said.PushFront(one)
	k.bytes += len(answer)
}

// answer gives the last answer to a status call and how old it is; false when there
// is none, or it is too old.
func (k *answerCache) answer(d apikey.Digest, now time.Time) ([]byte, time.Duration, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expire(now)
	element, ok := k.at[d]
	if !ok || element.Value.(*keptKey).said == nil {
		return nil, 0, false
	}
	one := element.Value.(*keptKey)
	return one.answer, now.Sub(one.at), true
}

// expire drops the answers that are too old. The caller holds the lock.
func (k *answerCache) expire(now time.Time) {
	for last := k.said.Back(); last != nil; last = k.said.Back() {
		one := last.Value.(*keptKey)
		if now.Sub(one.at) < k.keptFor {
			return
		}
		k.unsay(one)
	}
}

// unsay drops the answer of a key that is still known.
func (k *answerCache) unsay(one *keptKey) {
	if one.said == nil {
		return
	}
	k.bytes -= len(one.answer)
	k.said.Remove(one.said)
	one.answer, one.said = nil, nil
}

// forget drops a credential that is good no more.
func (k *answerCache) forget(d apikey.Digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if element, ok := k.at[d]; ok {
		k.remove(element)
	}
}

func (k *answerCache) remove(element *list.Element) {
	one := element.Value.(*keptKey)
	k.unsay(one)
	k.order.Remove(element)
	delete(k.at, one.digest)
}
