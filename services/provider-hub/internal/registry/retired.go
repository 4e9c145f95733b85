package registry

import (
	"svc.internal/services/provider-hub/internal/session"
)

// replacedWarning is the warning to a node's newer connection when the older one did not
// make room for it.
const replacedWarning = "this connection took the place of another live one of the same node"

// replace ends a session that was removed because its node connected again, and returns
// the newer one's warning. A session that drains serves its open requests: its agent or
// its hub has said that it leaves, and the newer session is where the agent went. It
// takes nothing new, so Find need not know it.
func (r *Registry) replace(older *session.Session) (warning string) {
	r.recorder.Ended(older)
	if r.retire(older) {
		return ""
	}
	r.recorder.Replaced(older)
	older.Shut(superseded())
	return replacedWarning
}

// retire keeps a session that drains beside its successor. It returns false when the
// session does not drain, or when its provider has as many such sessions as it may have
// sessions. A node has one, because agents could otherwise pile up sockets. It takes the
// session's lock, and so must be called without the registry's.
func (r *Registry) retire(s *session.Session) bool {
	v, live := s.View()
	if !live || !v.Draining {
		return false
	}
	at := node{v.ProviderID, v.NodeID}
	r.mu.Lock()
	before := r.retired[at]
	if before == nil {
		if r.spare[v.ProviderID] >= r.perProvider {
			r.mu.Unlock()
			return false
		}
		r.spare[v.ProviderID]++
	}
	r.retired[at] = s
	r.mu.Unlock()
	if before != nil && before != s {
		before.Shut(superseded())
	}
	if _, live := s.View(); !live {
		r.mu.Lock()
		r.forgetLocked(s) // the session left before it was noted
		r.mu.Unlock()
	}
	return true
}

// forgetLocked drops a session that was retired.
func (r *Registry) forgetLocked(s *session.Session) {
	who := s.Identity()
	at := node{who.ProviderID, who.NodeID}
	if r.retired[at] != s {
		return
	}
	delete(r.retired, at)
	if r.spare[who.ProviderID]--; r.spare[who.ProviderID] == 0 {
		delete(r.spare, who.ProviderID)
	}
}

// everyone lists the nodes' current sessions and the retired sessions.
func (r *Registry) everyone() []*session.Session {
	list := r.all()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.retired {
		list = append(list, s)
	}
	return list
}
