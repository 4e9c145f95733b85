package httpapi

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fault"
)

// uploadRetry is when a client may try again that found no room: by then some
// of the others have been answered.
const uploadRetry = 2 * time.Second

// uploads bounds the memory of all uploads together.
type uploads struct {
	most int64
	used atomic.Int64
}

// take reserves n bytes; false is no room.
func (u *uploads) take(n int64) bool {
	if u.used.Add(n) <= u.most {
		return true
	}
	u.used.Add(-n)
	return false
}

func (u *uploads) give(n int64) { u.used.Add(-n) }

// upload is the body of one request, in memory that is reserved as it grows: a
// client that declares much and sends little holds little.
type upload struct {
	from     *uploads
	body     []byte
	reserved int64
}

// release gives back what was reserved, once nothing of the body is kept.
func (u *upload) release() {
	u.body = nil
	u.from.give(u.reserved)
	u.reserved = 0
}

// read reads a body of at most limit bytes.
func (u *upload) read(x *exchange, limit int64) error {
	for {
		if len(u.body) == cap(u.body) {
			if err := u.grow(x.request.ContentLength, limit); err != nil {
				return err
			}
		}
		n, err := x.request.Body.Read(u.body[len(u.body):cap(u.body)])
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

// grow makes room for as much again, or for no more than is to come. The byte
// beyond shows where the body ends.
func (u *upload) grow(declared, limit int64) error {
	size := max(firstBuffer, 2*int64(cap(u.body)))
	size = min(size, limit+1)
	if declared >= int64(len(u.body)) {
		size = min(size, declared+1)
	}
	if !u.from.take(size - u.reserved) {
		return fault.New(fault.Unavailable, fault.ServiceUnavailable,
			"Too many uploads are being served. Try again in a moment.").After(uploadRetry)
	}
	u.reserved = size
	u.body = append(make([]byte, 0, size), u.body...)
	return nil
}
