// Package courier stands between a card processor and the address to which it sends its events, so that a harness can
// have events lost, come twice, or come in the reverse order. The processor hears each time that all is well. Nothing
// may rest on events, so the money must be right all the same.
package courier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Manner is how events are passed on.
type Manner int

// The manners.
const (
	// Honest passes each event on once.
	Honest Manner = iota
	// Losing passes none on.
	Losing
	// Twice passes each event on two times.
	Twice
	// Reversing keeps an event until another one has come and been passed on.
	Reversing
)

const (
	// maxBody bounds an event, in bytes.
	maxBody = 256 << 10
	// passTimeout bounds the passing of one event.
	passTimeout = 5 * time.Second
)

// Courier passes events on.
type Courier struct {
	// URL is where it takes events.
	URL string

	server *http.Server
	client *http.Client
	done   chan struct{}

	mu     sync.Mutex
	target string
	manner Manner
	taken  int64
	kept   []event
}

type event struct {
	path   string
	header http.Header
	body   []byte
}

// Start starts a courier, which refuses events until it knows where they go.
func Start() (*Courier, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a courier: %w", err)
	}
	c := &Courier{URL: "http://" + lis.Addr().String(), client: &http.Client{Timeout: passTimeout},
		done: make(chan struct{})}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: passTimeout}
	go func() {
		defer close(c.done)
		_ = c.server.Serve(lis) // it ends by Close
	}()
	return c, nil
}

// Close ends it.
func (c *Courier) Close() error {
	err := c.server.Close()
	<-c.done
	return err
}

// To sets the root of the API to which events go.
func (c *Courier) To(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = target
}

// Behave sets how events are passed on from now on. The returned function makes the courier honest again; what was kept
// is passed on then.
func (c *Courier) Behave(m Manner) (mend func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.manner = m
	return func(ctx context.Context) error {
		c.mu.Lock()
		kept := c.kept
		c.manner, c.kept = Honest, nil
		c.mu.Unlock()
		var faults []error
		for _, e := range kept {
			faults = append(faults, c.pass(ctx, e))
		}
		return errors.Join(faults...)
	}
}

// Taken is how many events have come.
func (c *Courier) Taken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// ServeHTTP takes an event.
func (c *Courier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, e := range c.take(event{r.URL.Path, r.Header, body}) {
		if err := c.pass(r.Context(), e); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
}

// take returns what is to be passed on now, in order.
func (c *Courier) take(e event) []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken++
	switch c.manner {
	case Losing:
		return nil
	case Twice:
		return []event{e, e}
	case Reversing:
		if len(c.kept) == 0 {
			c.kept = append(c.kept, e)
			return nil
		}
		all := append([]event{e}, c.kept...)
		c.kept = nil
		return all
	case Honest:
	}
	return []event{e}
}

// pass passes an event on, byte for byte.
func (c *Courier) pass(ctx context.Context, e event) error {
	c.mu.Lock()
	target := c.target
	c.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target+e.path, bytes.NewReader(e.body))
	if err != nil {
		return fmt.Errorf("pass an event on: %w", err)
	}
	req.Header = e.header.Clone()
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("pass an event on: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // only the status counts
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("pass an event on: got status %d", resp.StatusCode)
	}
	return nil
}
