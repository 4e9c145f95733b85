package inference

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/rewrite"
)

// attempt runs the request on one candidate; nil when it has served.
func (s *session) attempt(ctx context.Context, candidate *routerv1.Candidate) *failure {
	s.answer = newAnswer(s.call, s.engine.clock.Now)
	d, err := s.dispatch(ctx, candidate)
	if err != nil {
		if ctx.Err() != nil {
			return s.cut()
		}
		return unreachable(err)
	}
	defer func() {
		if d.close(s.lastParting()); d.owed() {
			s.result.Committed, s.result.Served = s.attemptNumber(), candidate
		}
	}()
	defer context.AfterFunc(ctx, func() { d.giveUp(s.parting()) })()
	limit := s.firstContentTimeout(s.engine.cfg.Total-s.engine.since(s.call)) + s.engine.cfg.HubGrace
	guard := time.AfterFunc(limit, d.expire)
	defer guard.Stop()
	for {
		m, err := s.receive(d)
		switch {
		case ctx.Err() != nil || s.out.failed:
			return s.cut()
		case err != nil && d.expired():
			return silent()
		case err != nil:
			return broken(err, s.result.Committed != 0)
		}
		done, f := s.take(ctx, candidate, d, m)
		if more := m.GetEvent().GetMore(); !more || s.out.gathered() >= flushBytes {
			if f := s.flush(ctx); f != nil {
				return f
			}
		}
		if done || f != nil {
			return f
		}
	}
}

// receive waits for the hub's next message. Meanwhile the client is kept alive.
func (s *session) receive(d *dispatch) (*hubv1.DispatchResponse, error) {
	if s.beat != nil {
		s.beat.lend(d)
		defer s.beat.reclaim()
	}
	return d.receive()
}

// flush writes what was gathered, if somebody pays for it.
func (s *session) flush(ctx context.Context) *failure {
	if s.out.gathered() == 0 {
		return nil
	}
	if f := s.held(ctx); f != nil {
		return f
	}
	if s.out.flush() != nil {
		return s.cut()
	}
	crash.At("gateway.relaying")
	s.written = s.result.Tokens
	s.call.Running.Relayed(s.result.Tokens, s.out.relayed)
	return nil
}

// take handles one message of the hub.
func (s *session) take(ctx context.Context, candidate *routerv1.Candidate, d *dispatch, m *hubv1.DispatchResponse) (done bool, f *failure) {
	switch m := m.GetMessage().(type) {
	case *hubv1.DispatchResponse_Event:
		return false, s.event(ctx, candidate, d, m.Event)
	case *hubv1.DispatchResponse_Finished:
		d.finished = true
		return s.finish(ctx, m.Finished)
	case *hubv1.DispatchResponse_Failed:
		d.finished = true
		f := declined(m.Failed, s.result.Committed != 0)
		if refusedBy(f) {
			s.headersOfProvider(candidate)
		}
		return false, f
	}
	return false, nil // a kind of message that a newer hub may send
}

// event takes a piece of the answer. The first with content commits.
func (s *session) event(ctx context.Context, candidate *routerv1.Candidate, d *dispatch, e *hubv1.DispatchEvent) *failure {
	unfit := s.call.Stream && (len(e.GetJson()) > rewrite.MaxEvent || !s.answer.form.Fits(e.GetJson()))
	if s.result.Committed == 0 {
		if !unfit && s.call.Stream && !e.GetFirstContent() {
			if s.answer.keep(e) {
				return nil
			}
			unfit = true
		}
		if unfit || !s.answer.accept(e.GetJson()) {
			return &failure{err: upstream(), retry: true, result: resultFailed, reached: true}
		}
		if f := s.held(ctx); f != nil {
			return f
		}
		if err := d.commit(); err != nil {
			return s.uncommitted(d, err)
		}
		crash.At("gateway.committed")
		s.committed(candidate)
	} else if unfit || !s.answer.accept(e.GetJson()) {
		return &failure{err: upstream(), result: resultFailed, reached: true}
	}
	s.result.Tokens = e.GetCompletionTokens()
	s.answer.add(s.out, e)
	return nil
}

// uncommitted finds out why a commit could not be sent. The hub cannot have
// heard it, so another candidate may be tried.
func (s *session) uncommitted(d *dispatch, err error) *failure {
	switch {
	case d.expired():
		return silent()
	case errors.Is(err, errOver) || s.client.Err() != nil:
		return s.cut()
	}
	d.cancel()
	return broken(d.drain(), false)
}

// committed notes that this attempt is the one, and tells the client whose.
func (s *session) committed(candidate *routerv1.Candidate) {
	s.result.Committed = s.attemptNumber()
	s.result.Served = candidate
	s.call.Running.Committed(s.result.Committed, candidate.GetHubId(), candidate.GetProviderId())
	s.result.FirstContent = s.engine.since(s.call)
	s.headersOfProvider(candidate)
	s.setAttempts()
	if s.call.Stream {
		s.setLatency(s.result.FirstContent)
		s.out.begin()
	}
}

// held is a failure when nobody would pay for what is relayed now: the request's
// hold was given back while this process stood still.
func (s *session) held(ctx context.Context) *failure {
	switch held := s.call.Running.EnsureHeld(ctx); {
	case held:
		return nil
	case ctx.Err() != nil:
		return s.cut()
	}
	s.result.Lapsed, s.result.Usage = true, nil
	s.drop()
	return &failure{err: lapsed(), result: resultUnavailable, reached: true}
}

// drop forgets what was gathered and not written.
func (s *session) drop() {
	s.out.drop()
	s.result.Tokens = s.written
}

// finish ends an answer that was served whole.
func (s *session) finish(ctx context.Context, m *hubv1.DispatchFinished) (done bool, f *failure) {
	if s.result.Committed == 0 {
		return false, &failure{err: upstream(), retry: true, result: resultFailed, reached: true}
	}
	crash.At("gateway.finished")
	if f := s.held(ctx); f != nil {
		return false, f
	}
	s.result.Usage = m
	if s.call.Stream {
		s.answer.end(s.out, s.usage(m, s.cost(m)))
		return true, nil
	}
	s.setLatency(s.engine.since(s.call))
	cost := s.cost(m)
	s.out.header().Set("X-Svc-Cost-Usd", cost)
	if s.out.whole(s.answer.form.Whole(s.answer.body, s.usage(m, cost))) != nil {
		return false, s.cut()
	}
	s.call.Running.Relayed(s.result.Tokens, s.out.relayed)
	return true, nil
}

// cut is an attempt that this side ends: the client cannot be written to, or
// the time is over.
func (s *session) cut() *failure {
	if s.stopped() {
		return &failure{err: stopping(), result: resultUnavailable, reached: true}
	}
	if s.out.failed {
		return &failure{err: clientGone(), result: resultClientGone, reached: true}
	}
	err := s.ended()
	result := resultTimeout
	if fault.Is(err, fault.ClientClosed) {
		result = resultClientGone
	}
	return &failure{err: err, result: result, reached: true}
}
