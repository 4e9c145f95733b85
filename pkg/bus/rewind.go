package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"svc.internal/pkg/clock"
)

// rewindPause is the pause before a consumer that came back by itself is taken
// away again.
const rewindPause = 100 * time.Millisecond

// ErrTooOld is returned for a time of which a stream does not hold all messages
// any more.
var ErrTooOld = errors.New("the stream does not go back so far")

// Reach returns an error unless the stream holds every message that was stored
// since then. It wraps ErrTooOld, and names the oldest message, when some may
// have been dropped.
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
		complete = oldest // what was before it is gone
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

// Rewind has a durable consumer deliver every message again that the stream has
// stored since then, and returns how many these are. What is older counts as
// acknowledged, whether or not it was. It refuses what Reach refuses.
//
// Consumers may go on meanwhile: they find their consumer gone, and take it up
// where it begins now. One that comes back before it is made here delivers the
// whole stream; it is taken away again. What is in a handler's hands is delivered
// once more, too. Its acknowledgement counts for the new delivery: so whatever
// made the rewind necessary must be over.
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
	for {
		if err := c.deleteConsumer(ctx, stream, durable); err != nil {
			return 0, fmt.Errorf("take consumer %s away: %w", durable, err)
		}
		consumer, err := c.createConsumer(ctx, stream, want)
		switch {
		case err == nil:
			return consumer.CachedInfo().NumPending, nil
		case !errors.Is(err, jetstream.ErrConsumerExists) || ctx.Err() != nil:
			return 0, fmt.Errorf("make consumer %s anew: %w", durable, err)
		}
		_ = clock.Sleep(ctx, rewindPause)
	}
}

// deleteConsumer takes a consumer away, if it is there.
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
