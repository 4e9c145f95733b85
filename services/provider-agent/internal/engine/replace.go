package engine

import "context"

// Replace makes the pool one of other targets. Requests under way go on, and requests for
// a model that is taken away are forwarded until the next call, because a hub learns of it
// a moment later. Replace returns when the engines of the new targets have been asked once.
func (p *Pool) Replace(ctx context.Context, targets []Target) {
	p.mu.Lock()
	last := make(map[string]Target, len(p.order))
	for _, id := range p.order {
		last[id] = p.targets[id]
	}
	p.targets = last
	p.setLocked(targets)
	p.mu.Unlock()
	select {
	case p.replaced <- struct{}{}:
	default:
	}
	p.Probe(ctx)
}

// target is what serves a model.
func (p *Pool) target(modelID string) (Target, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.targets[modelID]
	return t, ok
}

// stateLocked is the state of a target; nil when the target is none of the pool any more.
func (p *Pool) stateLocked(t Target) *State {
	if p.targets[t.ModelID] != t {
		return nil
	}
	return p.states[t.ModelID]
}
