// Package registry knows the sessions that stand on this hub: one for each
// node of a provider, the newest by epoch, at most 64 a provider.
//
// It is what presence is reported from. What changed since the last report is
// kept as a set of sessions and a list of epochs that ended, at most 4,096 of
// them; beyond that a full report says the same.
package registry

import (
	"context"
	"sync"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	defaultPerProvider = 64
	maxEnded           = 4096
)

// node is one machine of a provider.
type node struct {
	provider ids.ProviderID
	name     string
}

// Registry is the sessions of a hub. It is safe for concurrent use.
type Registry struct {
	accounts    *provider.Directory
	perProvider int
	changed     chan struct{}

	mu       sync.Mutex
	sessions map[node]*session.Session
	count    map[ids.ProviderID]int
	dirty    map[*session.Session]struct{}
	ended    []int64
	full     bool // more ended than the list holds
}

// New returns an empty registry that admits the providers of accounts.
// perProvider bounds the sessions of one provider; 0 means 64.
func New(accounts *provider.Directory, perProvider int) *Registry {
	if perProvider == 0 {
		perProvider = defaultPerProvider
	}
	return &Registry{
		accounts: accounts, perProvider: perProvider, changed: make(chan struct{}, 1),
		sessions: map[node]*session.Session{}, count: map[ids.ProviderID]int{}, dirty: map[*session.Session]struct{}{},
	}
}

// Admit implements session.Registrar.
func (r *Registry) Admit(ctx context.Context, key string) (session.Grant, error) {
	c, err := r.accounts.Authenticate(ctx, key)
	if err != nil {
		return session.Grant{}, err
	}
	return session.Grant{
		ProviderID: c.ID, ProviderName: c.Name, KeyID: c.KeyID, Region: c.Region,
		Status: string(c.Status), Active: c.Status == provider.Active, Epoch: c.Epoch,
	}, nil
}

// Join implements session.Registrar. Two look-ups may finish in another order
// than they drew their epochs: then the later epoch stays.
func (r *Registry) Join(s *session.Session) *session.Closing {
	who := s.Identity()
	at := node{who.ProviderID, who.NodeID}
	r.mu.Lock()
	older := r.sessions[at]
	switch {
	case older != nil && older.Identity().Epoch >= who.Epoch:
		r.mu.Unlock()
		return superseded()
	case older == nil && r.count[who.ProviderID] >= r.perProvider:
		r.mu.Unlock()
		return &session.Closing{Code: session.CodeTooManySessions, Message: "the provider has too many sessions on this hub"}
	case older != nil:
		r.remove(older)
	}
	r.sessions[at] = s
	r.count[who.ProviderID]++
	r.mu.Unlock()
	if older != nil {
		older.Shut(superseded())
	}
	return nil
}

func superseded() *session.Closing {
	return &session.Closing{Code: session.CodeSuperseded, Message: "a newer connection of this node took over"}
}

// Leave implements session.Registrar.
func (r *Registry) Leave(s *session.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(s)
}

// remove needs the mutex.
func (r *Registry) remove(s *session.Session) {
	who := s.Identity()
	at := node{who.ProviderID, who.NodeID}
	if r.sessions[at] != s {
		return
	}
	delete(r.sessions, at)
	delete(r.dirty, s)
	if r.count[who.ProviderID]--; r.count[who.ProviderID] == 0 {
		delete(r.count, who.ProviderID)
	}
	if len(r.ended) < maxEnded {
		r.ended = append(r.ended, who.Epoch)
	} else {
		r.full = true
	}
	r.signal()
}

// Touch implements session.Registrar. It takes no lock of a session, so that a
// session may call it under its own.
func (r *Registry) Touch(s *session.Session) {
	who := s.Identity()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[node{who.ProviderID, who.NodeID}] == s {
		r.dirty[s] = struct{}{}
		r.signal()
	}
}

func (r *Registry) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Find returns the session of a node if it has that epoch.
func (r *Registry) Find(providerID ids.ProviderID, nodeID string, epoch int64) (*session.Session, bool) {
	r.mu.Lock()
	s := r.sessions[node{providerID, nodeID}]
	r.mu.Unlock()
	if s == nil || s.Identity().Epoch != epoch {
		return nil, false
	}
	return s, true
}

// Len is how many sessions there are.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}

func (r *Registry) all() []*session.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*session.Session, 0, len(r.sessions))
	for _, s := range r.sessions {
		list = append(list, s)
	}
	return list
}

// Changed is signalled when Changes has something.
func (r *Registry) Changed() <-chan struct{} { return r.changed }

// Changes returns what is new since the last call: sessions that are live and
// epochs that ended. full tells that it is not all, and that a full report is
// due.
func (r *Registry) Changes() (live []session.View, ended []int64, full bool) {
	r.mu.Lock()
	touched := r.dirty
	r.dirty = map[*session.Session]struct{}{}
	ended, r.ended = r.ended, nil
	full, r.full = r.full, false
	r.mu.Unlock()
	for s := range touched {
		if v, ok := s.View(); ok {
			live = append(live, v)
		}
	}
	return live, ended, full
}

// Views describes every live session.
func (r *Registry) Views() []session.View {
	list := r.all()
	views := make([]session.View, 0, len(list))
	for _, s := range list {
		if v, ok := s.View(); ok {
			views = append(views, v)
		}
	}
	return views
}

// Supersede ends the session of a node when another hub has a newer one.
func (r *Registry) Supersede(providerID ids.ProviderID, nodeID string, epoch int64) {
	r.mu.Lock()
	s := r.sessions[node{providerID, nodeID}]
	if s == nil || s.Identity().Epoch >= epoch {
		r.mu.Unlock()
		return
	}
	r.remove(s)
	r.mu.Unlock()
	s.Shut(superseded())
}
