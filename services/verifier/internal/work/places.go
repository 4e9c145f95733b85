package work

import (
	"slices"
	"sync"

	"svc.internal/pkg/ids"
)

// places are the providers of what is under way, each as often as it has something. The zero
// value has none. It is safe for concurrent use.
type places struct {
	mu    sync.Mutex
	taken []ids.ProviderID
}

func (p *places) take(provider ids.ProviderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, provider)
}

func (p *places) give(provider ids.ProviderID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.taken, provider); i >= 0 {
		p.taken = slices.Delete(p.taken, i, i+1)
	}
}

func (p *places) list() []ids.ProviderID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.taken)
}
