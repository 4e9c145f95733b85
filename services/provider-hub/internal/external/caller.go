package external

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/session"
)

// failuresAllowed is how many probes in a row must fail before an endpoint loses its
// session.
const failuresAllowed = 3

// caller serves one revision of an endpoint while its hub holds the lease.
type caller struct {
	base
	id       ID
	revision int64
	// lease retires the caller when the lease is not renewed.
	lease *time.Timer
	// retired is closed when the caller takes no more new requests.
	retired chan struct{}
	once    sync.Once
	// news is signalled when well or listed has changed.
	news chan struct{}

	endpoint *Endpoint
	key      key

	mu       sync.Mutex
	well     bool
	listed   []string // ids of models that the server's list names
	failures int
}

// extend moves the end of the lease. It returns false for a caller that is retired.
func (c *caller) extend(rest time.Duration) bool {
	select {
	case <-c.retired:
		return false
	default:
		return c.lease.Reset(rest)
	}
}

// retire has the caller take no new requests, and end when the requests under way have ended.
func (c *caller) retire() {
	c.once.Do(func() {
		c.lease.Stop()
		close(c.retired)
	})
}

// run probes the endpoint and serves it while it is well.
func (c *caller) run(ctx context.Context) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var probing sync.WaitGroup
	defer probing.Wait()
	if !c.load(waiting) {
		return
	}
	probing.Go(func() {
		select {
		case <-c.retired:
		case <-waiting.Done():
		}
		stop()
	})
	probing.Go(func() { c.watch(waiting) })
	for {
		if well, _ := c.health(); well {
			c.serve(ctx)
			if c.pause(waiting, c.cfg.ProbeInterval) != nil {
				return
			}
			continue
		}
		select {
		case <-c.news:
		case <-waiting.Done():
			return
		}
	}
}

// load reads the endpoint, again and again while it cannot be read. It returns false where
// there is nothing to serve.
func (c *caller) load(ctx context.Context) bool {
	for {
		e, k, err := c.base.load(ctx, c.id)
		switch {
		case fault.Is(err, fault.EndpointNotFound):
			return false
		case err != nil && e != nil: // no secret opens the endpoint's key
			c.found(ctx, e, Finding{State: Unhealthy, Failure: KeyUnreadable, At: c.deps.Clock.Now()})
			return false
		case err == nil:
			c.endpoint, c.key = e, k
			return true
		}
		select {
		case <-c.retired:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(c.cfg.BeatInterval):
		}
	}
}

// pause waits for d, or fails when ctx ends.
func (c *caller) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch probes the endpoint until ctx ends. The pauses differ, so that endpoints of one
// server are not all asked at once.
func (c *caller) watch(ctx context.Context) {
	for {
		c.probe(ctx)
		each := c.cfg.ProbeInterval
		rest := each*4/5 + rand.N(each*2/5+1) //nolint:gosec // spreads load, guards nothing
		if c.pause(ctx, rest) != nil {
			return
		}
	}
}

// probe asks the endpoint once and notes what it found.
func (c *caller) probe(ctx context.Context) {
	began := c.deps.Clock.Now()
	limited, cancel := context.WithTimeout(ctx, c.cfg.ProbeTimeout)
	defer cancel()
	names, why := probe(limited, c.deps.Client, c.endpoint.BaseURL, c.key)
	if ctx.Err() != nil {
		return
	}
	if why != "" {
		// Every failure takes the same time, so that its time says nothing of why.
		rest := min(c.cfg.ProbeTimeout, c.cfg.ProbeInterval) - c.deps.Clock.Now().Sub(began)
		if c.pause(ctx, rest) != nil {
			return
		}
	}
	f := Finding{State: Healthy, Failure: why, At: began}
	if why == "" {
		if f.Listed = listed(c.endpoint.Models, names); len(f.Listed) == 0 {
			f.Failure = NoModels
		}
	} else {
		c.Counts.ProbesFailed.Add(1)
	}
	if !c.note(f.Failure, f.Listed) {
		f.State = Unhealthy
	}
	c.found(ctx, c.endpoint, f)
}

// note takes the outcome of a probe and reports whether the endpoint counts as well.
func (c *caller) note(why Failure, ids []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, listedBefore := c.well, c.listed
	switch {
	case why == "":
		c.well, c.failures, c.listed = true, 0, ids
	case c.failures+1 >= failuresAllowed || !c.well:
		c.well, c.failures = false, failuresAllowed
	default:
		c.failures++
	}
	if c.well != before || !slices.Equal(c.listed, listedBefore) {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
	return c.well
}

func (c *caller) health() (well bool, listed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.well, c.listed
}

// found stores what a probe found. A failure to store does no harm, because the next probe
// finds the same again.
func (c *caller) found(ctx context.Context, e *Endpoint, f Finding) {
	limited, cancel := context.WithTimeout(ctx, c.cfg.patience())
	defer cancel()
	if err := c.deps.Store.Found(limited, e.ID, e.Revision, f); err != nil && ctx.Err() == nil {
		c.deps.Log.Warn("the state of an external endpoint was not kept", "endpoint_id", e.ID.String(), "error", err)
	}
}

// serve is one session of the endpoint. It returns when the session has ended.
func (c *caller) serve(ctx context.Context) {
	l := newLive(ctx, c.base, c.endpoint, c.key, c.offers)
	defer l.end()
	if !l.register(ctx) {
		return
	}
	c.Counts.Served.Add(1)
	defer c.Counts.Served.Add(-1)
	heartbeat := time.NewTicker(c.cfg.HeartbeatInterval)
	defer heartbeat.Stop()
	retired := c.retired
	var out session.Outbox
	for {
		l.session.Next(&out)
		for i := range out.Messages {
			l.handle(&out.Messages[i])
		}
		clear(out.Messages)
		switch {
		case out.Closing != nil:
			return
		case out.More:
			continue
		}
		select {
		case <-l.session.Wake():
		case <-heartbeat.C:
			l.beat()
		case <-c.news:
			if well, _ := c.health(); !well {
				l.leave()
				continue
			}
			l.beat()
		case <-retired:
			retired = nil
			l.leave()
		case <-ctx.Done():
			return
		}
	}
}

// offers are the models of the endpoint. Models that the server's list lacks are unhealthy.
func (c *caller) offers() session.Models {
	_, listed := c.health()
	models := session.Models{Replaces: true}
	for _, m := range c.endpoint.Models {
		models.List = append(models.List, session.ModelNews{Whole: true, Offer: session.Offer{
			Model: m.ID, ContextLength: m.ContextLength, Quantization: m.Quantization, Capacity: m.Capacity,
			Healthy: slices.Contains(listed, m.ID), EngineModel: m.Local,
		}})
	}
	return models
}
