package edgegateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/operator"
)

// staff knows one operator's session, and that of boss, and notes who signs in.
type staff struct {
	billingv1.UnimplementedOperatorServiceServer
	billingv1.UnimplementedOperatorAdminServiceServer
	mu    sync.Mutex
	token string
	role  string
	old   bool  // the operator may approve
	err   error // of everything
	tries int
	asked int // how often for the session of a token
	call  serve.OperatorCall
}

func (s *staff) AuthenticateOperator(
	_ context.Context, req *billingv1.AuthenticateOperatorRequest,
) (*billingv1.AuthenticateOperatorResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	if sum := sha256.Sum256([]byte(bossToken)); string(req.GetTokenSha256()) == string(sum[:]) {
		return &billingv1.AuthenticateOperatorResponse{SessionId: "session-2", MayApprove: true, ExpiresAt: sessionEnd,
			Operator: &billingv1.Operator{OperatorId: "0190", Name: "boss", Role: string(operator.Admin)}}, nil
	}
	if sum := sha256.Sum256([]byte(s.token)); string(req.GetTokenSha256()) != string(sum[:]) {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "no such session")
	}
	return &billingv1.AuthenticateOperatorResponse{SessionId: "session-1", MayApprove: s.old, ExpiresAt: sessionEnd,
		Operator: s.bob()}, nil
}

func (s *staff) OpenOperatorSession(
	ctx context.Context, req *billingv1.OpenOperatorSessionRequest,
) (*billingv1.OpenOperatorSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	s.call = serve.OperatorCaller(ctx)
	if req.GetName() == "" {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "no name")
	}
	if req.GetPassword() != "correct" {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidCredentials, "wrong")
	}
	return &billingv1.OpenOperatorSessionResponse{Operator: s.bob(), Token: s.token, ExpiresAt: sessionEnd}, nil
}

// bob is the operator of the token.
func (s *staff) bob() *billingv1.Operator {
	return &billingv1.Operator{OperatorId: "0189", Name: "bob", Role: s.role}
}

// lookups returns how often the service was asked for the session of a token.
func (s *staff) lookups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *staff) EndOperatorSession(
	ctx context.Context, _ *billingv1.EndOperatorSessionRequest,
) (*billingv1.EndOperatorSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = serve.OperatorCaller(ctx)
	return &billingv1.EndOperatorSessionResponse{}, nil
}

// season has the operator be one who may approve.
func (s *staff) season() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = true
}

func (s *staff) set(token, role string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.role, s.err = token, role, err
}

// last returns what the last call to the service said of its caller, and the tries to sign in.
func (s *staff) last() (serve.OperatorCall, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call, s.tries
}

// The tokens of the sessions of bob, and of boss, who is an admin and is called bossName.
var (
	bobsToken = "ops_" + strings.Repeat("b", 43)
	bossToken = "ops_" + strings.Repeat("a", 43)
)

const bossName = "boss@0190"

// sessionEnd is when every session ends.
var sessionEnd = timestamppb.New(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))

// Each route with a machine of each role, and with a bootstrap token: what the table of roles
// refuses, or refuses to machines, reaches no service.
func TestEachRoleReachesItsRoutesAlone(t *testing.T) {
	roles := []operator.Role{operator.Viewer, operator.Support, operator.Treasurer, operator.Admin, operator.First}
	token := func(role operator.Role) string { return strings.Repeat(string(role), 8) }
	var machines []string
	for _, role := range roles {
		if role != operator.First {
			machines = append(machines, machine(string(role), role, token(role)))
		}
	}
	f := start(t, func(c *Config) {
		c.MachineTokens = config.NewSecret(strings.Join(machines, ","))
		c.AdminTokens = config.NewSecret("root:" + token(operator.First))
	})
	refused := map[operator.Role]int{}
	for _, o := range operations(t) {
		if !o.operators {
			continue
		}
		for _, role := range roles {
			_, known := f.named.since(0)
			resp := f.ask(o, "Authorization", "Bearer "+token(role), "Sec-Fetch-Site", "same-origin")
			calls, _ := f.named.since(known)
			if (operator.Principal{Role: role}).Check(o.method, o.template) == nil {
				if read(t, resp); resp.StatusCode == http.StatusForbidden {
					t.Errorf("%s by %s: got 403, want it served", o, role)
				}
				continue
			}
			refused[role]++
			wantError(t, resp, http.StatusForbidden, "role_not_allowed")
			if len(calls) != 0 {
				t.Errorf("%s by %s: got the calls %v, want none", o, role, calls)
			}
		}
	}
	if got := refused[operator.Admin]; got != 5 {
		t.Errorf("an admin's machine is refused: got %d routes, want the 5 that make and change operators", got)
	}
	for _, role := range roles[:3] {
		if refused[role] < 20 {
			t.Errorf("%s is refused: got %d routes, want 20 or more", role, refused[role])
		}
	}
}

