package session

import (
	"context"
	"math/rand/v2"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Grant is what a provider key entitles to.
type Grant struct {
	ProviderID   ids.ProviderID
	ProviderName string
	KeyID        ids.KeyID
	// Status is what the agent tells its owner; Active whether consumers are
	// served.
	Status string
	Active bool
	Region string
	// Probation and Uptime30d are told to routers; a nil Uptime30d is not known.
	Probation bool
	Uptime30d *float64
	// Warning is what the owner should look at; empty for nothing.
	Warning string
	// Epoch is newer than that of any session before.
	Epoch int64
}

// Credential is what an agent shows: a key, or a wallet's signature.
type Credential struct {
	Key string
	// Owner is the wallet's address, Signature what it signed the challenge of
	// Nonce with.
	Owner     string
	Signature []byte
	Nonce     string
}

// Registrar decides who may register and keeps the sessions that stand.
type Registrar interface {
	// Check refuses, without a look-up, what no credential can look like. It fails
	// as Admit.
	Check(c Credential) error
	// Admit checks a credential. A fault's reason becomes the code of the refusal;
	// any other error asks the agent to come back later.
	Admit(ctx context.Context, c Credential) (Grant, error)
	// Join adds a session that has its identity, unless a newer one of the
	// node is there or the provider has too many; it shuts an older one, and
	// warning tells the new one so.
	Join(s *Session) (warning string, why *Closing)
	// Leave takes it off, if it is there. It is called for every session, joined
	// or not, and changes nothing when it is called again.
	Leave(s *Session)
	// Touch says that the session's view has changed. It is called under the
	// session's lock.
	Touch(s *Session)
	// Warmed tells what became of a warm-up. It is called under the session's
	// lock.
	Warmed(s *Session, w Warmed)
}

// Warmed is an agent's answer to a warm-up.
type Warmed struct {
	Model    string
	Success  bool
	LoadTime time.Duration
	// Error is for operators: printable, at most 1,024 characters.
	Error string
	// NotTried says that the engine was not asked, so that the failure says nothing
	// of the model.
	NotTried bool
}

// enrol has the key looked up elsewhere, so that the reader goes on. Needs the
// mutex.
func (s *Session) enrol(c Credential, refused map[string]string) {
	s.phase = phaseAdmitting
	s.deadline.Stop()
	s.admission.Go(func() { s.admit(c, refused) })
}

// admit finishes a registration. It runs in a goroutine of its own.
func (s *Session) admit(c Credential, refused map[string]string) {
	ctx, cancel := s.life()
	defer cancel()
	grant, err := s.lookUp(ctx, c)
	switch {
	case ctx.Err() != nil || s.house.queue.over():
		return // the socket is gone, or the server is about to close it
	case err != nil:
		s.Shut(s.refusal(err))
		return
	}
	s.mu.Lock()
	if s.phase != phaseAdmitting {
		s.mu.Unlock()
		return // it must not take the place of one that stands
	}
	s.identity.ProviderID, s.identity.ProviderName = grant.ProviderID, grant.ProviderName
	s.identity.KeyID, s.identity.Epoch = grant.KeyID, grant.Epoch
	if s.identity.Region == "" {
		s.identity.Region = grant.Region
	}
	s.active, s.probation, s.uptime30d = grant.Active, grant.Probation, grant.Uptime30d
	who := s.identity
	s.mu.Unlock()
	s.joined.Store(&who)
	warning, why := s.house.registrar.Join(s)
	if why != nil {
		why.Hold = max(why.Hold, s.cfg.RefuseHold)
		s.Shut(why)
		return
	}
	if warning != "" {
		grant.Warning = warning
	}
	if s.goLive(grant, refused) {
		s.house.registrar.Touch(s)
	}
}

// life is a context that ends with the socket.
func (s *Session) life() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.admission.Go(func() {
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// Pauses between look-ups that failed for a reason that passes.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second
)

// lookUp waits for its turn and checks a credential, as often as the dialect's
// patience lasts while keys cannot be looked up.
func (s *Session) lookUp(ctx context.Context, c Credential) (Grant, error) {
	// What cannot be a key takes nobody's turn and asks no database.
	if err := s.house.registrar.Check(c); err != nil {
		return Grant{}, err
	}
	if err := s.house.queue.turn(ctx, network(s.from)); err != nil {
		return Grant{}, err
	}
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		grant, err := s.house.queue.admit(ctx, s.cfg.AdmitTimeout, c)
		if err == nil || !passes(err) || ctx.Err() != nil {
			return grant, err
		}
		rest := pause/2 + rand.N(pause/2) //nolint:gosec // spreads load, guards nothing
		if time.Since(began)+rest > s.terms.patience {
			return Grant{}, err
		}
		if err := s.house.queue.pause(ctx, rest); err != nil {
			return Grant{}, err
		}
	}
}

// passes reports whether an error may be gone when the look-up is made again.
func passes(err error) bool {
	f, ok := fault.As(err)
	if !ok {
		return true
	}
	switch f.Kind {
	case fault.Internal, fault.Unavailable, fault.Timeout, fault.Canceled:
		return true
	default:
		return false
	}
}

// refusal is what a failed admission looks like to the agent.
func (s *Session) refusal(err error) *Closing {
	f, ok := fault.As(err)
	if !ok || passes(err) {
		return s.refused(CodeTryLater, "the hub cannot check keys now")
	}
	switch {
	case f.Reason == fault.KeyRevoked:
		return s.refused(CodeKeyRevoked, f.Message)
	case f.Reason == fault.AccountFrozen, f.Kind == fault.Denied:
		return s.refused(CodeSuspended, f.Message)
	case f.Kind == fault.Exhausted:
		return s.refused(CodeTooManySessions, f.Message)
	default:
		return s.refused(CodeInvalidKey, f.Message)
	}
}

// goLive acknowledges the registration, unless the session ended meanwhile.
func (s *Session) goLive(grant Grant, refused map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseAdmitting {
		return false
	}
	s.phase, s.admitted = phaseLive, true
	s.house.door.admitted(s.from)
	s.most.Store(s.terms.registered)
	s.heartbeat = time.AfterFunc(s.terms.silence, s.silent)
	grant.Warning = warned(grant.Warning, s.cuts())
	s.wire.registered(grant, refused)
	return true
}

// silent ends a session whose agent sends no heartbeats.
func (s *Session) silent() { s.Shut(closing(CodeProtocolError, "no heartbeat in time")) }

// begin starts the time to register.
func (s *Session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = time.AfterFunc(s.cfg.RegisterTimeout, s.late)
}

// late ends a socket that did not register.
func (s *Session) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseNew {
		s.shut(closing(CodeRegisterTimeout, "no registration in time"))
	}
}
