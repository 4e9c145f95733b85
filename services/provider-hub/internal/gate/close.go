package gate

import (
	"context"
	"math/rand/v2"
	"time"

	"svc.internal/services/provider-hub/internal/session"
)

// Drain takes no further sockets and asks every agent to leave. Agents are given times to
// dial again that are spread out, so that the hub that takes them over is not overrun.
// Agents that cannot be asked stay until Close, and registrations that wait are not
// answered any more.
func (g *Gate) Drain() {
	all := g.stop()
	for _, c := range all {
		c.session.Drain(g.cfg.spread(len(all)))
	}
}

// Close ends every session and returns when their sockets are closed or ctx has ended.
// Agents that cannot be given a time to come back dial again at once. So they are closed
// in random order, one by one, at Config.CloseRate and within Config.ReconnectSpread.
// When ctx ends, all remaining ones are closed at once.
func (g *Gate) Close(ctx context.Context) error {
	var paced []*socket
	all := g.stop()
	for _, c := range all {
		if c.dialect.Paced {
			paced = append(paced, c)
			continue
		}
		c.session.Shut(session.ShuttingDown(g.cfg.spread(len(all))))
	}
	g.closePaced(ctx, paced)
	done := make(chan struct{})
	go func() {
		g.open.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closePaced ends the sessions of sockets one by one.
func (g *Gate) closePaced(ctx context.Context, all []*socket) {
	rand.Shuffle(len(all), func(i, j int) { //nolint:gosec // spreads load, guards nothing
		all[i], all[j] = all[j], all[i]
	})
	span := min(g.cfg.ReconnectSpread, time.Duration(float64(len(all))/g.cfg.CloseRate*float64(time.Second)))
	began := time.Now()
	for i, c := range all {
		due := span * time.Duration(i) / time.Duration(len(all))
		if rest := due - time.Since(began); rest > 0 {
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		c.session.Shut(session.ShuttingDown(0))
	}
}

// stop refuses new sockets and returns the existing ones.
func (g *Gate) stop() []*socket {
	g.queue.close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
	all := make([]*socket, 0, len(g.sockets))
	for c := range g.sockets {
		all = append(all, c)
	}
	return all
}

// Agents come back after minReconnect at least, and each agent makes the time longer over
// which all of them do.
const (
	minReconnect  = 100 * time.Millisecond
	spreadForEach = 5 * time.Millisecond
)

// spread is the time after which one of so many agents comes back.
func (c Config) spread(agents int) time.Duration {
	over := min(c.ReconnectSpread, time.Duration(agents)*spreadForEach)
	return minReconnect + rand.N(over) //nolint:gosec // spreads load, guards nothing
}
