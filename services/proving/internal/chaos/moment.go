package chaos

import (
	"context"
	"time"

	"svc.internal/pkg/crash/crashtest"
)

// moment is a crash point at which processes are stopped one after the other.
type moment struct {
	points *crashtest.Controller
	point  string
	// over is closed when nobody comes to the moment any more.
	over <-chan struct{}
}

// each calls done at once, after each pause, and for each process that comes to the moment, which stands until done
// has returned. It returns when done reports true, and errMissed when the moment is over before. release lets a
// process go on that stands there already.
func (at moment) each(
	ctx context.Context, release func(), pause time.Duration, done func() (bool, error),
) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	// A Stand is armed before the process at the last one goes on, because the process may come again at once.
	next := at.points.Arm(at.point, 1)
	defer func() { next.Release() }()
	for {
		ok, err := done()
		release()
		if ok || err != nil {
			return err
		}
		select {
		case <-next.Reached():
			release = next.Release
			next = at.points.Arm(at.point, 1)
		case <-ticker.C:
		case <-at.over:
			return errMissed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
