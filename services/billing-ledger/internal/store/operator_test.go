package store_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" // RFC 6238
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/operator"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

// operatorsPassword is the password of every operator of these tests, and office where they
// sign in from.
const (
	operatorsPassword = "correct horse battery"
	office            = "the office"
)

// staff makes and signs in operators. Its clock moves on by a step for each code.
type staff struct {
	*env
	*operator.Operators
	clock *clock.Manual
}

func (e *env) staff(t testing.TB) *staff {
	t.Helper()
	s := &staff{env: e, clock: clock.NewManual(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))}
	s.Operators = s.replica(t)
	return s
}

// replica has places of its own, as another process has them.
func (s *staff) replica(t testing.TB) *operator.Operators {
	t.Helper()
	peppers := apikey.Only(apikey.Pepper{1, 2, 3})
	sealer, err := operator.NewSealer(peppers)
	if err != nil {
		t.Fatal(err)
	}
	return &operator.Operators{
		Store: store.Operators{Store: s.store}, Passwords: user.NewPasswordPlaces(1), Sealer: sealer, Peppers: peppers,
		Clock: s.clock, Random: rand.Reader, Lookups: limit.NewSemaphore(2),
	}
}

// codeOf is the code of a secret in base32, as an authenticator makes it.
func codeOf(t testing.TB, secret string, at time.Time) string {
	t.Helper()
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, raw)
	_ = binary.Write(mac, binary.BigEndian, uint64(at.Unix()/30))
	sum := mac.Sum(nil)
	n := binary.BigEndian.Uint32(sum[sum[19]&15:]) & 0x7fffffff
	return fmt.Sprintf("%06d", n%1_000_000)
}

// person is an active operator with the secret of its codes.
type person struct {
	operator.Operator
	secret string
}

// hire makes an active operator.
func (s *staff) hire(t testing.TB, name string, role operator.Role) person {
	t.Helper()
	in, err := s.Invite(actor.WithOperator(t.Context(), "boss"), name, string(role))
	if err != nil {
		t.Fatal(err)
	}
	return s.accept(t, in)
}

