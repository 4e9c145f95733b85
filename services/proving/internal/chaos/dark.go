package chaos

import (
	"context"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
)

const (
	// darkStands is how many answers are held before anybody reports them when all goes dark.
	darkStands = 4
	// darkSettle is how long hubs then have to read what was published to them.
	darkSettle = 2 * time.Second
)

// dark ends everything but PostgreSQL while some answers are complete and nobody has
// reported them, and usage is about to be settled. Only the hubs' journals know of these
// requests then.
func (m *market) dark(ctx context.Context, f plan.Fault, hurt func()) error {
	for range darkStands {
		defer m.points.Arm(f.Cell.Point, 1).Release()
	}
	first := m.points.Arm(f.Cell.Point, 1)
	defer first.Release()
	if err := reached(ctx, first.Reached()); err != nil {
		return err
	}
	settling := m.points.Arm("billing.settle.before_commit", 1)
	defer settling.Release()
	also := m.points.Arm("billing.settle.before_commit", 1)
	defer also.Release()
	if err := reached(ctx, settling.Reached()); err != nil {
		return err
	}
	if err := clock.Sleep(ctx, darkSettle); err != nil {
		return err
	}
	hurt()
	var names []string
	for _, name := range m.fleet.Names() {
		if fleet.Program(name) != fleet.Postgres {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := m.fleet.Kill(name); err != nil {
			return err
		}
	}
	if err := m.wipe(append(m.fleet.Replicas(fleet.NATS), m.fleet.Replicas(fleet.Agent)...)); err != nil {
		return err
	}
	return m.restore(ctx, names)
}

// reached waits until a process stands at a point of a crash.
func reached(ctx context.Context, at <-chan int) error {
	select {
	case <-at:
		return nil
	case <-time.After(reachBound):
		return errMissed
	case <-ctx.Done():
		return ctx.Err()
	}
}
