package operator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	first  = "0123456789abcdef0123456789abcdef"
	second = "fedcba9876543210fedcba9876543210"
	third  = "the-third-token-is-long-enough-as-well"
)

func bearer(token string) http.Header {
	return http.Header{"Authorization": []string{"Bearer " + token}}
}

var here = netip.MustParseAddr("192.0.2.7")

// digest is the digest of a token as the settings have it.
func digest(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// sessions knows one session.
type sessions struct {
	billingv1.OperatorServiceClient
	token string
	role  string
	old   bool // the operator may approve
	err   error
	asked int
}

func (s *sessions) AuthenticateOperator(
	_ context.Context, req *billingv1.AuthenticateOperatorRequest, _ ...grpc.CallOption,
) (*billingv1.AuthenticateOperatorResponse, error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	if sum := sha256.Sum256([]byte(s.token)); string(req.GetTokenSha256()) != string(sum[:]) {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "no such session")
	}
	return &billingv1.AuthenticateOperatorResponse{SessionId: "s1", MayApprove: s.old,
		Operator: &billingv1.Operator{OperatorId: "o1", Name: "alice", Role: s.role}}, nil
}

// gateOf makes a gate with machines and bootstrap tokens.
func gateOf(t *testing.T, machines, bootstrap string, change ...func(*Config)) *Gate {
	t.Helper()
	cfg := Config{Sessions: &sessions{err: errors.New("nobody is to be asked")}, Timeout: time.Minute, Clock: clock.System,
		Rate: 30, Networks: 16}
	var errs [2]error
	cfg.Machines, errs[0] = ParseMachines(machines)
	cfg.Bootstrap, errs[1] = Parse(bootstrap)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(&cfg)
	}
	return NewGate(cfg)
}

func TestEveryFaultOfTheBootstrapTokensIsReportedAtOnceAndNoTokenIsShown(t *testing.T) {
	short := "hunter2-is-short"
	_, err := Parse("alice:" + first + ",bob:" + short + ",Carol:" + second + ",justatoken" + third + ",dave:" + first +
		",eve:" + strings.Repeat("e", 31) + "\u00e9,fay@ops:" + second)
	for _, want := range []string{"entry 2 (bob)", "16 bytes", "entry 3 has a name", "entry 4 is not name:token",
		"entry 5 (bootstrap.dave) has the token of bootstrap.alice", "entry 6 (eve)", "entry 7 has a name"} {
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("got %q, want it to say %q", got, want)
		}
	}
	for _, secret := range []string{first, short, second, third} {
		if got := fmt.Sprint(err); strings.Contains(got, secret) {
			t.Errorf("got a token in %q", got)
		}
	}
}

func TestEveryFaultOfTheMachinesIsReportedAtOnce(t *testing.T) {
	_, err := ParseMachines(strings.Join([]string{"a:admin:" + digest(first), "b:admin", "c@ops:admin:" + digest(second),
		"bootstrap.d:admin:" + digest(second), "e:first:" + digest(second), "f:admin:" + digest(second)[:62],
		"g:viewer:" + digest(first), "h:admin:" + strings.Repeat("x", 64)}, "\n"))
	for _, want := range []string{"entry 2 is not name:role:sha256", "entry 3 has a name that is not 1 to 48",
		"entry 4 (bootstrap.d) has a name that begins with bootstrap., which is for bootstrap tokens",
		"entry 5 (e) has a role", "entry 6 (f) has a digest", "entry 7 (g) has the token of a", "entry 8 (h) has a digest"} {
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("got %q, want it to say %q", got, want)
		}
	}
}

func TestTwoTokensOfOneMachineAreARotation(t *testing.T) {
	gate := gateOf(t, "bot:viewer:"+digest(first)+"\n bot:viewer:"+digest(second)+"\njob:admin:"+digest(third), "")
	for token, want := range map[string]Principal{first: {Name: "bot", Role: Viewer}, second: {Name: "bot", Role: Viewer},
		third: {Name: "job", Role: Admin}} {
		got, err := gate.Admit(t.Context(), bearer(token), here)
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for _, token := range []string{first[:31], first + "0", digest(first), "bot:" + first, strings.ToUpper(first)} {
		if got, err := gate.Admit(t.Context(), bearer(token), here); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%q: got %+v and %v, want %s", token, got, err, fault.InvalidAPIKey)
		}
	}
}

func TestABootstrapTokenDoesEverythingUnderBreakGlassAlone(t *testing.T) {
	for breakGlass, want := range map[bool]Principal{
		false: {Name: "bootstrap.root", Role: First}, true: {Name: "bootstrap.root", Role: Admin, BreakGlass: true},
	} {
		gate := gateOf(t, "", "root:"+first, func(c *Config) { c.BreakGlass = breakGlass })
		got, err := gate.Admit(t.Context(), bearer(first), here)
		if err != nil {
			t.Errorf("break-glass %v: got the error %v, want none", breakGlass, err)
		}
		if got != want {
			t.Errorf("break-glass %v: got %+v, want %+v", breakGlass, got, want)
		}
	}
}