func TestBreakGlassLetsABootstrapTokenDoEverythingAndSaysSo(t *testing.T) {
	const token = "a-bootstrap-token-of-more-than-32-bytes"
	call := func(f *fleet) *http.Response {
		return f.do(http.MethodGet, "/api/v1/admin/providers", "", "Authorization", "Bearer "+token)
	}
	f := start(t, func(c *Config) { c.AdminTokens = config.NewSecret("root:" + token) })
	wantError(t, call(f), http.StatusForbidden, "role_not_allowed")
	if text := f.log.String(); strings.Contains(text, "break-glass") {
		t.Errorf("without break-glass: got %q, want the log without it", text)
	}
	f = start(t, func(c *Config) { c.AdminTokens, c.Bootstrap = config.NewSecret("root:"+token), true })
	if read(t, call(f)); !strings.Contains(f.log.String(), "level=ERROR msg=\"break-glass: a bootstrap token") {
		t.Errorf("got %q, want an error for the call", f.log.String())
	}
	if text := f.log.String(); !strings.Contains(text, "operator=bootstrap.root") {
		t.Errorf("got %q, want it to name the token", text)
	}
	if text := f.log.String(); strings.Contains(text, token) {
		t.Errorf("got the token in the log: got %q, want it without", text)
	}
}

func TestASessionOpensItsRoutesUntilItIsOver(t *testing.T) {
	f := start(t)
	bob := []string{"Authorization", "Bearer " + bobsToken}
	get := func() *http.Response { return f.do(http.MethodGet, "/api/v1/admin/providers", "", bob...) }
	wantError(t, get(), http.StatusUnauthorized, "invalid_session")
	f.staff.set(bobsToken, "support", nil)
	_, known := f.named.since(0)
	read(t, get())
	calls, _ := f.named.since(known)
	if !slices.ContainsFunc(calls, func(c string) bool { return strings.HasSuffix(c, " by bob@0189") }) {
		t.Errorf("got the calls %v, want one by bob@0189", calls)
	}
	wantError(t, f.do(http.MethodPost, "/api/v1/admin/providers", "{}", bob...), http.StatusForbidden, "role_not_allowed")
	f.staff.set(bobsToken, "admin", nil)
	if resp := f.do(http.MethodPost, "/api/v1/admin/providers", "{}", bob...); resp.StatusCode == http.StatusForbidden {
		t.Errorf("with another role: got %d %s, want it served", resp.StatusCode, read(t, resp))
	}
	read(t, f.do(http.MethodDelete, "/api/v1/admin/session", "", bob...))
	if got, _ := f.staff.last(); got.Session != "session-1" {
		t.Errorf("signing out: got the session %q, want session-1", got.Session)
	}
	f.staff.set(bobsToken, "admin", fault.New(fault.Unauthenticated, fault.SessionExpired, "over"))
	wantError(t, get(), http.StatusUnauthorized, "session_expired")
	f.staff.set(bobsToken, "admin", fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	wantError(t, get(), http.StatusServiceUnavailable, "service_unavailable")
}

func TestANewOperatorApprovesNoPayout(t *testing.T) {
	f := start(t)
	f.staff.set(bobsToken, "treasurer", nil)
	approve := func() *http.Response {
		return f.do(http.MethodPost, "/api/v1/admin/payouts/p1/approve", `{"reason":"known"}`, "Authorization",
			"Bearer "+bobsToken)
	}
	_, known := f.named.since(0)
	e := wantError(t, approve(), http.StatusForbidden, "role_not_allowed")
	if !strings.Contains(e.Error.Message, "24 hours after your first code") {
		t.Errorf("the message: got %q, want it to say when", e.Error.Message)
	}
	if calls, _ := f.named.since(known); len(calls) != 0 {
		t.Errorf("got the calls %v, want none", calls)
	}
	f.staff.season()
	read(t, approve())
	want := []string{"/svc.settlement.v1.PayoutAdminService/ApprovePayout by bob@0189"}
	if calls, _ := f.named.since(known); !slices.Equal(calls, want) {
		t.Errorf("a day later: got the calls %v, want %v", calls, want)
	}
}

// startSigning starts a gateway that allows 10 guesses in a minute, and whose clock stands still.
func startSigning(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, func(c *Config) { c.WrongTokens = 10 })
	deps := f.svc.deps
	deps.Clock = clock.NewManual(time.Now())
	svc, err := New(t.Context(), f.cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	f.svc = svc
	f.staff.set(bobsToken, "support", nil)
	return f.start()
}

// sign signs bob in, with headers that change or add to those of a program.
func (f *fleet) sign(password string, headers ...string) *http.Response {
	f.t.Helper()
	return f.do(http.MethodPost, "/api/v1/admin/session", `{"name":"bob","password":"`+password+`","code":"123456"}`,
		headers...)
}

// A page in an operator's browser can post to the operators' listener from the operator's own
// network. It must not use up the tries of that network, or of the operator.
func TestPagesOfOtherSitesKeepNobodyFromSigningIn(t *testing.T) {
	f := startSigning(t)
	for range 100 {
		wantError(t, f.sign("wrong", "Content-Type", "text/plain;charset=UTF-8"), http.StatusBadRequest, "invalid_request")
		wantError(t, f.sign("wrong"), http.StatusBadRequest, "invalid_request")
		wantError(t, f.sign("wrong", "Content-Type", "application/json", "Sec-Fetch-Site", "cross-site"),
			http.StatusForbidden, "origin_not_allowed")
	}
	if _, tries := f.staff.last(); tries != 0 {
		t.Errorf("tries that reached the service: got %d, want 0", tries)
	}
	if resp := f.sign("correct", "Content-Type", "application/json"); resp.StatusCode != http.StatusOK {
		t.Errorf("the operator: got %d %s, want 200", resp.StatusCode, read(t, resp))
	}
}

// A network that has to wait has two places. Bodies that do not arrive take none of them.
func TestASlowBodyHoldsNoPlaceOfItsNetwork(t *testing.T) {
	f := startSigning(t)
	for range 12 {
		read(t, f.sign("wrong", "Content-Type", "application/json"))
	}
	for range 4 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.operators, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		// The answer 100 Continue says that the body is being read.
		if _, err := io.WriteString(conn, "POST /api/v1/admin/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n"+
			"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("before the body: got %q, want 100 Continue", line)
		}
	}
	if resp := f.sign("correct", "Content-Type", "application/json"); resp.StatusCode != http.StatusOK {
		t.Errorf("beside slow bodies: got %d %s, want 200", resp.StatusCode, read(t, resp))
	}
}

