package store

import (
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/lru"
)

// maxVendorPrices bounds the price versions that are remembered. It is more than gateway models have in
// force at a time.
const maxVendorPrices = 1024

// keptPrices remembers the price versions of gateway models that were used last and are in the database.
// It is safe for concurrent use.
type keptPrices struct {
	mu       sync.Mutex
	versions *lru.Map[ids.PriceVersionID, struct{}]
}

func newKeptPrices() *keptPrices {
	return &keptPrices{versions: lru.New[ids.PriceVersionID, struct{}](maxVendorPrices, nil)}
}

func (k *keptPrices) has(version ids.PriceVersionID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, kept := k.versions.Get(version)
	return kept
}

func (k *keptPrices) add(version ids.PriceVersionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.versions.Add(version, struct{}{})
}
