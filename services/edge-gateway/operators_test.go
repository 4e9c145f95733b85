package edgegateway

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/operator"
)

// staff knows one operator's session and notes who signs in.
type staff struct {
	billingv1.UnimplementedOperatorServiceServer
	billingv1.UnimplementedOperatorAdminServiceServer
	mu    sync.Mutex
	token string
	role  string
	err   error // of everything
	tries int
	call  serve.OperatorCall
}

func (s *staff) AuthenticateOperator(
	_ context.Context, req *billingv1.AuthenticateOperatorRequest,
) (*billingv1.AuthenticateOperatorResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if sum := sha256.Sum256([]byte(s.token)); string(req.GetTokenSha256()) != string(sum[:]) {
		return nil, fault.New(fault.Unauthenticated, fault.InvalidSession, "no such session")
	}
	return &billingv1.AuthenticateOperatorResponse{SessionId: "session-1",
		Operator: &billingv1.Operator{OperatorId: "0189", Name: "bob", Role: s.role}}, nil
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
	return &billingv1.OpenOperatorSessionResponse{Token: s.token}, nil
}

func (s *staff) EndOperatorSession(
	ctx context.Context, _ *billingv1.EndOperatorSessionRequest,
) (*billingv1.EndOperatorSessionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = serve.OperatorCaller(ctx)
	return &billingv1.EndOperatorSessionResponse{}, nil
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

var bobsToken = "ops_" + strings.Repeat("b", 43)

// Each route with a machine of each role, and with a bootstrap token: what the table of roles
// refuses reaches no service.
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
			resp := f.ask(o, "Authorization", "Bearer "+token(role))
			calls, _ := f.named.since(known)
			if role.May(o.method, o.template) {
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
	if refused[operator.Admin] != 0 {
		t.Errorf("an admin is refused: got %d routes, want none", refused[operator.Admin])
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

func TestSigningInNeedsNoTokenAndIsBoundForANetwork(t *testing.T) {
	f := start(t, func(c *Config) { c.WrongTokens = 10 })
	f.staff.set(bobsToken, "support", nil)
	sign := func(password string) *http.Response {
		return f.do(http.MethodPost, "/api/v1/admin/session", `{"name":"bob","password":"`+password+`","code":"123456"}`,
			"X-Svc-Operator", "mallory", "X-Svc-Network", "elsewhere", "Grpc-Metadata-X-Svc-Network", "elsewhere")
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
	// A minute's guesses, two thirds as many for a network that has to wait, what time gave
	// back, and the first.
	if _, tries := f.staff.last(); tries > 24 {
		t.Errorf("got %d tries of one network, want at most 24", tries)
	}
	if text := f.log.String(); strings.Contains(text, "correct") {
		t.Errorf("got a password in the log: got %q, want it without", text)
	}
}
