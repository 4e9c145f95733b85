package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// readTimeout bounds one reading of a stream.
	readTimeout = 30 * time.Second
	// readBatch is how many messages one request of a reading brings.
	readBatch = 100
	// readWait bounds one request of a reading, and readHeartbeat is as pollHeartbeat.
	readWait      = 2 * time.Second
	readHeartbeat = 500 * time.Millisecond
	// readerExpiry is after how long the server forgets a reading that nobody goes on with.
	readerExpiry = 30 * time.Second
)

// errLostReading says that a connection was lost while a stream was read.
var errLostReading = errors.New("messages were lost on the way")

// ReadLast hands the last message of each subject of a stream to handler, one at a time,
// and returns how many there were. It creates the stream where there is none. It reads as
// many messages as the stream had at the start, so that it ends although messages keep
// coming. Messages that arrive meanwhile may be among them, in place of others. A caller
// that is to miss nothing subscribes to the subjects first, and bears a message twice or
// out of order.
//
// After an error some of the messages have been handed over. A reading ends after 30 s at
// the latest.
func (c *Conn) ReadLast(ctx context.Context, cfg StreamConfig, handler func(Message)) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	consumer, err := c.reader(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() {
		// The server forgets a reader that is not deleted after readerExpiry, so nobody
		// waits for a server that has just failed to answer.
		if err == nil {
			_ = c.deleteConsumer(ctx, cfg.Name, consumer.CachedInfo().Name)
		}
	}()
	for limit := -1; ; {
		var left int
		left, err = waiting(ctx, consumer, n)
		if limit < 0 {
			limit = left
		}
		if err == nil && (left == 0 || n >= limit) {
			return n, nil
		}
		if err == nil {
			var more int
			more, err = readOn(consumer, min(left, limit-n, readBatch), n, handler)
			n += more
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return n, fmt.Errorf("read stream %s: %w", cfg.Name, err)
		}
	}
}

// waiting returns how many messages are still to be read after read of them.
func waiting(ctx context.Context, consumer jetstream.Consumer, read int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	if info.Delivered.Consumer != uint64(read) {
		return 0, errLostReading
	}
	return int(info.NumPending), nil
}

// readOn hands over up to batchSize messages, of which the first is the one after read
// messages. It asks for no more than there are, because it waits for as many as it asks
// for. Heartbeats reveal a connection that is lost meanwhile.
func readOn(consumer jetstream.Consumer, batchSize, read int, handler func(Message)) (n int, err error) {
	batch, err := consumer.Fetch(batchSize, jetstream.FetchMaxWait(readWait), jetstream.FetchHeartbeat(readHeartbeat))
	if err != nil {
		return 0, err
	}
	for native := range batch.Messages() {
		meta, metaErr := native.Metadata()
		if err = errors.Join(err, metaErr); err != nil {
			continue // the rest of the batch must be taken all the same
		}
		if n++; meta.Sequence.Consumer != uint64(read+n) {
			err = errLostReading
			continue
		}
		handler(Message{Subject: native.Subject(), Header: Header(native.Headers()), Data: native.Data()})
	}
	return n, errors.Join(err, batch.Error())
}

// reader makes a consumer that is forgotten after the reading.
func (c *Conn) reader(ctx context.Context, cfg StreamConfig) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.EnsureStream(ctx, cfg); err != nil {
		return nil, err
	}
	consumer, err := c.js.CreateConsumer(ctx, cfg.Name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: cfg.Subjects,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: readerExpiry, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", cfg.Name, err)
	}
	return consumer, nil
}
