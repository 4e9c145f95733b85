package engine

import "context"

// Replace gives the pool other targets. Requests under way go on. Requests for a model that is
// taken away are forwarded until the next call, because a hub learns of the change a moment
// later. Replace returns when the engines of the new targets have been asked once.
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
