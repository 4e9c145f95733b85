package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultMaxAge   = 7 * 24 * time.Hour
	defaultMaxBytes = 1 << 30
	duplicateWindow = 2 * time.Minute
	// lastDuplicateWindow is short, because a message that is stored twice replaces itself.
	lastDuplicateWindow = 10 * time.Second
)

// StreamConfig describes a stream. All else is the same for all streams: they are kept in
// files and by limits (acknowledged messages stay until they are too old), a full stream
// drops its oldest messages, and message ids are remembered for two minutes. A stream
// that refused its newest messages instead would let acknowledged ones stop all new ones.
// When a consumer misses dropped messages, their producer sends them again.
//
// LastOnly makes a stream of facts instead of events.
type StreamConfig struct {
	Name     string
	Subjects []string
	// MaxAge of a message; 0 means 7 days.
	MaxAge time.Duration
	// MaxBytes of all messages, reserved on the server; 0 means 1 GiB.
	MaxBytes int64
	// Replicas of each message in a cluster; 0 means the connection's setting, or else 1.
	Replicas int
	// LastOnly keeps the last message of each subject and no other, however old it is,
	// because a fact that was dropped would look like a fact that never was. Messages on
	// further subjects are refused once three quarters of MaxBytes are full, and messages
	// larger than the one whose place they take once seven eighths are. A message that is
	// no larger always takes its place, also in a cluster (see room). MaxAge has no meaning
	// then.
	LastOnly bool
}

func (s StreamConfig) native() jetstream.StreamConfig {
	if s.MaxAge == 0 {
		s.MaxAge = defaultMaxAge
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = defaultMaxBytes
	}
	if s.Replicas == 0 {
		s.Replicas = 1
	}
	native := jetstream.StreamConfig{
		Name: s.Name, Subjects: s.Subjects,
		MaxAge: s.MaxAge, MaxBytes: s.MaxBytes, Replicas: s.Replicas, MaxMsgsPerSubject: -1,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardOld, Duplicates: min(duplicateWindow, s.MaxAge),
	}
	if s.LastOnly {
		native.MaxMsgsPerSubject, native.MaxAge = 1, 0
		native.Discard, native.Duplicates = jetstream.DiscardNew, lastDuplicateWindow
	}
	return native
}

// EnsureStream creates the stream or, as its owner, brings it to cfg. Every producer and
// consumer of a stream calls it with the same cfg, in any order. The connection remembers
// cfg, and creates the stream again when a server comes back with an empty store.
func (c *Conn) EnsureStream(ctx context.Context, cfg StreamConfig) error {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	want := cfg
	if want.Replicas == 0 {
		want.Replicas = c.copies
	}
	if err := c.ensureStream(ctx, want.native()); err != nil {
		return fmt.Errorf("ensure stream %s: %w", cfg.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[cfg.Name] = cfg
	c.rooms.keep(cfg.Name, cfg.Subjects, cfg.LastOnly)
	return nil
}

// ensureStream creates a missing stream. An identity that may update streams changes one
// with another configuration; every other identity uses it as it is, until its owner
// calls. A stream that matches is left alone, because every replica of every service
// calls this, and an update makes the server reorganise.
func (c *Conn) ensureStream(ctx context.Context, want jetstream.StreamConfig) error {
	standing, err := c.js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = c.js.CreateStream(ctx, want)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		// Another process was faster, with other settings.
		if !c.as.mayUpdate(want.Name) {
			return nil
		}
	case err != nil:
		return err
	case same(standing.CachedInfo().Config, want) || !c.as.mayUpdate(want.Name):
		return nil
	}
	_, err = c.js.UpdateStream(ctx, want)
	return err
}

// same compares the fields that native sets; servers fill in the others.
func same(a, b jetstream.StreamConfig) bool {
	return slices.Equal(a.Subjects, b.Subjects) && a.MaxAge == b.MaxAge && a.MaxBytes == b.MaxBytes &&
		a.MaxMsgsPerSubject == b.MaxMsgsPerSubject && a.Replicas == b.Replicas && a.Storage == b.Storage &&
		a.Retention == b.Retention && a.Discard == b.Discard && a.Duplicates == b.Duplicates
}

// restoreStreams ensures again the streams that this connection has ensured before.
func (c *Conn) restoreStreams(ctx context.Context) error {
	c.mu.Lock()
	known := make([]StreamConfig, 0, len(c.streams))
	for _, cfg := range c.streams {
		known = append(known, cfg)
	}
	c.mu.Unlock()
	for _, cfg := range known {
		if err := c.EnsureStream(ctx, cfg); err != nil {
			return err
		}
	}
	return nil
}

// PublishStream stores a message in the stream that listens on subject, and returns when
// the server has accepted it. duplicate reports whether a message with the same msgID was
// accepted within the last two minutes, so that this one was not stored: success for the
// transport, and no proof of an effect. Success does not mean that the message is on disk
// (see the package comment). A stream of facts without room refuses with ErrFull.
func (c *Conn) PublishStream(
	ctx context.Context, subject, msgID string, data []byte, header Header,
) (duplicate bool, err error) {
	ctx, span := c.publishing(ctx, subject, msgID)
	defer func() { endSpan(span, err) }()
	ended, err := c.rooms.enter(ctx, c.js, subject, data)
	if err != nil {
		return false, fmt.Errorf("publish on %s: %w", subject, err)
	}
	defer func() { ended(err) }()
	ack, err := c.publishOnce(ctx, subject, msgID, data, header)
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		// No stream listens, because a store was wiped or nobody has ensured the stream
		// yet.
		if restoreErr := c.restoreStreams(ctx); restoreErr != nil {
			return false, fmt.Errorf("publish on %s: %w", subject, errors.Join(err, restoreErr))
		}
		ack, err = c.publishOnce(ctx, subject, msgID, data, header)
	}
	if err != nil {
		return false, fmt.Errorf("publish on %s: %w", subject, err)
	}
	return ack.Duplicate, nil
}

