package inference

import (
	"context"
	"net/http"
	"time"
)

// goesOn reports whether another leg answers the client instead of this one.
func (s *session) goesOn(ctx context.Context, err error) bool {
	return s.result.Committed == 0 && ctx.Err() == nil && !s.out.failed && s.call.GoesOn != nil && s.call.GoesOn(err)
}

// Left is what is left of the whole time of a call.
func (e *Engine) Left(call *Call) time.Duration { return e.cfg.Total - e.since(call) }

// Tell ends a stream that an earlier leg has begun with the error of one that
// was not admitted.
func (e *Engine) Tell(w http.ResponseWriter, call *Call, err error) {
	s := &session{engine: e, call: call, out: newOutput(w, e.cfg.WriteTimeout)}
	s.out.begun = true
	s.tell(err)
	s.out.done()
}
