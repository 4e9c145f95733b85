package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
)

const (
	// probeInterval is the pause between two rounds in which the balancer asks the
	// gateways whether they are ready.
	probeInterval = 50 * time.Millisecond
	// maxFailures bounds the failures that a load remembers.
	maxFailures = 50
	// maxTurns bounds the gateways that one request is offered to.
	maxTurns = 50
)

// Load is a set of callers who keep asking a fleet, as through a load balancer: a request
// goes to a gateway that is ready, and to another one if the connection is refused.
// Anything else that goes wrong with a request is a failure.
type Load struct {
	bases  []string
	ready  []atomic.Bool
	key    string
	model  string
	client *http.Client

	stop context.CancelFunc
	wg   sync.WaitGroup
	turn atomic.Uint32

	answered atomic.Int64
	mu       sync.Mutex
	failed   int
	failures []string
}

// StartLoad starts callers who ask for a model, every second answer streamed,
// until Stop or the end of the test.
func (m *Market) StartLoad(t testing.TB, key, model string, callers int) *Load {
	t.Helper()
	f := m.fleet
	l := &Load{bases: m.Bases(), ready: make([]atomic.Bool, len(m.bases)), key: key, model: model,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	for i, name := range f.Replicas(fleet.Gateway) {
		l.ready[i].Store(f.Ready(ctx, name) == nil)
		l.wg.Go(func() { l.probe(ctx, f, i, name) })
	}
	for i := range callers {
		l.wg.Go(func() { l.ask(ctx, i) })
	}
	t.Cleanup(func() { l.Stop() })
	return l
}

// Stop lets the requests under way end. It returns how many requests were answered, how
// many failed, and the first fifty failures.
func (l *Load) Stop() (answered int64, failed int, failures []string) {
	l.stop()
	l.wg.Wait()
	l.client.CloseIdleConnections()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered.Load(), l.failed, l.failures
}

// Answered is how many requests have been answered so far.
func (l *Load) Answered() int64 { return l.answered.Load() }

// Failed is how many requests have failed so far.
func (l *Load) Failed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *Load) probe(ctx context.Context, f *fleet.Fleet, i int, name string) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.ready[i].Store(f.Ready(ctx, name) == nil)
		case <-ctx.Done():
			return
		}
	}
}

// ask makes one request after the other. Requests under way at the end may end.
func (l *Load) ask(ctx context.Context, caller int) {
	for n := caller; ctx.Err() == nil; n++ {
		began := time.Now()
		base, err := l.request(ctx, n%2 == 0)
		if err == nil {
			l.answered.Add(1)
			continue
		}
		if ctx.Err() != nil && errors.Is(err, errNoGateway) {
			return
		}
		l.mu.Lock()
		l.failed++
		if len(l.failures) < maxFailures {
			l.failures = append(l.failures, fmt.Sprintf("at %s after %v through %s: %v",
				began.Format("15:04:05.000"), time.Since(began).Round(time.Millisecond), base, err))
		}
		l.mu.Unlock()
	}
}

var errNoGateway = errors.New("no gateway takes it")

// request offers one request to gateways in turn until one takes it.
func (l *Load) request(ctx context.Context, stream bool) (base string, err error) {
	requestCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	for range maxTurns {
		i := int(l.turn.Add(1)) % len(l.bases)
		if !l.ready[i].Load() && l.anyReady() {
			continue
		}
		err := l.send(requestCtx, l.bases[i], stream)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return l.bases[i], err
		}
		select {
		case <-time.After(probeInterval / 10):
		case <-ctx.Done():
			return "", errNoGateway
		}
	}
	return "", errNoGateway
}

func (l *Load) anyReady() bool {
	for i := range l.ready {
		if l.ready[i].Load() {
			return true
		}
	}
	return false
}

// send makes the request and reads the answer to its end.
func (l *Load) send(ctx context.Context, base string, stream bool) error {
	body := Chat(l.model, "")
	if stream {
		body = Chat(l.model, `,"stream":true`)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+ChatPath, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	id := resp.Header.Get(RequestIDHeader)
	switch {
	case err != nil:
		return fmt.Errorf("%s breaks off after %d bytes: %w", id, len(answer), err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %d %.300s", id, resp.StatusCode, answer)
	case stream && !bytes.HasSuffix(answer, []byte("data: [DONE]\n\n")):
		return fmt.Errorf("%s ends with %q", id, Tail(string(answer), 300))
	}
	return nil
}
