package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"svc.internal/pkg/config"
)

const (
	// failuresAllowed is how many probes in a row must fail before a healthy model counts
	// as unhealthy.
	failuresAllowed = 3
	maxList         = 4 << 20 // bytes of a model list
)

// State is the state of a model.
type State struct {
	ModelID string
	Healthy bool
	// ContextLength is the window in tokens: the owner's setting, but not more than the engine
	// holds. Without a setting it is the engine's window, and 0 when neither is known.
	ContextLength int64
	// Reason says why it is not healthy.
	Reason string
	// Engine is the kind of its engine: sglang, vllm, ollama or llamacpp; empty where none
	// was recognised.
	Engine string

	failures int
}

// States returns the models in the order of New.
func (p *Pool) States() []State {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := make([]State, 0, len(p.order))
	for _, id := range p.order {
		state := *p.states[id]
		state.Engine = p.engines[id].recognisedLocked()
		states = append(states, state)
	}
	return states
}

// Changed is signalled when States has changed.
func (p *Pool) Changed() <-chan struct{} { return p.changed }

// Probe asks every engine once and returns when all have answered.
func (p *Pool) Probe(ctx context.Context) {
	p.each(func(e *server) { p.probe(ctx, e) })
}

// Watch probes the engines until ctx ends.
func (p *Pool) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		var until sync.WaitGroup
		until.Go(func() {
			select {
			case <-p.replaced:
			case <-ctx.Done():
			}
			stop()
		})
		p.watchAll(watching)
		until.Wait()
	}
}

// watchAll probes the engines as they are now until ctx ends.
func (p *Pool) watchAll(ctx context.Context) {
	var learning sync.WaitGroup
	if p.cfg.AskLogprobs {
		learning.Go(func() { p.each(func(e *server) { p.learn(ctx, e) }) })
	}
	p.each(func(e *server) { p.watch(ctx, e) })
	learning.Wait()
}

func (p *Pool) watch(ctx context.Context, e *server) {
	for {
		pause := time.NewTimer(p.pause(e))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		case <-e.kick:
			pause.Stop()
		}
		p.probe(ctx, e)
	}
}

// pause is the time until the next probe. It is shorter while something is wrong, so that
// an engine that was started after the agent, or again, is offered soon.
func (p *Pool) pause(e *server) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range e.targets {
		if s := p.stateLocked(t); s != nil && (!s.Healthy || s.failures > 0) {
			return p.cfg.RetryInterval
		}
	}
	return p.cfg.ProbeInterval
}

// kick probes an engine at once that did not answer a request to its end, or did not know
// the model, unless a fault is known already.
func (p *Pool) kick(t Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.stateLocked(t); s == nil || !s.Healthy || s.failures > 0 {
		return
	}
	for _, e := range p.servers {
		if e.serves(t) {
			select {
			case e.kick <- struct{}{}:
			default:
			}
		}
	}
}

func (p *Pool) probe(ctx context.Context, e *server) {
	probing, cancel := context.WithTimeout(ctx, p.cfg.ProbeTimeout)
	defer cancel()
	list, err := listModels(probing, p.client, e.url, e.key)
	if ctx.Err() != nil {
		return
	}
	if err == nil && !list.told() {
		err = p.routed(probing, e) // an engine without a list has shown nothing yet
	}
	var windows map[string]int64
	if err == nil {
		p.recogniseOnce(probing, e, list)
		windows = p.windows(probing, e, list)
	}
	if ctx.Err() != nil {
		return
	}
	changed := false
	for _, t := range e.targets {
		listed, fault := list.find(t.LocalModel), err
		if fault == nil && list.told() && listed == nil {
			fault = fmt.Errorf("the engine does not list %q", t.LocalModel)
		}
		changed = p.note(t, windows[t.LocalModel], fault) || changed
	}
	if changed {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	if err != nil {
		p.forget(e)
		return
	}
	p.learnSoon(e)
	p.measure(probing, e)
}

// note stores a probe's result and reports whether the offer has changed by it. window is how
// many tokens the engine holds, 0 when that is not known.
func (p *Pool) note(t Target, window int64, fault error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stateLocked(t)
	if s == nil {
		return false // the target was replaced meanwhile
	}
	before := *s
	if fault != nil {
		s.failures++
		s.Reason = fault.Error()
		if s.failures >= failuresAllowed {
			s.Healthy = false
		}
	} else {
		s.failures, s.Healthy, s.Reason = 0, true, ""
		if window > 0 {
			s.ContextLength = window
			if t.ContextLength > 0 {
				s.ContextLength = min(window, t.ContextLength)
			}
		}
	}
	if s.ContextLength < t.ContextLength && s.ContextLength != before.ContextLength {
		p.log.Warn("the engine holds fewer tokens than models.json says; what it holds is declared", "model", t.ModelID,
			"engine", t.URL, "models_json", t.ContextLength, "engine_holds", s.ContextLength)
	}
	switch {
	case s.Healthy && !before.Healthy:
		p.log.Info("engine serves the model", "model", t.ModelID, "engine", t.URL)
	case !s.Healthy && (before.Healthy || before.failures == 0):
		p.log.Warn("engine does not serve the model; it is not offered", "model", t.ModelID, "engine", t.URL, "reason",
			s.Reason)
	}
	return s.Healthy != before.Healthy || s.ContextLength != before.ContextLength
}

// errMarketplace means that an address is the marketplace's. An agent with such an engine would
// get its own requests back.
var errMarketplace = errors.New("this is the marketplace's API and not an engine")

// errLocked means that an engine asks for another key.
var errLocked = errors.New("api_key or api_key_file is missing or wrong")

// listModels asks an engine for its models. The list is nil without an error for an
// engine that answers and has no such list.
func listModels(ctx context.Context, client *http.Client, root string, key config.Secret) (*modelList, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/models", nil)
	if err != nil {
		return nil, fmt.Errorf("make the probe: %w", err)
	}
	authorize(req, key)
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the engine does not answer: %w", cause(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the engine's model list was cut off: %w", cause(err))
	case resp.Header.Get("X-Svc-Request-Id") != "":
		return nil, errMarketplace
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("the engine answers %d: %w", resp.StatusCode, errLocked)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed,
		resp.StatusCode == http.StatusNotImplemented:
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the engine answers %d to /models", resp.StatusCode)
	case len(body) > maxList:
		return nil, errors.New("the engine's model list is too large")
	}
	list := &modelList{}
	if err := json.Unmarshal(body, list); err != nil {
		return nil, errors.New("the engine's model list is not of OpenAI's form")
	}
	return list, nil
}
