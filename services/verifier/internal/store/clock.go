package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
)

// clockTolerance is by how much the two clocks may come apart before the difference is
// corrected. Corrections of milliseconds would change the order of what happens at once.
const clockTolerance = time.Second

// Clock tells the database's time without asking for it each time: the machine's time and
// the difference that Read found last. It is for times that replicas must agree on and that
// come too often to be asked for. Before the first Read it tells the machine's time. It is
// safe for concurrent use.
type Clock struct {
	store   *Store
	machine clock.Clock
	ahead   atomic.Int64 // nanoseconds
}

// NewClock returns the clock of a store's database, beside that of the machine.
func NewClock(s *Store, machine clock.Clock) *Clock { return &Clock{store: s, machine: machine} }

// Now implements clock.Clock.
func (c *Clock) Now() time.Time { return c.machine.Now().Add(time.Duration(c.ahead.Load())) }

// Read reads the database's clock. Where that fails the difference stays as it was.
func (c *Clock) Read(ctx context.Context) error {
	asked := c.machine.Now()
	at, err := c.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("compare the clocks: %w", err)
	}
	// The database read its clock about halfway between question and answer.
	took := c.machine.Now().Sub(asked)
	ahead := at.Sub(asked.Add(took / 2))
	if by := ahead - time.Duration(c.ahead.Load()); by.Abs() > clockTolerance+took/2 {
		c.ahead.Store(int64(ahead))
	}
	return nil
}
