package connection

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/workreceipts"
)

const testKey = "sk-prov-never-in-a-log"

// bench is a link under test with its hub.
type bench struct {
	hub     *hubtest.Hub
	link    *Link
	changed chan struct{}
	log     *logBook
	stop    context.CancelFunc
	done    chan struct{} // closed when Run has returned

	mu     sync.Mutex
	offers []Offer
}

// options change what setup makes.
type options struct {
	cfg    func(*Config)
	offers []Offer
	random io.Reader
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	piped  bool
	// receipts keeps what is served; nil for none.
	receipts *workreceipts.Store
	// deps changes what the link works with.
	deps func(*Deps)
}

// setup runs a link with a hub; serve answers its requests.
func setup(t testing.TB, serve Serve, opts options) *bench {
	t.Helper()
	b := &bench{changed: make(chan struct{}, 1), log: &logBook{}, done: make(chan struct{}), offers: opts.offers}
	if b.offers == nil {
		b.offers = []Offer{{ModelID: "m", ContextLength: 4096, Quantization: "fp8", Capacity: 4, Healthy: true}}
	}
	if opts.piped {
		b.hub = hubtest.NewPiped(t)
		if opts.dial == nil {
			opts.dial = b.hub.Dial
		}
	} else {
		b.hub = hubtest.New(t)
	}
	cfg := Config{
		URL: b.hub.URL, Key: config.NewSecret(testKey), NodeID: "node-under-test", NodeName: "rig", Region: "here",
		Version:         "1",
		Capabilities:    []string{"chat", "stream", "cancel", "logprobs"},
		MaxRequestBytes: 10 << 20, MaxBufferedBytes: 64 << 20, DrainTimeout: 30 * time.Second,
	}
	if opts.cfg != nil {
		opts.cfg(&cfg)
	}
	if opts.random == nil {
		opts.random = rand.Reader
	}
	deps := Deps{
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Clock: clock.System,
		Random: opts.random, Offers: b.current, Changed: b.changed, Serve: serve, Dial: opts.dial, Receipts: opts.receipts,
	}
	if opts.deps != nil {
		opts.deps(&deps)
	}
	link, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	b.link = link
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() {
		defer close(b.done)
		if err := link.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-b.done
	})
	return b
}

func (b *bench) current() []Offer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Offer(nil), b.offers...)
}

// setHealth changes the first offer.
func (b *bench) setHealth(healthy bool) {
	b.mu.Lock()
	b.offers[0].Healthy = healthy
	b.mu.Unlock()
	b.changed <- struct{}{}
}

// logBook keeps log lines.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// echo answers with the request's body.
func echo(_ context.Context, r Request, w io.Writer) Answer {
	_, err := w.Write(r.Body)
	return Answer{Status: 200, Err: err}
}

// zeros is randomness that makes every jitter nothing; ones the longest.
type constant byte

func (c constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

// body is a request of the model m, of n bytes of text.
func body(n int) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + string(bytes.Repeat([]byte("a"), n)) + `"}]}`
}
