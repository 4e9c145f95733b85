package challenge

import (
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/quota"
)

// holding is what one challenge holds of Runner.room. It belongs to the goroutine of its
// challenge.
type holding struct {
	room     *quota.Budget
	provider ids.ProviderID
	bytes    int64
}

// take takes n bytes, and reports whether there was room for them.
func (h *holding) take(n int) bool {
	if !h.room.Take(h.provider, int64(n)) {
		return false
	}
	h.bytes += int64(n)
	return true
}

// give gives n bytes back.
func (h *holding) give(n int) {
	h.room.Give(h.provider, int64(n))
	h.bytes -= int64(n)
}

// giveAll gives back what is held.
func (h *holding) giveAll() { h.give(int(h.bytes)) }
