package auth

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
)

// OptionalPrincipal returns the owner of the key that the headers carry, for additions to
// an answer that nothing else depends on. It returns nil without a good key, and when the
// owner is not remembered and the look-up would cost too much: callers share one look-up
// of a key, Config.MaxOptionalLookups keys are looked up at a time, and none for
// Config.OptionalLookupPause after billing-ledger did not answer.
//
// A wrong key is no guess here, because it opens nothing. The wrong keys of a network are
// counted apart from guesses and bounded alike. ctx should end with time and not with the
// client, because others may wait for the look-up.
func (a *Authenticator) OptionalPrincipal(ctx context.Context, h http.Header, from netip.Addr) *Principal {
	digest, err := consumerKey(h)
	if err != nil {
		return nil
	}
	now := a.clock.Now()
	if e, found := a.cache.get(digest, now, 0); found {
		return good(current(e.who, e.err, now))
	}
	one, mine := a.optional.begin(digest, now)
	switch {
	case one == nil:
		return nil
	case mine:
		who, err := a.lookUpOptional(ctx, digest, from)
		failed := err != nil && !refused(err)
		a.optional.end(digest, one, good(current(who, err, now)), failed, a.clock.Now())
	}
	select {
	case <-one.done:
		return one.who
	case <-ctx.Done():
		return nil
	}
}

// good returns the principal, or nil without the reason.
func good(who *Principal, err error) *Principal {
	if err != nil {
		return nil
	}
	return who
}

// refused reports whether an error is billing-ledger's refusal and not the lack of an
// answer.
func refused(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.Unauthenticated || f.Kind == fault.Exhausted)
}

func (a *Authenticator) lookUpOptional(
	ctx context.Context, digest apikey.Digest, from netip.Addr,
) (who *Principal, err error) {
	err = a.optional.guesses.LookUp(from, a.cache.knew(digest), func() (err error) {
		who, err = a.lookUp(ctx, digest)
		return err
	})
	return who, err
}

// optionalLookups are the look-ups under way that no request depends on.
type optionalLookups struct {
	limit   int
	pause   time.Duration
	guesses *Guesses

	mu    sync.Mutex
	under map[apikey.Digest]*optionalLookup
	after time.Time // nothing is looked up before it
}

// optionalLookup is one look-up.
type optionalLookup struct {
	done chan struct{} // closed when who is set
	who  *Principal
}

// begin returns the look-up of a key that is under way. Otherwise it returns a new one
// for the caller to make, or nil when none may be made now.
func (s *optionalLookups) begin(d apikey.Digest, now time.Time) (one *optionalLookup, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.under[d]; one != nil {
		return one, false
	}
	if now.Before(s.after) || len(s.under) >= s.limit {
		return nil, false
	}
	one = &optionalLookup{done: make(chan struct{})}
	s.under[d] = one
	return one, true
}

func (s *optionalLookups) end(d apikey.Digest, one *optionalLookup, who *Principal, failed bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.who = who
	delete(s.under, d)
	if failed {
		s.after = now.Add(s.pause)
	}
	close(one.done)
}
