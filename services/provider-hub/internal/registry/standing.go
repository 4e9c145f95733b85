package registry

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

// refusalHold is how long a session that may not stay is held before it is
// closed, so that its agent does not spin.
const refusalHold = 2 * time.Second

// StatusChanged applies a provider's new status to its sessions here.
func (r *Registry) StatusChanged(id ids.ProviderID, status provider.Status) {
	for _, s := range r.all() {
		if s.Identity().ProviderID == id {
			r.apply(s, provider.Standing{Status: status})
		}
	}
}

// KeyRevoked closes the sessions that were made with the key.
func (r *Registry) KeyRevoked(id ids.KeyID) {
	for _, s := range r.all() {
		if s.Identity().KeyID == id {
			r.apply(s, provider.Standing{Revoked: true})
		}
	}
}

// Recheck reads what became of every key in use, since an operator may have
// spoken to another hub. It asks for at most as many keys as there are
// sessions.
func (r *Registry) Recheck(ctx context.Context) error {
	byKey := map[ids.KeyID][]*session.Session{}
	for _, s := range r.all() {
		key := s.Identity().KeyID
		byKey[key] = append(byKey[key], s)
	}
	if len(byKey) == 0 {
		return nil
	}
	keys := make([]ids.KeyID, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	standings, err := r.accounts.Standings(ctx, keys)
	if err != nil {
		return err
	}
	for _, standing := range standings {
		for _, s := range byKey[standing.KeyID] {
			r.apply(s, standing)
		}
	}
	return nil
}

// apply lets a session feel its provider's standing.
func (r *Registry) apply(s *session.Session, standing provider.Standing) {
	switch {
	case standing.Revoked:
		r.expel(s, session.CodeKeyRevoked, "this provider key was revoked")
	case standing.Status == provider.Suspended:
		r.expel(s, session.CodeSuspended, "this provider is suspended")
	default:
		if s.SetActive(standing.Status == provider.Active) {
			r.Touch(s)
		}
	}
}

// expel takes a session out of routing at once and closes it.
func (r *Registry) expel(s *session.Session, code, message string) {
	r.Leave(s)
	s.Shut(&session.Closing{Code: code, Message: message, Hold: refusalHold, ReconnectAfter: refusalHold})
}