func (c *Conn) publishOnce(
	ctx context.Context, subject, msgID string, data []byte, header Header,
) (*jetstream.PubAck, error) {
	return c.js.PublishMsg(ctx, outgoing(ctx, subject, data, header), jetstream.WithMsgID(msgID))
}

// Future is the outcome of PublishStreamAsync.
type Future struct {
	done      chan struct{}
	duplicate bool
	err       error
}

// Done is closed when the outcome is known, at most 10 s after the publish.
func (f *Future) Done() <-chan struct{} { return f.done }

// Wait returns the results of PublishStream. When ctx ends first, the outcome stays
// unknown.
func (f *Future) Wait(ctx context.Context) (duplicate bool, err error) {
	select {
	case <-f.done:
		return f.duplicate, f.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// PublishStreamAsync is PublishStream without waiting for the server, for batches:
// publish all, then Wait for each. It blocks while 1,024 messages of this connection are
// unanswered. A connection that stays up keeps the order of messages; the failure of one
// says nothing about later ones. A lost connection fails the messages under way, whose
// outcome is then unknown.
func (c *Conn) PublishStreamAsync(
	ctx context.Context, subject, msgID string, data []byte, header Header,
) (*Future, error) {
	select {
	case c.async <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("publish on %s: %w", subject, ctx.Err())
	}
	ended, err := c.rooms.enter(ctx, c.js, subject, data)
	if err != nil {
		<-c.async
		return nil, fmt.Errorf("publish on %s: %w", subject, err)
	}
	ctx, span := c.publishing(ctx, subject, msgID)
	ack, err := c.js.PublishMsgAsync(outgoing(ctx, subject, data, header), jetstream.WithMsgID(msgID))
	if err != nil {
		<-c.async
		ended(err)
		endSpan(span, err)
		return nil, fmt.Errorf("publish on %s: %w", subject, err)
	}
	f := &Future{done: make(chan struct{})}
	c.waits.Go(func() {
		defer func() { <-c.async }()
		defer close(f.done)
		defer func() { ended(f.err) }()
		defer func() { endSpan(span, f.err) }()
		select {
		case got := <-ack.Ok():
			f.duplicate = got.Duplicate
		case err := <-ack.Err():
			f.err = fmt.Errorf("publish on %s: %w", subject, err)
		case <-c.closed:
			f.err = fmt.Errorf("publish on %s: %w", subject, jetstream.ErrConnectionClosed)
		}
	})
	return f, nil
}