func (s *staff) accept(t testing.TB, in operator.Invitation) person {
	t.Helper()
	accepted, err := s.Accept(t.Context(), in.Token.Reveal(), operatorsPassword, office)
	if err != nil {
		t.Fatal(err)
	}
	secret := accepted.Secret.Reveal()
	active, err := s.Confirm(t.Context(), accepted.Confirmation.Reveal(), codeOf(t, secret, s.clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return person{active, secret}
}

// code is the next code of a person.
func (s *staff) code(t testing.TB, p person) string {
	t.Helper()
	s.clock.Advance(30 * time.Second)
	return codeOf(t, p.secret, s.clock.Now())
}

// signIn signs a person in and returns the digest of the token.
func (s *staff) signIn(t testing.TB, p person, network string) operator.Digest {
	t.Helper()
	in, err := s.SignIn(t.Context(), string(p.Name), operatorsPassword, s.code(t, p), network)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256([]byte(in.Token.Reveal()))
}

func wantReason(t testing.TB, what string, err error, want fault.Reason) {
	t.Helper()
	if !fault.Is(err, want) {
		t.Errorf("%s: got %v, want %s", what, err, want)
	}
}

func TestAnOperatorIsInvitedOnceAndSignsInWithACode(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	in, err := s.Invite(actor.WithOperator(t.Context(), "boss"), "alice", "treasurer")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Invite(t.Context(), "alice", "viewer")
	wantReason(t, "the name again", err, fault.AlreadyExists)
	_, err = s.Accept(t.Context(), in.Token.Reveal(), "too short", office)
	wantReason(t, "a short password", err, fault.InvalidValue)
	_, err = s.Accept(t.Context(), in.Token.Reveal()+"x", operatorsPassword, office)
	wantReason(t, "another invitation", err, fault.InvalidCredentials)
	accepted, err := s.Accept(t.Context(), in.Token.Reveal(), operatorsPassword, office)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Accept(t.Context(), in.Token.Reveal(), operatorsPassword, office)
	wantReason(t, "the invitation again", err, fault.InvalidCredentials)
	secret, confirmation := accepted.Secret.Reveal(), accepted.Confirmation.Reveal()
	_, err = s.SignIn(t.Context(), "alice", operatorsPassword, codeOf(t, secret, s.clock.Now()), office)
	wantReason(t, "signing in unconfirmed", err, fault.InvalidCredentials)
	_, err = s.Confirm(t.Context(), confirmation, codeOf(t, secret, s.clock.Now().Add(time.Hour)))
	wantReason(t, "a wrong code", err, fault.InvalidCredentials)
	_, err = s.Confirm(t.Context(), in.Token.Reveal(), codeOf(t, secret, s.clock.Now()))
	wantReason(t, "the invitation as confirmation", err, fault.InvalidCredentials)
	alice, err := s.Confirm(t.Context(), confirmation, codeOf(t, secret, s.clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Confirm(t.Context(), confirmation, s.code(t, person{alice, secret}))
	wantReason(t, "the confirmation again", err, fault.InvalidCredentials)
	token := s.signIn(t, person{alice, secret}, office)
	found, err := s.Whose(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if found.ID != alice.ID {
		t.Errorf("whose session: got %v, want %v", found.ID, alice.ID)
	}
	if found.Role != operator.Treasurer {
		t.Errorf("the role: got %s, want treasurer", found.Role)
	}
	called := "operator:alice@" + alice.ID.String()
	want := []string{"operator:boss invite_operator", called + " activate_operator", called + " sign_in_operator"}
	got := column[string](t, s.env, `SELECT actor || ' ' || action FROM operator_action WHERE subject = $1 ORDER BY id`,
		[16]byte(alice.ID))
	if !slices.Equal(got, want) {
		t.Errorf("the audit entries: got %q, want %q", got, want)
	}
}

// The same words for everything that may be wrong, so that nobody learns a name.
func TestWhoeverCannotSignInLearnsNothing(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	good := s.code(t, alice)
	for name, try := range map[string][3]string{
		"unknown name": {"bob", operatorsPassword, good}, "wrong password": {"alice", "incorrect horse battery", good},
		"wrong code": {"alice", operatorsPassword, codeOf(t, alice.secret, s.clock.Now().Add(time.Hour))},
		"no code":    {"alice", operatorsPassword, ""}, "no name": {"", operatorsPassword, good},
		"short": {"alice", "x", good},
	} {
		_, err := s.SignIn(t.Context(), try[0], try[1], try[2], office)
		if got := fmt.Sprint(err); !strings.HasSuffix(got, "the name, the password or the code is wrong") {
			t.Errorf("%s: got %q, want the words of all", name, got)
		}
	}
}

// Whoever looks on while an operator shows its first code knows no code that is good.
func TestTheCodeThatMadeAnOperatorActiveSignsNobodyIn(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	_, err := s.SignIn(t.Context(), "alice", operatorsPassword, codeOf(t, alice.secret, s.clock.Now()), office)
	wantReason(t, "the first code", err, fault.InvalidCredentials)
	s.signIn(t, alice, office)
}

func TestACodeCountsOnceOverAllReplicas(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	code := s.code(t, alice)
	var opened atomic.Int32
	var racers sync.WaitGroup
	for range 4 {
		replica := s.replica(t)
		racers.Go(func() {
			_, err := replica.SignIn(t.Context(), "alice", operatorsPassword, code, office)
			if err == nil {
				opened.Add(1)
			} else if !fault.Is(err, fault.InvalidCredentials) {
				t.Errorf("got %v, want %s", err, fault.InvalidCredentials)
			}
		})
	}
	racers.Wait()
	if opened.Load() != 1 {
		t.Errorf("sessions of one code: got %d, want 1", opened.Load())
	}
	before := codeOf(t, alice.secret, s.clock.Now().Add(-30*time.Second))
	_, err := s.SignIn(t.Context(), "alice", operatorsPassword, before, office)
	wantReason(t, "the code of an earlier step", err, fault.InvalidCredentials)
	s.signIn(t, alice, office)
}

func TestAChangeOfAnOperatorCountsFromItsNextCallOn(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	boss := s.hire(t, "boss", operator.Admin)
	by := operator.Called(boss.Name, boss.ID)
	ctx := actor.WithOperator(t.Context(), by)
	changes := map[string]struct {
		do   func(id operator.ID) error
		over bool
	}{
		"end":   {func(id operator.ID) error { _, err := s.End(ctx, id); return err }, true},
		"reset": {func(id operator.ID) error { _, err := s.Reset(ctx, id, by); return err }, true},
		"role":  {func(id operator.ID) error { _, err := s.SetRole(ctx, id, "viewer"); return err }, false},
	}
	for name, c := range changes {
		p := s.hire(t, "p."+name, operator.Admin)
		token := s.signIn(t, p, office)
		if err := c.do(p.ID); err != nil {
			t.Fatal(err)
		}
		found, err := s.Whose(t.Context(), token)
		if c.over {
			wantReason(t, name, err, fault.SessionExpired)
			_, err = s.SignIn(t.Context(), string(p.Name), operatorsPassword, s.code(t, p), office)
			wantReason(t, name+", signing in again", err, fault.InvalidCredentials)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if found.Role != operator.Viewer {
			t.Errorf("%s: got the role %s, want viewer", name, found.Role)
		}
	}
	_, err := s.Reset(ctx, boss.ID, by)
	wantReason(t, "resetting oneself", err, fault.TransitionNotAllowed)
	_, err = s.End(ctx, operator.ID{9})
	wantReason(t, "nobody", err, fault.OperatorNotFound)
	if n := scan[int](t, s.env, `SELECT count(*) FROM operator_action WHERE actor = $1`, "operator:"+by); n != 3+1 {
		t.Errorf("entries of %s: got %d, want one for each change and its own activation", by, n)
	}
}

func TestAResetOperatorBeginsAnewAndAnEndedOneNever(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	s.hire(t, "boss", operator.Admin)
	alice := s.hire(t, "alice", operator.Support)
	in, err := s.Reset(t.Context(), alice.ID, "boss@x")
	if err != nil {
		t.Fatal(err)
	}
	again := s.accept(t, in)
	if again.secret == alice.secret {
		t.Error("after a reset: got the same secret, want another")
	}
	s.signIn(t, again, office)
	for range 2 {
		if _, err := s.End(t.Context(), alice.ID); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Reset(t.Context(), alice.ID, "boss@x")
	wantReason(t, "resetting who has ended", err, fault.TransitionNotAllowed)
	_, err = s.SetRole(t.Context(), alice.ID, "admin")
	wantReason(t, "promoting who has ended", err, fault.TransitionNotAllowed)
	_, err = s.Invite(t.Context(), "alice", "admin")
	wantReason(t, "the name of who has ended", err, fault.AlreadyExists)
}

func TestOneAdminStaysActive(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	ada := s.hire(t, "ada", operator.Admin)
	s.hire(t, "vic", operator.Viewer)
	for name, try := range map[string]func() error{
		"end":    func() error { _, err := s.End(t.Context(), ada.ID); return err },
		"reset":  func() error { _, err := s.Reset(t.Context(), ada.ID, "a machine"); return err },
		"demote": func() error { _, err := s.SetRole(t.Context(), ada.ID, "viewer"); return err },
	} {
		wantReason(t, name, try(), fault.TransitionNotAllowed)
	}
	// Of admins who end each other at the same time, one stays.
	admins := []person{ada}
	for n := range 3 {
		admins = append(admins, s.hire(t, fmt.Sprintf("admin%d", n), operator.Admin))
	}
	var racers sync.WaitGroup
	for _, p := range admins {
		replica := s.replica(t)
		racers.Go(func() {
			if _, err := replica.End(t.Context(), p.ID); err != nil {
				wantReason(t, "ending "+string(p.Name), err, fault.TransitionNotAllowed)
			}
		})
	}
	racers.Wait()
	if n := scan[int](t, s.env, `SELECT count(*) FROM operator WHERE role = 'admin' AND state = 'active'`); n != 1 {
		t.Errorf("admins who stay: got %d, want 1", n)
	}
}

func TestTheFirstOperatorIsMadeWhileThereIsNoAdmin(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	ctx := actor.WithOperator(t.Context(), "bootstrap.root")
	mallory, err := s.InviteFirst(ctx, "mallory")
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.InviteFirst(ctx, "alice")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Accept(t.Context(), mallory.Token.Reveal(), operatorsPassword, office)
	wantReason(t, "an invitation that was taken back", err, fault.InvalidCredentials)
	second, err := s.InviteFirst(ctx, "alice")
	if err != nil {
		t.Fatal(err)
	}
	if second.Operator.ID != first.Operator.ID {
		t.Errorf("invited again: got %v, want %v", second.Operator.ID, first.Operator.ID)
	}
	_, err = s.Accept(t.Context(), first.Token.Reveal(), operatorsPassword, office)
	wantReason(t, "the invitation before", err, fault.InvalidCredentials)
	alice := s.accept(t, second)
	if alice.Role != operator.Admin {
		t.Errorf("the first operator: got the role %s, want admin", alice.Role)
	}
	_, err = s.InviteFirst(ctx, "eve")
	wantReason(t, "a second first operator", err, fault.TransitionNotAllowed)
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, o := range list {
		shown = append(shown, fmt.Sprint(o.Name, " ", o.State))
	}
	if want := []string{"alice active", "mallory ended"}; !slices.Equal(shown, want) {
		t.Errorf("listed: got %q, want %q", shown, want)
	}
}

func TestAnInvitationAndAConfirmationEnd(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	in, err := s.Invite(t.Context(), "alice", "admin")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(in.ExpiresAt); left > operator.InvitationLife || left < operator.InvitationLife-time.Hour {
		t.Errorf("an invitation is good for %v, want %v", left, operator.InvitationLife)
	}
	accepted, err := s.Accept(t.Context(), in.Token.Reveal(), operatorsPassword, office)
	if err != nil {
		t.Fatal(err)
	}
	late, err := s.Invite(t.Context(), "late", "admin")
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, `UPDATE operator SET ticket_at = now() - interval '23 hours', ticket_until = now() - interval '1 second'`)
	_, err = s.Accept(t.Context(), late.Token.Reveal(), operatorsPassword, office)
	wantReason(t, "an invitation that is over", err, fault.InvalidCredentials)
	_, err = s.Confirm(t.Context(), accepted.Confirmation.Reveal(), codeOf(t, accepted.Secret.Reveal(), s.clock.Now()))
	wantReason(t, "a confirmation that is over", err, fault.InvalidCredentials)
}

func TestASessionEndsByItselfAndBySigningOut(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	for name, sql := range map[string]string{
		"unused": `UPDATE operator_session SET used_at = now() - interval '31 minutes',
			created_at = now() - interval '1 hour', expires_at = now() + interval '10 hours'`,
		"too old": `UPDATE operator_session SET created_at = now() - interval '12 hours', expires_at = now()`,
	} {
		token := s.signIn(t, alice, office)
		if _, err := s.Whose(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		s.exec(t, sql+` WHERE ended_at IS NULL`)
		_, err := s.Whose(t.Context(), token)
		wantReason(t, name, err, fault.SessionExpired)
	}
	token := s.signIn(t, alice, office)
	s.exec(t, `UPDATE operator_session SET used_at = now() - interval '29 minutes', created_at = now() - interval '1 hour',
		expires_at = now() + interval '10 hours' WHERE token_sha256 = $1`, token[:])
	in, err := s.Whose(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if fresh := scan[bool](t, s.env, `SELECT used_at > now() - interval '1 minute' FROM operator_session
		WHERE token_sha256 = $1`, token[:]); !fresh {
		t.Error("a use is noted: got no, want yes")
	}
	if until := scan[time.Time](t, s.env, `SELECT expires_at FROM operator_session WHERE token_sha256 = $1`,
		token[:]); !in.ExpiresAt.Equal(until) {
		t.Errorf("the session ends: got %v, want %v", in.ExpiresAt, until)
	}
	for range 2 {
		if err := s.SignOut(t.Context(), in.Session.String()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Whose(t.Context(), token)
	wantReason(t, "signed out", err, fault.SessionExpired)
	_, err = s.Whose(t.Context(), operator.Digest{1})
	wantReason(t, "a token of nobody", err, fault.InvalidSession)
	wantReason(t, "a machine signs out", s.SignOut(t.Context(), ""), fault.TransitionNotAllowed)
}

func TestAnOperatorHasABoundedNumberOfSessions(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	s.exec(t, `INSERT INTO operator_session (id, operator_id, token_sha256, network, created_at, used_at, expires_at)
		SELECT gen_random_uuid(), $1, sha256(n::text::bytea), sha256('n'), now() - n * interval '1 minute',
			now() - n * interval '1 minute', now() + interval '1 hour' FROM generate_series(1, 32) AS n`, [16]byte(alice.ID))
	s.signIn(t, alice, office)
	if n := scan[int](t, s.env, `SELECT count(*) FROM operator_session`); n != operator.MaxSessions {
		t.Errorf("got %d, want %d", n, operator.MaxSessions)
	}
	s.exec(t, `UPDATE operator_session SET created_at = now() - interval '31 days',
		expires_at = now() - interval '30 days 13 hours'`)
	pruned, err := s.store.PruneOperatorSessions(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if pruned != 10 {
		t.Errorf("pruned: got %d, want 10 at a time", pruned)
	}
}

// Strangers from many networks take all that strangers have, and nothing of the network that
// the operator is known from.
func TestStrangersWhoGuessKeepNoOperatorOut(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	s.signIn(t, alice, office)
	s.wantCompared(t, "alice", operator.StrangersPace, func(n int) string { return fmt.Sprint("botnet ", n) })
	s.signIn(t, alice, office)
	s.wantCompared(t, "alice", operator.NetworkPace, func(int) string { return office })
	// A name that nobody has is counted alike.
	s.wantCompared(t, "nobody", operator.NetworkPace, func(int) string { return office })
}

// wantCompared guesses three times as often as a pace has room at once, from networks, and wants as
// many guesses compared as there was room for. Time gives room back, so that a slow machine
// compares more.
func (s *staff) wantCompared(t *testing.T, name string, pace user.Pace, network func(n int) string) {
	t.Helper()
	began, compared := time.Now(), 0
	for n := range 3 * pace.AtOnce {
		_, err := s.SignIn(t.Context(), name, "incorrect horse battery", "000000", network(n))
		if fault.Is(err, fault.InvalidCredentials) {
			compared++
			continue
		}
		f := refusal(t, err)
		if f.Reason != fault.RateLimitExceeded {
			t.Errorf("%s: got %s, want %s", name, f.Reason, fault.RateLimitExceeded)
		}
		if f.RetryAfter <= 0 || f.RetryAfter > pace.Interval {
			t.Errorf("%s: wait: got %v, want at most %v", name, f.RetryAfter, pace.Interval)
		}
	}
	most := pace.AtOnce + int(time.Since(began)/pace.Interval)
	if compared < pace.AtOnce || compared > most {
		t.Errorf("%s: guesses compared: got %d, want %d to %d", name, compared, pace.AtOnce, most)
	}
}

// Whoever invites or resets an operator could accept in its place, so an operator approves
// nothing for a day after it became active.
func TestAnOperatorIsNewForADayAfterItBecameActive(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	s.hire(t, "boss", operator.Admin)
	alice := s.hire(t, "alice", operator.Support)
	token := s.signIn(t, alice, office)
	wantApproves := func(what string, want bool) {
		t.Helper()
		found, err := s.Whose(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if got := found.MayApprove(); got != want {
			t.Errorf("%s: active for %v: may approve: got %v, want %v", what, found.ActiveFor, got, want)
		}
	}
	wantApproves("at once", false)
	s.exec(t, `UPDATE operator SET active_since = now() - interval '23 hours 59 minutes' WHERE name = 'alice'`)
	wantApproves("a minute too early", false)
	s.exec(t, `UPDATE operator SET active_since = now() - interval '24 hours' WHERE name = 'alice'`)
	wantApproves("a day later", true)
	if _, err := s.SetRole(t.Context(), alice.ID, "treasurer"); err != nil {
		t.Fatal(err)
	}
	wantApproves("with another role", true)
	in, err := s.Reset(t.Context(), alice.ID, "boss@x")
	if err != nil {
		t.Fatal(err)
	}
	token = s.signIn(t, s.accept(t, in), office)
	wantApproves("after a reset", false)
}

// An attempt that found no place, or whose caller left, counts against nobody.
func TestAnAttemptThatComparesNothingIsTakenBack(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	alice := s.hire(t, "alice", operator.Admin)
	broken := s.replica(t)
	broken.Sealer, _ = operator.NewSealer(apikey.Only(apikey.Pepper{9}))
	for range 3 * operator.NetworkPace.AtOnce {
		_, err := broken.SignIn(context.WithoutCancel(t.Context()), "alice", operatorsPassword, s.code(t, alice), office)
		if _, refused := fault.As(err); refused {
			t.Fatalf("got %v, want the error of a secret that does not open", err)
		}
	}
	s.signIn(t, alice, office)
}