func TestASessionIsCheckedAtEachCallAndAnUnknownRoleMayDoNothing(t *testing.T) {
	s := &sessions{token: sessionPrefix + strings.Repeat("s", 43), role: "treasurer"}
	gate := gateOf(t, "", "", func(c *Config) { c.Sessions = s })
	for n, role := range []Role{Treasurer, Admin, "emperor"} {
		s.role, s.old = string(role), n > 0
		got, err := gate.Admit(t.Context(), bearer(s.token), here)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Principal{Name: "alice@o1", Role: role, Session: "s1", MayApprove: n > 0}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got, want := got.Role.May(http.MethodGet, "/api/v1/admin/accounts"), role != "emperor"; got != want {
			t.Errorf("%s reads: got %v, want %v", role, got, want)
		}
		if s.asked != n+1 {
			t.Errorf("got %d questions after %d calls, want one for each", s.asked, n+1)
		}
	}
	s.err = fault.New(fault.Unauthenticated, fault.SessionExpired, "over")
	if _, err := gate.Admit(t.Context(), bearer(s.token), here); !fault.Is(err, fault.SessionExpired) {
		t.Errorf("ended: got %v, want %s", err, fault.SessionExpired)
	}
	s.asked = 0
	for _, token := range []string{first, sessionPrefix, s.token + "s", "opi_" + strings.Repeat("s", 43)} {
		if _, err := gate.Admit(t.Context(), bearer(token), here); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%q: got %v, want %s", token, err, fault.InvalidAPIKey)
		}
	}
	if s.asked != 0 {
		t.Errorf("what is no session's token: got %d questions, want 0", s.asked)
	}
}

// stopped is a clock that a test moves.
type stopped struct{ now time.Time }

func (s *stopped) Now() time.Time { return s.now }

func TestANetworkThatGuessesHasToWaitAndOthersDoNot(t *testing.T) {
	at := &stopped{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	guess := map[string]func(*Gate) error{
		"tokens": func(g *Gate) error {
			_, err := g.Admit(t.Context(), bearer(second), here)
			return err
		},
		"passwords": func(g *Gate) error {
			return g.SignIn(here, func() error { return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "wrong") })
		},
	}
	for name, try := range guess {
		gate := gateOf(t, "bot:admin:"+digest(first), "", func(c *Config) { c.Clock, c.Rate = at, 10 })
		refused := 0
		for range 1000 {
			if err := try(gate); fault.Is(err, fault.RateLimitExceeded) {
				refused++
			}
		}
		// A minute's guesses, and two thirds as many for a network that has to wait.
		if looked := 1000 - refused; looked > 20 {
			t.Errorf("%s: got %d compared at one moment, want at most 20", name, looked)
		}
		if _, err := gate.Admit(t.Context(), bearer(first), here); !fault.Is(err, fault.RateLimitExceeded) {
			t.Errorf("%s: got %v for the right token from the guessing network, want %s", name, err, fault.RateLimitExceeded)
		}
		if _, err := gate.Admit(t.Context(), bearer(first), netip.MustParseAddr("198.51.100.1")); err != nil {
			t.Errorf("%s: got %v from another network, want no error", name, err)
		}
		at.now = at.now.Add(time.Minute)
		if _, err := gate.Admit(t.Context(), bearer(first), here); err != nil {
			t.Errorf("%s: got %v a minute later, want no error", name, err)
		}
	}
}

// Operators behind one tunnel have one address. Whoever guesses there shuts out nobody who is in
// already, and a session that is over is like any other wrong token.
func TestAGuesserShutsOutNobodyOfItsNetworkWhoIsIn(t *testing.T) {
	at := &stopped{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := &sessions{token: sessionPrefix + strings.Repeat("s", 43), role: "viewer"}
	gate := gateOf(t, "bot:admin:"+digest(first), "", func(c *Config) { c.Clock, c.Rate, c.Sessions = at, 10, s })
	admit := func(token string) error {
		_, err := gate.Admit(t.Context(), bearer(token), here)
		return err
	}
	for round := range 2 {
		for _, token := range []string{first, s.token} {
			for range 100 {
				if err := admit(token); err != nil {
					t.Fatalf("round %d: got %v for a good token, want no error", round, err)
				}
			}
		}
		for range 1000 {
			_ = admit(second)
		}
	}
	s.err = errors.New("the ledger is away")
	if err := admit(s.token); fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("the ledger is away: got %v, want its error", err)
	}
	s.err = nil
	if err := admit(s.token); err != nil {
		t.Errorf("the ledger is back: got %v, want no error", err)
	}
	s.err = fault.New(fault.Unauthenticated, fault.SessionExpired, "over")
	if err := admit(s.token); !fault.Is(err, fault.SessionExpired) {
		t.Errorf("over: got %v, want %s", err, fault.SessionExpired)
	}
	if err := admit(s.token); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("over, and shown again: got %v, want %s", err, fault.RateLimitExceeded)
	}
}