func TestSigningInNeedsNoTokenAndIsBoundedForEachNetwork(t *testing.T) {
	f := startSigning(t)
	sign := func(password string) *http.Response {
		return f.sign(password, "Content-Type", "application/json", "X-Svc-Operator", "mallory", "X-Svc-Network", "elsewhere",
			"Grpc-Metadata-X-Svc-Network", "elsewhere")
	}
	resp := sign("correct")
	if body := read(t, resp); !strings.Contains(body, `"token":"`+bobsToken+`"`) {
		t.Errorf("got %d %s, want the token", resp.StatusCode, body)
	}
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: got %q, want no-store", got)
	}
	call, _ := f.staff.last()
	if call.Name != "" {
		t.Errorf("whoever signs in is called: got %q, want nothing", call.Name)
	}
	if len(call.Network) != 64 {
		t.Errorf("the network: got %q, want a digest", call.Network)
	}
	for range 200 {
		read(t, sign("wrong"))
	}
	wantError(t, sign("correct"), http.StatusTooManyRequests, "rate_limit_exceeded")
	// The first, a minute's guesses, and two thirds as many for a network that has to wait.
	if _, tries := f.staff.last(); tries != 1+10+6 {
		t.Errorf("tries of one network at one moment: got %d, want 17", tries)
	}
	// The token that was issued first was never shown, and is let in all the same.
	resp = f.do(http.MethodGet, "/api/v1/admin/providers", "", "Authorization", "Bearer "+bobsToken)
	if body := read(t, resp); resp.StatusCode == http.StatusTooManyRequests {
		t.Errorf("with the token: got %d %s, want it let in", resp.StatusCode, body)
	}
	if text := f.log.String(); strings.Contains(text, "correct") {
		t.Errorf("got a password in the log: got %q, want it without", text)
	}
}
