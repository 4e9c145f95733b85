package providerapi

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// contracts keeps where collateral is taken, so that anybody may ask without asking settlement each time.
type contracts struct {
	client  settlementv1.CollateralServiceClient
	clock   clock.Clock
	timeout time.Duration

	mu   sync.Mutex
	kept *settlementv1.GetContractsResponse
	at   time.Time
}

// contractsFor is how long an answer counts as fresh. While settlement does not answer, an older one is given.
const contractsFor = time.Minute

// read returns where collateral is taken, or the fault of settlement. One call asks at a time.
func (c *contracts) read(ctx context.Context) (*settlementv1.GetContractsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.kept != nil && now.Sub(c.at) < contractsFor {
		return c.kept, nil
	}
	called, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.client.GetContracts(called, &settlementv1.GetContractsRequest{})
	switch {
	case err == nil:
		c.kept, c.at = resp, now
	case c.kept != nil:
		c.at = now.Add(-contractsFor * 9 / 10) // asked again soon, and not by every call
	default:
		return nil, err
	}
	return c.kept, nil
}
