package external

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
)

// nothing is a store without endpoints.
type nothing struct{ Store }

func (nothing) Endpoint(context.Context, ids.ProviderID, ID) (Endpoint, error) {
	return Endpoint{}, NotFound()
}

// A process may be paused between the statement that renews a lease and the next line.
func TestALeaseThatIsOverWhenItBeginsRetiresItsCaller(t *testing.T) {
	t.Parallel()
	h := New(Config{}, Deps{Store: nothing{}, Log: slog.New(slog.DiscardHandler), Clock: clock.System})
	for range 100 {
		h.mu.Lock()
		h.beginLocked(t.Context(), Held{}, time.Now().Add(-time.Second), nil)
		c := h.callers[ID{}]
		h.mu.Unlock()
		<-c.retired
	}
	h.work.Wait()
	if got := h.Counts.LeasesLost.Load(); got != 100 {
		t.Errorf("leases lost: got %d, want 100", got)
	}
}
