package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrFull says that a stream of facts has no room for a message.
var ErrFull = errors.New("the stream of facts is full")

// lookInterval is the time after which the size of a stream is asked for again, because
// other connections publish too.
const lookInterval = time.Second

// lookTimeout bounds one look at a stream.
const lookTimeout = 5 * time.Second

// messageOverhead is about what a stream keeps of a message beside its data.
const messageOverhead = 128

// furtherRoom is the part of a stream's bytes that facts on further subjects may fill.
func furtherRoom(maxBytes int64) int64 { return maxBytes - maxBytes/4 }

// growthRoom is the part of a stream's bytes that facts may fill which are larger than
// those whose place they take. The rest is for messages under way: they stand in the
// stream beside those that they replace.
func growthRoom(maxBytes int64) int64 { return maxBytes - maxBytes/8 }

// room keeps a stream of facts below its bound. A single server lets a message into a full
// stream that takes the place of another of its size. The servers of a cluster count the
// message before they know what it replaces, so a full stream would refuse every change of
// a fact. Therefore publishers refuse further facts before the stream is full. It is safe
// for concurrent use.
type room struct {
	stream   string
	subjects []string

	mu       sync.Mutex
	maxBytes int64
	bytes    int64 // in the stream, at the last look and published since
	inflight int64 // published and not answered
	stored   int64 // published and stored since the connection ensured the stream
	lookedAt time.Time
}

// reserve counts a message as under way, and reports whether it fits for certain.
func (r *room) reserve(size int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inflight += size
	return now.Sub(r.lookedAt) < lookInterval && r.bytes+r.inflight <= furtherRoom(r.maxBytes)
}

// end takes a message off those under way.
func (r *room) end(size int64, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inflight -= size
	if stored {
		r.bytes += size
		r.stored += size
	}
}

// beforeLook returns the bytes that were stored before a look begins.
func (r *room) beforeLook() (stored int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored
}

// looked takes over what the server says of the stream, and returns how many bytes there
// are with those under way, and the bound. Messages that were stored while the look was
// under way may be missing in the server's answer, so their bytes are added to it.
func (r *room) looked(state *jetstream.StreamInfo, storedBefore int64, now time.Time) (filled, maxBytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes = int64(state.State.Bytes) + r.stored - storedBefore
	r.maxBytes, r.lookedAt = state.Config.MaxBytes, now
	return r.bytes + r.inflight, r.maxBytes
}

// rooms are the rooms of the streams of facts that a connection has ensured. It is safe for
// concurrent use.
type rooms struct {
	mu   sync.Mutex
	list []*room
}

// keep remembers a stream of facts that was ensured; lastOnly is false for any other, which
// is forgotten.
func (all *rooms) keep(stream string, subjects []string, lastOnly bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.list = slices.DeleteFunc(all.list, func(r *room) bool {
		return r.stream == stream && (!lastOnly || !slices.Equal(r.subjects, subjects))
	})
	if lastOnly && !slices.ContainsFunc(all.list, func(r *room) bool { return r.stream == stream }) {
		all.list = append(all.list, &room{stream: stream, subjects: slices.Clone(subjects)})
	}
}

// of is the room of the stream that listens on subject; nil where there is none.
func (all *rooms) of(subject string) *room {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, r := range all.list {
		if slices.ContainsFunc(r.subjects, func(pattern string) bool { return listens(pattern, subject) }) {
			return r
		}
	}
	return nil
}

// enter returns when a message may be published. The caller calls ended with the outcome.
// Subjects of no stream of facts are not looked at.
func (all *rooms) enter(
	ctx context.Context, js jetstream.JetStream, subject string, data []byte,
) (ended func(error), err error) {
	r := all.of(subject)
	if r == nil {
		return func(error) {}, nil
	}
	size := int64(len(data)) + messageOverhead
	ended = func(err error) { r.end(size, err == nil) }
	if r.reserve(size, time.Now()) {
		return ended, nil
	}
	if err = r.look(ctx, js, subject, size); err != nil {
		r.end(size, false)
		return nil, err
	}
	return ended, nil
}

// look asks the server whether a message has room.
func (r *room) look(ctx context.Context, js jetstream.JetStream, subject string, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	storedBefore := r.beforeLook()
	stream, err := js.Stream(ctx, r.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the publication makes it again
	}
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", r.stream, err)
	}
	filled, maxBytes := r.looked(stream.CachedInfo(), storedBefore, time.Now())
	if filled <= furtherRoom(maxBytes) {
		return nil
	}
	last, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("look at stream %s: %w", r.stream, err)
	}
	switch {
	case err != nil:
		return fmt.Errorf("stream %s: %w", r.stream, ErrFull)
	case size > int64(len(last.Data))+messageOverhead && filled > growthRoom(maxBytes):
		return fmt.Errorf("stream %s: the message is larger than the last one: %w", r.stream, ErrFull)
	default:
		return nil
	}
}

// listens reports whether a stream's subject, which may have wildcards, takes a message's
// subject.
func listens(pattern, subject string) bool {
	for {
		want, morePattern, wantsMore := strings.Cut(pattern, ".")
		got, moreSubject, hasMore := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return true
		case want != "*" && want != got, wantsMore != hasMore:
			return false
		case !wantsMore:
			return true
		}
		pattern, subject = morePattern, moreSubject
	}
}
