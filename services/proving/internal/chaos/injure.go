package chaos

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/proving/internal/chaos/ethnode"
	"svc.internal/services/proving/internal/chaos/plan"
)

// manners are how a node behaves.
var manners = map[plan.Kind]ethnode.Manner{
	plan.NodeAway: ethnode.Away, plan.NodeLies: ethnode.Lying, plan.NodeMute: ethnode.Mute,
}

// injure does one fault and repairs everything. It calls hurt at the moment at which the
// harm is done.
func (m *market) injure(ctx context.Context, f plan.Fault, hurt func()) error {
	if f.Cell.Kind == plan.Dark {
		return m.dark(ctx, f, hurt)
	}
	if f.Cell.Kind == plan.Back {
		return m.setBack(ctx, f, hurt)
	}
	if f.Cell.Kind == plan.Reorg {
		return m.reorg(ctx, f, hurt)
	}
	stand := m.points.Arm(f.Cell.Point, f.Nth)
	defer stand.Release()
	late := time.After(reachBound)
	if f.Cell.Night {
		late = nil // a night says itself when it is over, and a slow one comes late to its last moments
	}
	var pid int
	select {
	case pid = <-stand.Reached():
	case <-late:
		return errMissed
	case <-m.over:
		return errMissed
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.Cell.Kind == plan.Unfinal {
		return m.unfinal(ctx, f, stand.Release, hurt)
	}
	hurt()
	switch f.Cell.Kind {
	case plan.Kill, plan.Lose:
		return m.kill(ctx, f, m.victims(f, pid), stand.Release)
	case plan.Stop:
		return m.stop(ctx, f, m.victims(f, pid), stand.Release)
	case plan.Full:
		return m.fill(ctx, f, m.victims(f, pid), stand.Release)
	case plan.NodeAway, plan.NodeLies, plan.NodeMute:
		defer m.paying.node.Behave(manners[f.Cell.Kind])()
		stand.Release()
		return clock.Sleep(ctx, f.Away)
	case plan.CardLost, plan.CardTwice, plan.CardReversed:
		stand.Release()
		return m.payByCard(ctx, f)
	case plan.Forget:
		defer stand.Release()
		return m.books.ForgetSigned(ctx)
	case plan.Forge:
		return m.forge(ctx, f, stand.Release)
	case plan.Cut, plan.Stall:
		from, to := f.Cell.Program, f.Cell.To
		cut := m.links.Cut
		if f.Cell.Kind == plan.Stall {
			cut = m.links.Stall
		}
		harm := cut(from, to, f.All, f.Pick)
		defer harm.Mend()
		if harm.Links() == 0 {
			return fmt.Errorf("there is no link from %q to %q", from, to)
		}
		stand.Release()
		return clock.Sleep(ctx, f.Away)
	default:
		return fmt.Errorf("%v is not known", f)
	}
}
