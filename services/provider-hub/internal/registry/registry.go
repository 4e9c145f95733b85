// Package registry holds the sessions that stand on this hub: one for each node of a
// provider, the newest by epoch, at most 64 a provider.
//
// Presence is reported from it. It keeps the changes since the last report as a set of
// sessions and a list of epochs that ended, at most 4,096 of them; beyond that a full
// report says the same.
package registry

import (
	"context"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/presence"
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

// Registry holds the sessions of a hub. It is safe for concurrent use.
type Registry struct {
	accounts    *provider.Directory
	recorder    *presence.Recorder
	warmed      func(*session.Session, session.Warmed)
	perProvider int
	changed     chan struct{}

	mu       sync.Mutex
	sessions map[node]*session.Session
	// retired sessions drain, and a newer one of their node has replaced them. They serve
	// their open requests, and nothing else knows of them.
	retired map[node]*session.Session
	spare   map[ids.ProviderID]int // how many retired sessions a provider has
	count   map[ids.ProviderID]int
	dirty   map[*session.Session]struct{}
	ended   []int64
	full    bool // more ended than the list holds
	// awaited are the sessions whose end somebody waits for.
	awaited map[*session.Session]chan<- struct{}
	public  publics
	// identities are by what providers here are known, and receiptKeys by what their nodes
	// are: the keys are looked at when sessions join.
	identities  identities
	receiptKeys map[node]provider.Identity
}

// New returns an empty registry that admits the providers of accounts, and reports their
// sessions to recorder. warmed is called for the outcome of warm-ups, under the session's
// lock; it may be nil. perProvider bounds the sessions of one provider; 0 means 64.
func New(accounts *provider.Directory, recorder *presence.Recorder,
	warmed func(*session.Session, session.Warmed), perProvider int) *Registry {
	if warmed == nil {
		warmed = func(*session.Session, session.Warmed) {}
	}
	if perProvider == 0 {
		perProvider = defaultPerProvider
	}
	return &Registry{
		accounts: accounts, recorder: recorder, warmed: warmed, perProvider: perProvider,
		changed:  make(chan struct{}, 1),
		sessions: map[node]*session.Session{}, retired: map[node]*session.Session{},
		awaited: map[*session.Session]chan<- struct{}{}, public: publics{of: map[ids.ProviderID]heard{}},
		identities: identities{of: map[ids.ProviderID]identified{}}, receiptKeys: map[node]provider.Identity{},
		spare: map[ids.ProviderID]int{}, count: map[ids.ProviderID]int{}, dirty: map[*session.Session]struct{}{},
	}
}

// Check implements gate.Registrar.
func (r *Registry) Check(shown session.Credential) error {
	if byWallet(shown) {
		return nil // its nonce is recognized by an HMAC, without a look-up
	}
	return provider.CheckKey(shown.Key)
}

// byWallet reports whether a wallet is shown. A key goes before it.
func byWallet(shown session.Credential) bool {
	return shown.Key == "" && shown.Owner != "" && shown.Nonce != ""
}

// Admit implements session.Registrar. A key goes before a wallet.
func (r *Registry) Admit(ctx context.Context, shown session.Credential) (session.Grant, error) {
	c, err := r.authenticate(ctx, shown)
	if err != nil {
		return session.Grant{}, err
	}
	grant := r.grant(c)
	if !c.KeyExpires.IsZero() {
		grant.Warning = "this provider key ends at " + c.KeyExpires.UTC().Format(time.RFC3339) + "; another one followed it"
	}
	return grant, nil
}

// AdmitExternal implements external.Registrar.
func (r *Registry) AdmitExternal(ctx context.Context, id ids.ProviderID) (session.Grant, error) {
	c, err := r.accounts.AdmitExternal(ctx, id)
	if err != nil {
		return session.Grant{}, err
	}
	grant := r.grant(c)
	// No agent connects as a vendor, because a vendor has no provider key.
	grant.External, grant.Vendor = true, c.Vendor
	return grant, nil
}

// grant is what a credential entitles to.
func (r *Registry) grant(c provider.Credential) session.Grant {
	r.learn(c.Standing())
	return session.Grant{
		ProviderID: c.ID, ProviderName: c.Name, KeyID: c.KeyID, Region: c.Region,
		Status: string(c.Status), Active: c.Status == provider.Active, Epoch: c.Epoch,
		Probation: c.InProbation(), Uptime30d: c.Uptime30d,
	}
}

// learn notes what routers are told of a provider, and reports whether that has changed.
func (r *Registry) learn(standing provider.Standing) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.public.learn(standing)
}

