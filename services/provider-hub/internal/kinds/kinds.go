// Package kinds decides by a model's kind who may serve it: vendors alone serve gateway models, and
// vendors serve nothing else. Otherwise a provider that is no vendor could sell any answer at a
// vendor's price, and a vendor would be paid for models that the platform does not buy from it.
//
// The kinds come from the catalog. Until the hub has heard the catalog, this package refuses nothing,
// because agents that serve open models must not wait for it. Routers send gateway models to vendors
// alone in any case.
package kinds

import "sync/atomic"

// Models are the kinds of the catalog's models. A nil Models knows none. It is safe for concurrent
// use.
type Models struct {
	gateway atomic.Pointer[map[string]bool]
	version atomic.Uint64
}

// Set replaces all models: true for a gateway model, false for an open one. The caller does not change
// the map afterwards.
func (m *Models) Set(gateway map[string]bool) {
	m.gateway.Store(&gateway)
	m.version.Add(1)
}

// Version grows with each Set.
func (m *Models) Version() uint64 {
	if m == nil {
		return 0
	}
	return m.version.Load()
}

// Known reports whether the hub has heard the catalog.
func (m *Models) Known() bool { return m != nil && m.gateway.Load() != nil }

// Refusal returns why a vendor, or a provider that is no vendor, may not serve a model. It is empty
// where the model may be served, and until the hub has heard the catalog.
func (m *Models) Refusal(vendor bool, model string) string {
	if !m.Known() {
		return ""
	}
	switch gateway, listed := (*m.gateway.Load())[model]; {
	case vendor && !listed:
		return "the catalog has no such model, and a vendor serves its gateway models alone"
	case vendor && !gateway:
		return "it is an open model, and a vendor serves gateway models alone"
	case !vendor && gateway:
		return "it is a gateway model, which its vendor alone serves"
	}
	return ""
}