// The first call with a new token is let in, although a guesser of the same network makes others
// wait.
func TestATokenThatWasJustIssuedIsNotHeldUp(t *testing.T) {
	at := &stopped{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := &sessions{token: sessionPrefix + strings.Repeat("s", 43), role: "viewer"}
	gate := gateOf(t, "", "", func(c *Config) { c.Clock, c.Rate, c.Sessions = at, 10, s })
	for range 1000 {
		_, _ = gate.Admit(t.Context(), bearer(second), here)
	}
	if _, err := gate.Admit(t.Context(), bearer(s.token), here); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a token of which nothing is known: got %v, want %s", err, fault.RateLimitExceeded)
	}
	gate.Issued(s.token)
	if _, err := gate.Admit(t.Context(), bearer(s.token), here); err != nil {
		t.Errorf("a token that was just issued: got %v, want no error", err)
	}
}

func TestAPageOfAnotherSiteSignsNobodyIn(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, site string
		want       fault.Reason // empty for none
	}{
		"a program":                 {"application/json", "", ""},
		"a page of this site":       {"Application/JSON; charset=utf-8", "same-origin", ""},
		"a typed address":           {"application/json", "none", ""},
		"a page of another site":    {"application/json", "cross-site", apierror.OriginNotAllowed},
		"a text of another site":    {"text/plain;charset=UTF-8", "cross-site", apierror.OriginNotAllowed},
		"a text":                    {"text/plain;charset=UTF-8", "", fault.InvalidRequest},
		"a form":                    {"application/x-www-form-urlencoded", "", fault.InvalidRequest},
		"a text that hides as JSON": {"text/plain; application/json", "", fault.InvalidRequest},
		"nothing":                   {"", "", fault.InvalidRequest},
	} {
		h := http.Header{}
		if tc.kind != "" {
			h.Set("Content-Type", tc.kind)
		}
		if tc.site != "" {
			h.Set("Sec-Fetch-Site", tc.site)
		}
		err := CheckPage(h)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: got %v, want no error", name, err)
			}
			continue
		}
		if !fault.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}

func TestTheTokensThatAreRememberedAreBounded(t *testing.T) {
	at := &stopped{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := &sessions{role: "viewer"}
	gate := gateOf(t, "", "", func(c *Config) { c.Clock, c.Rate, c.Sessions = at, 10, s })
	admit := func(n int) error {
		s.token = fmt.Sprintf("%s%043d", sessionPrefix, n)
		_, err := gate.Admit(t.Context(), bearer(s.token), here)
		return err
	}
	for n := range maxKnown + 1 {
		if err := admit(n); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		_, _ = gate.Admit(t.Context(), bearer(second), here)
	}
	if err := admit(0); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("one token more than are remembered: got %v for the first, want %s", err, fault.RateLimitExceeded)
	}
	for _, n := range []int{1, maxKnown} {
		if err := admit(n); err != nil {
			t.Errorf("token %d: got %v, want no error", n, err)
		}
	}
}

func TestOnlyItsOwnHostsReachTheOperatorsListener(t *testing.T) {
	hosts := NewHosts("ops.example, Console.Example")
	for host, want := range map[string]bool{
		"127.0.0.1:8082": true, "127.0.0.1": true, "[::1]:8082": true, "::1": true, "localhost:8082": true, "LOCALHOST": true,
		"ops.example": true, "console.example:443": true,
		"": false, "evil.example": false, "localhost.evil.example:8082": false, "ops.example.": false,
		"127.0.0.1.nip.io": false, "0x7f.1": false,
	} {
		if got := hosts.Check(host) == nil; got != want {
			t.Errorf("%q: got allowed %v, want %v", host, got, want)
		}
	}
	if err := hosts.Check("evil.example"); !fault.Is(err, apierror.UnknownRoute) {
		t.Errorf("got %v, want %s", err, apierror.UnknownRoute)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("alice:" + first + ",alice:" + second)
	f.Add("bot:admin:" + digest(first))
	f.Add(",,\n:\n a:b")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (Tokens, error){Parse, ParseMachines} {
			tokens, err := parse(text)
			if err != nil {
				continue
			}
			for _, token := range tokens.list {
				if name := strings.TrimPrefix(token.name, bootstrapName); !validName(name) {
					t.Errorf("got the name %q", token.name)
				}
				if may[token.role] == nil {
					t.Errorf("got the role %q", token.role)
				}
			}
		}
	})
}
