package fleet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// How a process that ends by itself is started again.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 30 * time.Second
	// soundLife is how long a process must live for its next end to count as a first one.
	soundLife = time.Minute
	logTail   = 8 << 10
)

// watch waits for the end of one life and handles it.
func (f *Fleet) watch(m *member, l *life) {
	<-l.done
	// A guard that has ended is reported only once, by dismiss.
	_ = f.guard.drop(l.pid)
	m.mu.Lock()
	expected := l.expected
	if time.Since(l.start) > soundLife {
		m.restarts = 0
	}
	m.restarts++
	again := m.restarts
	m.mu.Unlock()
	f.mu.Lock()
	stopping := f.stopping
	f.mu.Unlock()
	if expected || stopping {
		return
	}
	f.report(Exit{Name: m.name, Pid: l.pid, Reason: l.reason, Log: f.LogTail(m.name, logTail)})
	if f.restarts() {
		f.again(m, again)
	}
}

// restarts reports whether a process that ends by itself is started again.
func (f *Fleet) restarts() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Restart && f.started && !f.stopping
}

func (f *Fleet) report(e Exit) {
	f.mu.Lock()
	if len(f.exits) < maxExits {
		f.exits = append(f.exits, e)
	}
	f.mu.Unlock()
	f.cfg.Log.Error("a process ended by itself", "name", e.Name, "pid", e.Pid, "reason", e.Reason)
	if f.cfg.Report != nil {
		f.cfg.Report(e)
	}
}

// again starts a process until it runs or the fleet stops.
func (f *Fleet) again(m *member, attempt int) {
	for ; ; attempt++ {
		pause := min(firstPause<<min(attempt-1, 10), maxPause)
		select {
		case <-time.After(pause):
		case <-f.life.Done():
			return
		}
		if f.Pid(m.name) != 0 {
			return // somebody was faster
		}
		err := f.Launch(f.life, m.name)
		if err == nil {
			f.cfg.Log.Warn("a process was started again", "name", m.name, "attempt", attempt)
			return
		}
		f.cfg.Log.Error("a process cannot be started again", "name", m.name, "attempt", attempt, "error", err)
	}
}

// Ready returns nil when a process reports that it can serve.
func (f *Fleet) Ready(ctx context.Context, name string) error {
	m, err := f.member(name)
	if err != nil {
		return err
	}
	if f.Pid(name) == 0 {
		return fmt.Errorf("%s is not running", name)
	}
	if m.probe == nil {
		return nil
	}
	if err := m.probe(ctx); err != nil {
		return fmt.Errorf("%s is not ready: %w", name, err)
	}
	return nil
}

// readyTimeout bounds the wait for one set of processes.
const readyTimeout = 4 * time.Minute

// WaitReady waits until all named processes are ready, at most 4 minutes. It gives up as soon
// as one of them has ended.
func (f *Fleet) WaitReady(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for _, name := range names {
		for {
			err := f.Ready(ctx, name)
			if err == nil {
				break
			}
			if f.Pid(name) == 0 && !f.restarts() {
				return fmt.Errorf("%s ended before it was ready; its log ends:\n%s", name, f.LogTail(name, 2<<10))
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("%w; its log ends:\n%s", err, f.LogTail(name, 2<<10))
			}
		}
	}
	return nil
}

// probeTCP is ready when address takes connections.
func probeTCP(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		return conn.Close()
	}
}

// probeHTTP is ready when url answers 200.
func probeHTTP(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			said, err := io.ReadAll(io.LimitReader(resp.Body, 500))
			if err != nil {
				return fmt.Errorf("probe: %w", err)
			}
			return fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, said)
		}
		return nil
	}
}
