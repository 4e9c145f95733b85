package registry

import (
	"context"
	"slices"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

// refusalHold is how long a session that may not stay is held before it is closed, so
// that its agent does not spin.
const refusalHold = 2 * time.Second

// Apply applies a provider's standing to its sessions.
func (r *Registry) Apply(standing provider.Standing) {
	for _, s := range r.everyone() {
		if s.Identity().ProviderID == standing.ProviderID {
			r.apply(s, standing)
		}
	}
}

// KeyRevoked ends the sessions that were made with the key.
func (r *Registry) KeyRevoked(id ids.KeyID) {
	for _, s := range r.everyone() {
		if s.Identity().KeyID == id {
			r.apply(s, provider.Standing{Revoked: true})
		}
	}
}

// WalletUnbound ends the sessions of a provider that were made with its wallet.
func (r *Registry) WalletUnbound(id ids.ProviderID) {
	for _, s := range r.everyone() {
		if who := s.Identity(); who.KeyID.IsZero() && who.ProviderID == id && !who.External {
			r.apply(s, provider.Standing{Revoked: true})
		}
	}
}

// Public returns what routers are told of a provider with sessions here.
func (r *Registry) Public(id ids.ProviderID) Public {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.public.of[id].Public
}

// touchAll has the sessions of a provider reported.
func (r *Registry) touchAll(id ids.ProviderID) {
	for _, s := range r.all() {
		if s.Identity().ProviderID == id {
			r.Touch(s)
		}
	}
}

// forgetAbsent forgets the providers without a session.
func (r *Registry) forgetAbsent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.public.forget(func(id ids.ProviderID) bool { return r.count[id] > 0 })
}

// Identities returns by what a session's provider and node are known.
func (r *Registry) Identities(id ids.ProviderID, nodeID string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.identities.of[id].list
	all := make([][]byte, 0, len(list)+1)
	for _, one := range list {
		all = append(all, slices.Clone(one[:]))
	}
	if one, ok := r.receiptKeys[node{id, nodeID}]; ok {
		all = append(all, slices.Clone(one[:]))
	}
	return all[:min(len(all), maxIdentities)]
}

// identify reads by what providers here are known: those that were not read yet, and those
// that were read a minute ago. Sessions whose identities have changed are reported again.
func (r *Registry) identify(ctx context.Context) error {
	r.mu.Lock()
	due := r.identities.due(r.count)
	r.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	known, err := r.accounts.Identities(ctx, due)
	if err != nil {
		return err
	}
	for id, list := range known {
		if r.learnIdentities(id, list) {
			r.touchAll(id)
		}
	}
	return nil
}

func (r *Registry) learnIdentities(id ids.ProviderID, list []provider.Identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities.learn(id, list)
}

// holder is what sessions were made with: a key or, without one, the wallet of a
// provider.
type holder struct {
	key    ids.KeyID
	wallet ids.ProviderID
}

// Recheck reads the state of every key and wallet in use, because an operator may have
// spoken to another hub. It reads at most as many as there are sessions.
func (r *Registry) Recheck(ctx context.Context) error {
	r.forgetAbsent()
	by := map[holder][]*session.Session{}
	var keys []ids.KeyID
	var wallets []ids.ProviderID
	for _, s := range r.everyone() {
		who := s.Identity()
		at := holder{key: who.KeyID}
		if who.KeyID.IsZero() {
			at.wallet = who.ProviderID
		}
		if _, known := by[at]; !known && at.key.IsZero() {
			wallets = append(wallets, at.wallet)
		} else if !known {
			keys = append(keys, at.key)
		}
		by[at] = append(by[at], s)
	}
	if len(by) == 0 {
		return nil
	}
	standings, err := r.accounts.Standings(ctx, keys, wallets)
	if err != nil {
		return err
	}
	for _, standing := range standings {
		at := holder{key: standing.KeyID}
		if standing.KeyID.IsZero() {
			at.wallet = standing.ProviderID
		}
		for _, s := range by[at] {
			one := standing
			// Nobody showed a wallet for an external endpoint, so none has to be bound.
			one.Revoked = one.Revoked && !s.Identity().External
			r.apply(s, one)
		}
	}
	return r.identify(ctx)
}

// apply applies a provider's standing to a session.
func (r *Registry) apply(s *session.Session, standing provider.Standing) {
	switch {
	case standing.Status == provider.Suspended:
		r.expel(s, agentwire.CodeSuspended, "this provider is suspended")
	case standing.Status == provider.Rejected: // before the key, which may be good again after a reversal
		r.expel(s, agentwire.CodeSuspended, "this provider was rejected, or removed from the network")
	case standing.Revoked:
		r.expel(s, agentwire.CodeKeyRevoked, "this provider key was revoked, or the wallet unbound")
	default:
		if r.learn(standing) {
			r.touchAll(standing.ProviderID)
		}
		s.Tell(string(standing.Status), standing.Machines)
		if s.SetStanding(standing.Status == provider.Active, standing.Probation, standing.Uptime30d) {
			r.Touch(s)
		}
	}
}

// expel takes a session out of routing at once and closes it when the requests under way
// have ended. Those are served and paid as if nothing had happened.
func (r *Registry) expel(s *session.Session, code, message string) {
	r.Leave(s)
	s.Finish(&session.CloseReason{Code: code, Message: message, Hold: refusalHold, ReconnectAfter: refusalHold})
}