func (r *Registry) authenticate(ctx context.Context, shown session.Credential) (provider.Credential, error) {
	if byWallet(shown) {
		return r.accounts.AuthenticateWallet(ctx, shown.Owner, shown.Nonce, shown.Signature)
	}
	return r.accounts.Authenticate(ctx, shown.Key)
}

// Join implements session.Registrar. Two look-ups may finish in another order than they
// drew their epochs. Then the later epoch stays.
func (r *Registry) Join(s *session.Session) (warning string, why *session.CloseReason) {
	who := s.Identity()
	at := node{who.ProviderID, who.NodeID}
	key := s.ReceiptKey()
	r.mu.Lock()
	older := r.sessions[at]
	switch {
	case older != nil && older.Identity().Epoch >= who.Epoch:
		r.mu.Unlock()
		return "", superseded()
	case older == nil && r.count[who.ProviderID] >= r.perProvider:
		r.mu.Unlock()
		return "", &session.CloseReason{Code: agentwire.CodeTooManySessions,
			Message: "the provider has too many sessions on this hub"}
	case older != nil:
		r.removeLocked(older)
	}
	r.sessions[at] = s
	r.count[who.ProviderID]++
	if len(key) > 0 {
		r.receiptKeys[at] = r.accounts.ReceiptKeyIdentity(key)
	}
	// It is called under the mutex, because a caller that ends the session at once would
	// otherwise be recorded first.
	r.recorder.Began(s)
	r.mu.Unlock()
	if older != nil {
		return r.replace(older), nil
	}
	return "", nil
}

// Warmed implements session.Registrar.
func (r *Registry) Warmed(s *session.Session, w session.Warmed) {
	text := w.Error
	if !w.Success && text == "" {
		text = "the agent does not say why"
	}
	if w.Success {
		text = ""
	}
	r.recorder.Warmed(s, text)
	r.warmed(s, w)
}

func superseded() *session.CloseReason {
	return &session.CloseReason{Code: agentwire.CodeSuperseded, Message: "a newer connection of this node took over"}
}

// Leave implements gate.Registrar.
func (r *Registry) Leave(s *session.Session) {
	r.mu.Lock()
	stood := r.removeLocked(s)
	r.forgetLocked(s)
	r.leftLocked(s)
	r.mu.Unlock()
	if stood {
		r.recorder.Ended(s)
	}
}

// removeLocked reports whether the session stood.
func (r *Registry) removeLocked(s *session.Session) bool {
	who := s.Identity()
	at := node{who.ProviderID, who.NodeID}
	if r.sessions[at] != s {
		return false
	}
	delete(r.sessions, at)
	delete(r.receiptKeys, at)
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
	return true
}

// Touch implements session.Registrar. It takes no lock of a session, so that a
// session may call it under its own.
func (r *Registry) Touch(s *session.Session) {
	who := s.Identity()
	r.recorder.Touched(s)
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

// Len is the number of sessions.
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

// Changes returns what is new since the last call: sessions that are live and epochs that
// ended. full reports that this is not all, and that a full report is due.
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
	r.removeLocked(s)
	r.mu.Unlock()
	r.replace(s)
}

// Online reports whether a node of the provider is connected to this hub.
func (r *Registry) Online(id ids.ProviderID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[id] > 0
}

// Serving lists the sessions that serve a model, of one provider and one node where they
// are given.
func (r *Registry) Serving(model string, providerID ids.ProviderID, nodeID string) []*session.Session {
	var all []*session.Session
	for _, s := range r.all() {
		who := s.Identity()
		if !providerID.IsZero() && who.ProviderID != providerID || nodeID != "" && who.NodeID != nodeID {
			continue
		}
		v, live := s.View()
		if live && slices.ContainsFunc(v.Offers, func(o session.Offer) bool { return o.Model == model }) {
			all = append(all, s)
		}
	}
	return all
}
