// Package sessiontest is what tests of sessions and of the gate share: a registrar
// without a database, listeners over pipes, and the messages of agents.
package sessiontest

import (
	"context"
	"io"
	"sync"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/session"
)

// Registrar is a registrar without a database. The key "malformed" is no key, "bad" is
// refused, "down" finds no store, and "other" is of another provider than all other keys.
type Registrar struct {
	mu sync.Mutex
	// Look-ups wait for Wait; nil for nothing. Failing is how many look-ups still fail.
	// Join returns Warning, or refuses the session for Why. Broken has Touch panic. These
	// fields are set before there are sessions, or by Set.
	Wait    chan struct{}
	Failing int
	Warning string
	Why     *session.CloseReason
	Broken  bool

	heard Heard
}

// Heard is what a Registrar was told and asked.
type Heard struct {
	// Shown are the credentials that were looked up. Epoch is the last epoch given out.
	Shown  []session.Credential
	Epoch  int64
	Joined []*session.Session
	Warmed []session.Warmed
	// Left and Touched count calls.
	Left, Touched int
}

// Set changes the registrar while there are sessions.
func (r *Registrar) Set(change func(*Registrar)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// Heard is what the registrar was told and asked so far.
func (r *Registrar) Heard() Heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard
}

// Session is the session that joined last.
func (r *Registrar) Session(t testing.TB) *session.Session {
	t.Helper()
	joined := r.Heard().Joined
	if len(joined) == 0 {
		t.Fatal("no session has joined")
	}
	return joined[len(joined)-1]
}

// Check refuses the malformed key.
func (r *Registrar) Check(c session.Credential) error {
	if c.Key == "malformed" {
		return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
	}
	return nil
}

// Admit looks a credential up.
func (r *Registrar) Admit(ctx context.Context, shown session.Credential) (session.Grant, error) {
	if r.Wait != nil {
		select {
		case <-r.Wait:
		case <-ctx.Done():
			return session.Grant{}, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard.Shown = append(r.heard.Shown, shown)
	if r.Failing > 0 {
		r.Failing--
		return session.Grant{}, io.ErrUnexpectedEOF
	}
	provider := ids.ProviderID{1}
	switch shown.Key {
	case "bad":
		return session.Grant{}, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
	case "down":
		return session.Grant{}, io.ErrUnexpectedEOF
	case "other":
		provider = ids.ProviderID{2}
	}
	r.heard.Epoch++
	return session.Grant{
		ProviderID: provider, ProviderName: "Farm", Status: "active", Active: true, Epoch: r.heard.Epoch,
	}, nil
}

// Join implements session.Registrar.
func (r *Registrar) Join(s *session.Session) (warning string, why *session.CloseReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Why != nil {
		return "", r.Why
	}
	r.heard.Joined = append(r.heard.Joined, s)
	return r.Warning, nil
}

// Warmed implements session.Registrar.
func (r *Registrar) Warmed(_ *session.Session, w session.Warmed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard.Warmed = append(r.heard.Warmed, w)
}

// Leave counts sessions that are over.
func (r *Registrar) Leave(*session.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard.Left++
}

// Touch implements session.Registrar.
func (r *Registrar) Touch(*session.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Broken {
		panic("the registrar is broken")
	}
	r.heard.Touched++
}
