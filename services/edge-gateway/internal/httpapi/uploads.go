package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"svc.internal/pkg/fault"
)

// uploadRetry is after how long a client that found no room may try again. By then some
// of the others have been answered.
const uploadRetry = 2 * time.Second

// uploads bounds the memory of all uploads together, and of the uploads of one
// consumer key.
type uploads struct {
	maxBytes, maxBytesOfKey int64

	mu    sync.Mutex
	used  int64
	ofKey map[string]int64
}

// take reserves n bytes. Without room for all uploads it fails with service_unavailable
// (503), and without room for the key's with concurrency_limit_exceeded (429), both with
// the time to try again.
func (u *uploads) take(keyID string, n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.ofKey[keyID]+n > u.maxBytesOfKey:
		return fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded,
			"Too many uploads of this key are being served. Try again in a moment.").After(uploadRetry)
	case u.used+n > u.maxBytes:
		return fault.New(fault.Unavailable, fault.ServiceUnavailable,
			"Too many uploads are being served. Try again in a moment.").After(uploadRetry)
	}
	u.used += n
	u.ofKey[keyID] += n
	return nil
}

func (u *uploads) give(keyID string, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used -= n
	if u.ofKey[keyID] -= n; u.ofKey[keyID] == 0 {
		delete(u.ofKey, keyID)
	}
}

// upload is the body of one request, in memory that is reserved as it grows, so that a
// client that declares much and sends little holds little.
type upload struct {
	from     *uploads
	keyID    string
	body     []byte
	reserved int64
}

// release gives back the reserved memory, once nothing of the body is kept.
func (u *upload) release() {
	u.body = nil
	u.from.give(u.keyID, u.reserved)
	u.reserved = 0
}

// fit gives back the memory that was reserved beyond a body that came without a length.
func (u *upload) fit() {
	size := int64(len(u.body))
	if u.reserved <= size+1 {
		return
	}
	u.body = append(make([]byte, 0, size), u.body...)
	u.from.give(u.keyID, u.reserved-size)
	u.reserved = size
}

// read reads a body of at most limit bytes.
func (u *upload) read(r *http.Request, limit int64) error {
	for {
		if len(u.body) == cap(u.body) {
			if err := u.grow(r.ContentLength, limit); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(u.body[len(u.body):cap(u.body)])
		u.body = u.body[:len(u.body)+n]
		switch {
		case int64(len(u.body)) > limit:
			return tooLarge(limit)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fault.New(fault.Invalid, fault.InvalidRequest, "The body did not arrive in time.")
		case err != nil:
			return fault.Wrap(err, fault.Invalid, fault.InvalidRequest, "The body could not be read.")
		}
	}
}

// grow makes room for as much again, or for no more than is to come. One byte more shows
// where the body ends.
func (u *upload) grow(declared, limit int64) error {
	size := max(firstBuffer, 2*int64(cap(u.body)))
	size = min(size, limit+1)
	if declared >= int64(len(u.body)) {
		size = min(size, declared+1)
	}
	if err := u.from.take(u.keyID, size-u.reserved); err != nil {
		return err
	}
	u.reserved = size
	u.body = append(make([]byte, 0, size), u.body...)
	return nil
}
