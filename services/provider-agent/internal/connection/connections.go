package connection

import (
	"context"
	"sync"
	"time"
)

// maxLeaving bounds the sessions that still serve the requests that were open when their
// hub began to drain. Reaching it takes as many restarts of hubs within one long answer.
// Then the oldest session ends.
const maxLeaving = 4

// connection is a session with its socket and goroutines.
type connection struct {
	session *session
	began   time.Time
	up      chan struct{} // closed when it is registered
	done    chan struct{} // closed when nothing works on it any more
	end     ending        // once done is closed
}

// connections are the connections that another one is to replace, oldest first. They are
// for the goroutine of Run.
type connections []*connection

// add adds a connection.
func (all *connections) add(ln *connection) {
	var open connections
	for _, old := range *all {
		select {
		case <-old.done:
		default:
			open = append(open, old)
		}
	}
	if len(open) >= maxLeaving {
		open[0].session.fail(&ending{text: "too many connections are about to end"})
		<-open[0].done
		open = open[1:]
	}
	*all = append(open, ln)
}

// giveWay stops all of them from taking new requests.
func (all connections) giveWay() {
	for _, ln := range all {
		ln.session.giveWay()
	}
}

// relieve lets all of them end with their last requests.
func (all connections) relieve() {
	for _, ln := range all {
		ln.session.relieve()
	}
}

// wait returns when all have ended.
func (all *connections) wait() {
	for _, ln := range *all {
		<-ln.done
	}
}

// hold keeps one session from dialling until it ends or another one is to replace it. In
// the latter case it is then among leaving, and moving is true. Once it is registered,
// the sessions that are leaving may end.
func (l *Link) hold(ctx context.Context, leaving *connections) (end ending, moving bool) {
	ln, failed := l.open(ctx, *leaving)
	if failed != nil {
		l.gone(nil, failed.reason())
		return *failed, false
	}
	up, moves := ln.up, (chan struct{})(nil)
	for {
		select {
		case <-up:
			up, moves = nil, ln.session.moving
			leaving.relieve()
		case <-moves:
			leaving.add(ln)
			why, after := ln.session.successor()
			return ending{text: why, after: after, lived: l.deps.Clock.Now().Sub(ln.began)}, true
		case <-ln.done:
			end := ln.end
			if end.after == 0 {
				_, end.after = ln.session.successor() // the hub drained and left at once
			}
			return end, false
		}
	}
}

// open dials and starts a session. The sessions that are leaving give way only once
// nothing can fail before it registers, so a failure costs them no request.
func (l *Link) open(ctx context.Context, leaving connections) (*connection, *ending) {
	shown, err := l.credential(ctx)
	if err != nil {
		return nil, &ending{text: clean(err.Error())}
	}
	conn, failed := dial(ctx, l.cfg, l.deps)
	if failed != nil {
		return nil, failed
	}
	register := l.registration(shown)
	s := newSession(l.cfg, sessionDeps{
		serve: l.deps.Serve, slots: l.slots, receipts: l.deps.Receipts, worked: l.deps.Worked, warmer: l.warmer,
		prover: l.prover, clock: l.deps.Clock, registered: register,
	})
	leaving.giveWay()
	s.register(register)
	ln := &connection{session: s, began: l.deps.Clock.Now(), up: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(ln.done)
		l.serve(ctx, ln, conn)
	}()
	return ln, nil
}

// serve runs a session until it is over.
func (l *Link) serve(ctx context.Context, ln *connection, conn *socket) {
	s := ln.session
	var work sync.WaitGroup
	work.Go(func() {
		if why := conn.read(s); why != nil {
			s.fail(why)
		}
	})
	work.Go(func() {
		if why := conn.write(s); why != nil {
			s.fail(why)
		}
	})
	lived := l.keep(ctx, ln)
	l.gone(s, "the session ended")
	work.Wait()
	s.work.Wait()
	ln.end = *s.why
	ln.end.lived = lived
	l.gone(s, ln.end.reason())
	if s.isMoving() {
		l.deps.Log.Info("the earlier connection has ended", "reason", ln.end.reason())
	}
}
