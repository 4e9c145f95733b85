package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"svc.internal/pkg/clock"
)

const (
	// rewindPause is the pause before a consumer that was created again by another is deleted
	// again.
	rewindPause = 100 * time.Millisecond
	// rewindTries bounds how often that is done.
	rewindTries = 100
)

// ErrTooOld says that a stream no longer holds all messages since a time.
var ErrTooOld = errors.New("the stream does not go back so far")

// Reach returns an error unless the stream holds every message that was stored since
// then. When some may have been dropped, the error wraps ErrTooOld and names the oldest
// message.
func (c *Conn) Reach(ctx context.Context, stream string, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	standing, err := c.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", stream, err)
	}
	info := standing.CachedInfo()
	complete, oldest := info.Created, info.State.FirstTime
	if info.State.FirstSeq > 1 {
		complete = oldest // older messages were dropped
	}
	if info.State.FirstSeq > 1 && info.State.Msgs == 0 {
		complete = info.State.LastTime.Add(1)
	}
	if since.Before(complete) {
		text := "it holds no message"
		if info.State.Msgs > 0 {
			text = "its oldest message is of " + oldest.UTC().Format(time.RFC3339Nano)
		}
		return fmt.Errorf("stream %s, asked for %s, is complete since %s, and %s: %w", stream,
			since.UTC().Format(time.RFC3339Nano), complete.UTC().Format(time.RFC3339Nano), text, ErrTooOld)
	}
	return nil
}

// Rewind has a durable consumer deliver again every message that the stream has stored
// since then, and returns their number. Older messages count as acknowledged, whether or
// not they were. It refuses what Reach refuses.
//
// Processes may consume meanwhile: they find their consumer deleted, and continue at the
// start of the new one. A consumer that a process creates before Rewind does would
// deliver the whole stream, so it is deleted again. Messages that a handler has are
// delivered once more, too, and its acknowledgement counts for the new delivery. So the
// cause of the rewind must be over.
//
// The server has five seconds to answer each request, as in Reach.
func (c *Conn) Rewind(ctx context.Context, stream, durable string, since time.Time) (uint64, error) {
	if err := c.Reach(ctx, stream, since); err != nil {
		return 0, err
	}
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	want := durableConfig(durable, "")
	want.DeliverPolicy, want.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	for try := 1; ; try++ {
		if err := c.deleteConsumer(ctx, stream, durable); err != nil {
			return 0, fmt.Errorf("take consumer %s away: %w", durable, err)
		}
		consumer, err := c.createConsumer(ctx, stream, want)
		switch {
		case err == nil:
			info := consumer.CachedInfo()
			// A process that consumes may have got messages before the server wrote this.
			return info.NumPending + info.Delivered.Consumer, nil
		case !crossed(err) || ctx.Err() != nil || try == rewindTries:
			return 0, fmt.Errorf("make consumer %s anew: %w", durable, err)
		}
		_ = clock.Sleep(ctx, rewindPause)
	}
}

// crossed reports whether a consumer may not have been made because another process made
// it at the same time: it exists, or its files were in use while the server made them.
func crossed(err error) bool {
	var said *jetstream.APIError
	return errors.Is(err, jetstream.ErrConsumerExists) ||
		errors.As(err, &said) && said.ErrorCode == jetstream.JSErrCodeConsumerCreate
}

// deleteConsumer deletes a consumer, if it exists.
func (c *Conn) deleteConsumer(ctx context.Context, stream, durable string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.js.DeleteConsumer(ctx, stream, durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

func (c *Conn) createConsumer(
	ctx context.Context, stream string, want jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.js.CreateConsumer(ctx, stream, want)
}
