//go:build !race

package mac_test

import (
	"crypto/sha256"
	"testing"

	"svc.internal/pkg/mac"
)

// The race detector drops what a pool keeps, so these counts hold without it.

func TestAKeyThatIsUsedAgainCostsNoAllocation(t *testing.T) {
	var pool mac.Pool
	key, message, dst := mac.Key{1}, make([]byte, 400), make([]byte, 0, sha256.Size)
	got := testing.AllocsPerRun(1000, func() {
		m := pool.Get(&key)
		dst = m.Append(dst[:0], message)
		m.Matches(dst, message)
		pool.Put(m)
	})
	if got >= 1 { // a collection may empty the pool
		t.Errorf("got %.2f allocations, want less than one", got)
	}
}
