package operator

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
)

// Principal is who makes an operator's call. The zero value is somebody who has not signed
// in.
type Principal struct {
	// Name stands in the log and in audit entries.
	Name string
	Role Role
	// Session is the id of an operator's session; empty for tokens of the configuration.
	Session string
	// Network is a digest of the network that the call comes from.
	Network string
	// BreakGlass reports that a bootstrap token is let do everything.
	BreakGlass bool
	// MayApprove reports that an operator who signed in has been active for long enough to approve
	// payouts.
	MayApprove bool
}

// Check fails with role_not_allowed unless the caller may call a route of a pattern.
func (p Principal) Check(method, pattern string) error {
	if !p.Role.May(method, pattern) {
		if p.Role == First {
			return notAllowed("A bootstrap token only makes the first operator. Sign in, or use the token of a machine.")
		}
		return notAllowed("Your role may not do this.")
	}
	switch permission, _ := permissionOf(method, pattern); {
	case (permission == Staff || permission == MakeFirst) && p.machine():
		return notAllowed("A machine may not do this. Sign in (POST /api/v1/admin/session). While no admin is active, a " +
			"bootstrap token makes the first operator.")
	case permission == Approve && p.Session != "" && !p.MayApprove:
		return notAllowed("You may approve payouts and pay vendors from 24 hours after your first code made you " +
			"active. Until then another operator must.")
	}
	return nil
}

func notAllowed(text string) error {
	return fault.New(fault.Denied, apierror.RoleNotAllowed, "%s", text)
}

// machine reports whether the caller has the token of a machine.
func (p Principal) machine() bool { return p.Session == "" && p.Role != First && !p.BreakGlass }

// maxKnown is how many tokens that were good are remembered.
const maxKnown = 1024

// Gate lets operators in.
type Gate struct {
	cfg Config
	// guesses remembers the tokens that were good when they were last shown. Operators often
	// share one address, such as that of a tunnel, so a guesser there must not shut out
	// whoever is in already.
	guesses *auth.Guesses
}

// Config is what a gate works with.
type Config struct {
	// Machines and Bootstrap are the tokens of the configuration. BreakGlass lets those of
	// Bootstrap do everything.
	Machines, Bootstrap Tokens
	BreakGlass          bool
	// Sessions knows the sessions of operators; Timeout bounds a call.
	Sessions billingv1.OperatorServiceClient
	Timeout  time.Duration
	Clock    clock.Clock
	// Rate is how many wrong tokens or passwords a network may try in a minute, and Networks how
	// many networks are remembered.
	Rate, Networks int
}

// NewGate makes a gate.
func NewGate(cfg Config) *Gate {
	return &Gate{cfg, auth.NewGuesses(auth.GuessConfig{Rate: cfg.Rate, Networks: cfg.Networks, Tokens: maxKnown,
		Wrong: []fault.Reason{fault.InvalidAPIKey, fault.InvalidSession, fault.InvalidCredentials}, Clock: cfg.Clock,
		Refusal: "Too many wrong operator tokens or passwords came from your address."})}
}

// What the token of a session looks like. Nobody is asked for any other.
const (
	sessionPrefix = "ops_"
	sessionBytes  = len(sessionPrefix) + 43
)

// Admit returns who sent a request by the token in its headers. It fails with
// missing_api_key, invalid_api_key, invalid_session or session_expired, with
// rate_limit_exceeded for a network that guesses, and Unavailable. A token that was good when
// it was last shown is looked up at each call too, but it is never held up and is no guess.
func (g *Gate) Admit(ctx context.Context, h http.Header, from netip.Addr) (Principal, error) {
	secret, err := auth.Bearer(h)
	if err != nil {
		return Principal{}, err
	}
	digest := sha256.Sum256([]byte(secret))
	var who Principal
	err = g.guesses.LookUpToken(from, digest, func() (err error) {
		who, err = g.find(ctx, secret, digest)
		return err
	})
	return who, err
}

// SignIn runs fn, which answers a call that shows a secret in its body. Wrong credentials
// count as a wrong token. The body was read before, so that a slow one holds no place.
func (g *Gate) SignIn(from netip.Addr, fn func() error) error {
	return g.guesses.LookUp(from, false, fn)
}

// Issued notes a token that a session was just opened with, so that its first call is not held
// up either.
func (g *Gate) Issued(token string) { g.guesses.Know(sha256.Sum256([]byte(token))) }

// isSession reports whether a text looks like the token of a session.
func isSession(secret string) bool {
	return strings.HasPrefix(secret, sessionPrefix) && len(secret) == sessionBytes
}

// authenticate asks for the session of a token.
func (g *Gate) authenticate(
	ctx context.Context, digest [sha256.Size]byte,
) (*billingv1.AuthenticateOperatorResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	resp, err := g.cfg.Sessions.AuthenticateOperator(ctx,
		&billingv1.AuthenticateOperatorRequest{TokenSha256: digest[:]})
	if err != nil {
		return nil, apierror.OfPeer(err)
	}
	return resp, nil
}

func (g *Gate) find(ctx context.Context, secret string, digest [sha256.Size]byte) (Principal, error) {
	if t, ok := g.cfg.Machines.find(digest); ok {
		return Principal{Name: t.name, Role: t.role}, nil
	}
	if t, ok := g.cfg.Bootstrap.find(digest); ok {
		who := Principal{Name: t.name, Role: t.role, BreakGlass: g.cfg.BreakGlass}
		if who.BreakGlass {
			who.Role = Admin
		}
		return who, nil
	}
	if !isSession(secret) {
		return Principal{}, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "Incorrect operator token provided.")
	}
	resp, err := g.authenticate(ctx, digest)
	if err != nil {
		return Principal{}, err
	}
	o := resp.GetOperator()
	// A role that this gateway does not know may do nothing.
	role, _ := ParseRole(o.GetRole())
	return Principal{Name: o.GetName() + "@" + o.GetOperatorId(), Role: role, Session: resp.GetSessionId(),
		MayApprove: resp.GetMayApprove()}, nil
}
