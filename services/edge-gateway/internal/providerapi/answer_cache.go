package providerapi

import (
	"math"
	"sync"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/lru"
)

// answerCache remembers the provider keys that were good when they were last looked up, up
// to a bound; the least recently used goes first. It keeps the last answers to their status
// calls, up to a bound of their bytes together and of their age; the oldest goes first. It
// holds digests and answers, and no key.
type answerCache struct {
	maxBytes int
	keptFor  time.Duration

	mu    sync.Mutex
	known *lru.Map[apikey.Digest, struct{}]
	// answers are the answers of known keys. Each is marked as used when it is
	// kept, and only then.
	answers *lru.Map[apikey.Digest, keptAnswer]
	bytes   int // of the answers
}

type keptAnswer struct {
	body []byte
	at   time.Time
}

func newAnswerCache(keys, maxBytes int, keptFor time.Duration) *answerCache {
	k := &answerCache{maxBytes: maxBytes, keptFor: keptFor}
	k.known = lru.New(keys, func(d apikey.Digest, _ struct{}) { k.answers.Remove(d) })
	// There are no more answers than known keys.
	k.answers = lru.New(math.MaxInt, func(_ apikey.Digest, a keptAnswer) { k.bytes -= len(a.body) })
	return k
}

// knows reports whether a key was good when it was last looked up.
func (k *answerCache) knows(d apikey.Digest) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known.Contains(d)
}

// know remembers a good key.
func (k *answerCache) know(d apikey.Digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known.Add(d, struct{}{})
}

// keep keeps the answer to a status call, unless it is larger than all answers may be
// together.
func (k *answerCache) keep(d apikey.Digest, answer []byte, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known.Add(d, struct{}{})
	k.answers.Remove(d)
	k.expireLocked(now)
	if len(answer) > k.maxBytes {
		return
	}
	for k.bytes+len(answer) > k.maxBytes {
		k.answers.RemoveOldest()
	}
	k.answers.Add(d, keptAnswer{body: answer, at: now})
	k.bytes += len(answer)
}

// answer returns the last answer to a status call and its age; false when there is none
// or it is too old.
func (k *answerCache) answer(d apikey.Digest, now time.Time) ([]byte, time.Duration, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked(now)
	a, ok := k.answers.Peek(d)
	if !ok {
		return nil, 0, false
	}
	return a.body, now.Sub(a.at), true
}

// expireLocked drops the answers that are too old.
func (k *answerCache) expireLocked(now time.Time) {
	for {
		_, oldest, ok := k.answers.GetOldest()
		if !ok || now.Sub(oldest.at) < k.keptFor {
			return
		}
		k.answers.RemoveOldest()
	}
}

// forget drops a key that is no longer good.
func (k *answerCache) forget(d apikey.Digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known.Remove(d)
}
