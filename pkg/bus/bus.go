// Package bus carries facts between services over NATS: core messages, which may be lost
// (presence, health), and JetStream messages, which are delivered at least once (usage,
// receipts). Of facts that last, such as trust, a stream keeps the newest of each subject
// for whoever starts later, and whoever runs hears them as core messages (ReadLast).
//
// No correctness rests on it. A JetStream acknowledgement means that a server has the
// message in memory, not on disk. The duplicate window is two minutes. A consumer may get
// a message again after any error, and in another order. So producers keep what they sent
// until its effect is confirmed by the consumer, and consumers are idempotent by a unique
// constraint.
//
// Messages are opaque bytes. Bounds: 16,384 messages or 32 MiB wait for a subscription's
// handler, then new ones are dropped and counted. While the connection is down, 8 MiB are
// kept for sending, then Publish fails. 1,024 asynchronous stream messages await
// acknowledgement, then PublishStreamAsync blocks. A batch has at most 200 messages.
package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
)

const (
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 500 * time.Millisecond
	reconnectBuffer = 8 << 20
	// pingInterval × maxPings is the time after which a dead peer is noticed.
	pingInterval = 10 * time.Second
	maxPings     = 2
	drainTimeout = 20 * time.Second
	// requestTimeout bounds one JetStream request when ctx has no deadline.
	requestTimeout = 5 * time.Second
	asyncTimeout   = 10 * time.Second
	maxAsync       = 1024
)

// Config is how to reach the servers.
type Config struct {
	// URL is one or several nats:// or tls:// URLs separated by commas. It may
	// hold a password and is never part of an error or a log line. Not needed
	// with InProcess.
	URL string
	// Name is shown in the server's monitoring.
	Name string
	// Log gets lost connections and dropped messages; nil means no log.
	Log *slog.Logger
	// InProcess, when set, connects without a socket to a server in this
	// process. Such a connection does not survive that server's Stop.
	InProcess InProcess
	// TLS, when set, encrypts the connection and proves our identity. A server that does
	// not speak TLS is refused.
	TLS *tls.Config
	// Identity is our identity at the server. Nil is for tests and for the process that
	// runs the server: it allows everything, where the server accepts it.
	Identity *Identity
	// Secret is what the server derives the identities' passwords from; empty shows none.
	// It is for loopback, where there is no TLS.
	Secret string
	// Replicas is the number of servers of a cluster that keep each message of the
	// streams that the connection ensures; 0 means 1.
	Replicas int
	// Traces records publications into streams and their consumption, within recorded
	// traces; nil records nothing.
	Traces trace.TracerProvider
}

// InProcess is a NATS server in this process. Package natsserver has one; this
// package does not link it, because most processes run no server.
type InProcess interface {
	// InProcessConn is a new connection to the server, without a socket.
	InProcessConn() (net.Conn, error)
	// Inside returns the user of this process's own connections and its password.
	Inside() (user, password string)
}

// Conn is a connection that repairs itself until it is closed. It is safe for
// concurrent use.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	tracer trace.Tracer
	as     *Identity     // nil may do everything
	copies int           // of each message in a stream that does not say it; 0 means 1
	closed chan struct{} // closed when nc is closed for good
	async  chan struct{} // one token per unacknowledged asynchronous message
	waits  sync.WaitGroup

	mu      sync.Mutex
	streams map[string]StreamConfig // as ensured by us, to repair a wiped store
	rooms   rooms                   // of those of them that keep facts
	back    chan struct{}           // closed at the next reconnection
}

// Connect returns when the connection is up, and tries until ctx ends. After that the
// connection reconnects without limit by itself.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{
		log:     cfg.Log,
		tracer:  tracerOf(cfg.Traces),
		as:      cfg.Identity,
		copies:  cfg.Replicas,
		closed:  make(chan struct{}),
		async:   make(chan struct{}, maxAsync),
		streams: map[string]StreamConfig{},
		back:    make(chan struct{}),
	}
	up := make(chan struct{}, 1)
	nc, err := nats.Connect(cfg.URL, c.options(cfg, up)...)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = errors.New("the URL is malformed") // its own text quotes the URL
		}
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c.nc = nc
	select {
	case <-up:
	case <-ctx.Done():
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", errors.Join(ctx.Err(), nc.LastError()))
	}
	c.js, err = jetstream.New(nc,
		jetstream.WithDefaultTimeout(requestTimeout),
		jetstream.WithPublishAsyncTimeout(asyncTimeout))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("prepare JetStream: %w", err)
	}
	return c, nil
}

func (c *Conn) options(cfg Config, up chan<- struct{}) []nats.Option {
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.ReconnectBufSize(reconnectBuffer),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		nats.DrainTimeout(drainTimeout),
		nats.ConnectHandler(func(*nats.Conn) { up <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.log.Info("NATS connection is back")
			c.announceReconnection()
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn("NATS connection lost", "error", err)
			}
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			c.log.Warn("NATS reports an error", "error", err, "subject", subject)
		}),
	}
	if cfg.TLS != nil {
		opts = append(opts, nats.Secure(cfg.TLS))
	}
	if cfg.Identity != nil && len(cfg.Identity.Services) > 0 {
		opts = append(opts, nats.CustomInboxPrefix(cfg.Identity.inbox(cfg.Identity.Services[0])))
		if cfg.Secret != "" {
			name := cfg.Identity.Name()
			opts = append(opts, nats.UserInfo(name, Password(cfg.Secret, name)))
		}
	}
	if cfg.InProcess != nil {
		opts = append(opts, nats.InProcessServer(cfg.InProcess), nats.UserInfo(cfg.InProcess.Inside()))
	}
	return opts
}

// Connected reports whether the connection is up now, for readiness checks.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Reconnected returns a channel that is closed at the next reconnection.
func (c *Conn) Reconnected() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// Watch calls look while the connection is up, until ctx ends: at first and after each
// reconnection, of which fresh is true, and when the pause is over that the last call returned.
func (c *Conn) Watch(ctx context.Context, look func(fresh bool) (pause time.Duration)) {
	back, fresh := c.Reconnected(), true
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-back:
			back, fresh = c.Reconnected(), true
		case <-timer.C:
		}
		if !c.Connected() {
			continue // the reconnection is heard of
		}
		timer.Reset(look(fresh))
		fresh = false
	}
}

func (c *Conn) announceReconnection() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.back)
	c.back = make(chan struct{})
}

// Flush returns when the server has processed everything sent so far.
func (c *Conn) Flush(ctx context.Context) error {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush NATS connection: %w", err)
	}
	return nil
}

// Drain stops the subscriptions, lets handlers finish what has arrived, sends
// what is buffered and closes the connection; when ctx ends first, the rest is
// dropped. Consume loops must have been ended by their own contexts before.
func (c *Conn) Drain(ctx context.Context) error {
	defer c.waits.Wait()
	defer c.Close()
	if err := c.nc.Drain(); err != nil {
		if errors.Is(err, nats.ErrConnectionClosed) {
			return nil
		}
		return fmt.Errorf("drain NATS connection: %w", err)
	}
	select {
	case <-c.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain NATS connection: %w", ctx.Err())
	}
}

// Close drops the connection at once. Futures that are not resolved fail.
func (c *Conn) Close() { c.nc.Close() }

// withRequestTimeout gives ctx a deadline if it has none.
func withRequestTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, requestTimeout)
}
