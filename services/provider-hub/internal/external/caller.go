package external

import (
	"context"
	"errors"
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
	// news is signalled when well, listed or resting has changed.
	news chan struct{}
	// doubted has the hub ask the server itself. It has room for one, and record gives no second.
	doubted chan doubt
	// opened is called with whether a secret of the hub opens the endpoint's key.
	opened func(ok bool)

	endpoint *Endpoint
	key      key
	resting  *resting

	// claimed reports whether a good probe was stored. Only watch uses it.
	claimed bool

	// before is what the caller of an earlier revision knew; nil for nothing.
	before *past

	mu       sync.Mutex
	loaded   bool // endpoint and key are set, and change no more
	well     bool
	listed   []string // ids of models that the server's list names
	failures int
	record   record
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
	probing.Go(func() { c.doubts(waiting) })
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
			_ = c.found(ctx, e, Finding{State: Unhealthy, Failure: KeyUnreadable, At: c.deps.Clock.Now()})
			c.opened(false)
			return false
		case err == nil:
			c.opened(true)
			c.begin(e, k)
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

// begin has the caller serve an endpoint.
func (c *caller) begin(e *Endpoint, k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint, c.key, c.loaded = e, k, true
	if p := c.before; p != nil && p.of(e, k) {
		c.record, c.resting = p.record, p.resting
		c.resting.tells(c.tell)
	}
	c.before = nil
}

// past is what the caller knows, or what it was told and had no time to use; nil for nothing.
func (c *caller) past() *past {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		return c.before
	}
	r := c.record
	r.asking = false // what the hub asks now is of this caller alone
	return &past{c.endpoint, c.key, r, c.resting}
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
	if ctx.Err() != nil || why == hubFull {
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
	if f.Failure == "" && c.callsFail() {
		f.Failure = CallsFail
	}
	if f.Failure == "" && !c.claimed {
		// The provider must hold the origin before its first session there begins.
		if errors.Is(c.found(ctx, c.endpoint, f), ErrOriginTaken) {
			f.Failure = OriginTaken
		} else {
			c.claimed = true
		}
	}
	if !c.note(f.Failure, f.Listed) {
		f.State = Unhealthy
	}
	if err := c.found(ctx, c.endpoint, f); errors.Is(err, ErrOriginTaken) {
		c.claimed = false // an operator ended the sharing; the next probe reports it
	}
}

// note takes the outcome of a probe and reports whether the endpoint counts as well.
func (c *caller) note(why Failure, ids []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, listedBefore := c.well, c.listed
	switch {
	case why == "":
		c.well, c.failures, c.listed = true, 0, ids
	case c.failures+1 >= failuresAllowed || !c.well || why == OriginTaken || why == CallsFail:
		c.well, c.failures = false, failuresAllowed
	default:
		c.failures++
	}
	if c.well != before || !slices.Equal(c.listed, listedBefore) {
		c.tell()
	}
	return c.well
}

// rest lets a model rest, if the end of a call asks for it. Meanwhile routers choose another server, or
// none.
func (c *caller) rest(model string, end *session.End) {
	if end.Complete && end.Status >= 200 && end.Status <= 299 {
		c.resting.answered(model)
		return
	}
	if d := c.resting.begin(model, end.RetryAfter); d > 0 {
		c.deps.Log.Info("an external endpoint asks to be left alone", "endpoint_id", c.id.String(), "model", model,
			"asked_seconds", end.RetryAfter.Seconds(), "seconds", d.Seconds())
	}
}

// tell signals that the offers have changed.
func (c *caller) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// called notes how a call of the endpoint ended, why the hub gave it up, and how long its server was
// silent.
func (c *caller) called(r *session.Request, end *session.End, cause error, silentFor time.Duration) {
	o := outcomeOf(end, cause, r.Stream, silentFor)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.note(o, c.deps.Clock.Now()) {
		c.doubted <- doubt{r.Kind, r.Model}
	}
}

// doubts asks the server itself whenever its calls fail, until ctx ends.
func (c *caller) doubts(ctx context.Context) {
	for {
		select {
		case d := <-c.doubted:
			if o := ask(ctx, c.deps.Client, c.endpoint, c.key, d); ctx.Err() == nil {
				c.judge(o)
			}
		case <-ctx.Done():
			return
		}
	}
}

// judge takes the outcome of the hub's own call, and has the endpoint rest if it failed too.
func (c *caller) judge(o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.record.judge(o, c.deps.Clock.Now()) {
		return
	}
	c.deps.Log.Warn("an external endpoint is not served for a while: its calls failed", "endpoint_id", c.id.String())
	c.well, c.failures = false, failuresAllowed
	c.tell()
}

// callsFail reports whether good probes do not count now, because calls failed.
func (c *caller) callsFail() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deps.Clock.Now().Before(c.record.until)
}

func (c *caller) health() (well bool, listed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.well, c.listed
}

// found stores what a probe found, and fails with ErrOriginTaken. Any other failure to store does
// no harm, because the next probe finds the same again.
func (c *caller) found(ctx context.Context, e *Endpoint, f Finding) error {
	limited, cancel := context.WithTimeout(ctx, c.cfg.patience())
	defer cancel()
	err := c.deps.Store.Found(limited, e.ID, e.Revision, f)
	switch {
	case errors.Is(err, ErrOriginTaken):
		return ErrOriginTaken
	case err != nil && ctx.Err() == nil:
		c.deps.Log.Warn("the state of an external endpoint was not kept", "endpoint_id", e.ID.String(), "error", err)
	}
	return nil
}

// serve is one session of the endpoint. It returns when the session has ended.
func (c *caller) serve(ctx context.Context) {
	l := newLive(ctx, c.base, c.endpoint, c.key, c.offers)
	l.rest, l.called = c.rest, c.called
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
		case <-l.due:
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

// offers are the models of the endpoint. A model that rests, or that the server's list lacks, is
// unhealthy.
func (c *caller) offers() session.Models {
	_, listed := c.health()
	models := session.Models{Replaces: true}
	for _, m := range c.endpoint.Models {
		models.List = append(models.List, session.ModelNews{Whole: true, Offer: session.Offer{
			Model: m.ID, ContextLength: m.ContextLength, Quantization: m.Quantization, Capacity: m.Capacity,
			Healthy: slices.Contains(listed, m.ID) && !c.resting.has(m.ID), EngineModel: m.Local,
		}})
	}
	return models
}
