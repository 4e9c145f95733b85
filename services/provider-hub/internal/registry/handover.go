package registry

import (
	"context"

	"svc.internal/services/provider-hub/internal/session"
)

// Moving lists the sessions whose agents move when they are asked to drain, including the
// retired sessions, whose agents have moved and end their open requests.
func (r *Registry) Moving() []*session.Session {
	var all []*session.Session
	for _, s := range r.everyone() {
		if v, live := s.View(); live && v.Told {
			all = append(all, s)
		}
	}
	return all
}

// AwaitLeft returns when the sessions have ended or ctx has.
func (r *Registry) AwaitLeft(ctx context.Context, all []*session.Session) {
	gone := make(chan struct{}, len(all))
	waiting := 0
	r.mu.Lock()
	for _, s := range all {
		at := node{s.Identity().ProviderID, s.Identity().NodeID}
		if r.sessions[at] == s || r.retired[at] == s {
			r.awaited[s] = gone
			waiting++
		}
	}
	r.mu.Unlock()
	for range waiting {
		select {
		case <-gone:
		case <-ctx.Done():
			return
		}
	}
}

// leftLocked signals the end of a session to its waiter.
func (r *Registry) leftLocked(s *session.Session) {
	if gone, ok := r.awaited[s]; ok {
		delete(r.awaited, s)
		gone <- struct{}{}
	}
}
