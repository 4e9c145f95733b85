package edgegateway

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// ownersCalls are the calls that take a provider key or the session of the provider's owner.
var ownersCalls = []struct{ method, path, body string }{
	{http.MethodGet, agentStatus, ""},
	{http.MethodPut, meURL, `{"beneficiary_address":"0x52908400098527886E0F7030069857D2E4169EE7"}`},
	{http.MethodPost, "/api/v1/provider/request-approval", `{"provider_name":"Farm"}`},
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func TestTheOwnersSessionOpensWhatAProviderKeyOpens(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for _, c := range ownersCalls {
		for name, credential := range map[string][]string{
			"a key": f.asProvider(), "a session": bearer(sessionToken),
			"a session from no page": append(bearer(sessionToken), "Sec-Fetch-Site", "none"),
		} {
			var said struct {
				ProviderID string `json:"provider_id"`
			}
			wantJSON(t, f.do(c.method, c.path, c.body, credential...), http.StatusOK, &said)
			if said.ProviderID != providerA {
				t.Errorf("%s %s by %s: provider: got %q, want %q", c.method, c.path, name, said.ProviderID, providerA)
			}
		}
	}
	if got := f.selves.changedBy(); !slices.Equal(got, []string{userID, userID, userID, userID}) {
		t.Errorf("changes in a user's name: got %q, want 4 of %q", got, userID)
	}
}

func TestAStatusHasOneShapeForAKeyAndForASession(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for name, credential := range map[string][]string{"a key": f.asProvider(), "a session": bearer(sessionToken)} {
		body := wantJSON(t, f.do(http.MethodGet, agentStatus, "", credential...), http.StatusOK, nil)
		newSchemas(t).wantShape(t, name, "#/components/schemas/ProviderStatus", body)
	}
}

// Whatever a caller says besides, the session alone says whose provider it is.
func TestASessionReadsAndChangesItsOwnProviderAlone(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for _, c := range ownersCalls {
		path, body := c.path+"?provider_id="+providerA+"&user_id="+userID, c.body
		if body != "" {
			body = strings.TrimSuffix(body, "}") + `,"provider_id":"` + providerA + `","user_id":"` + userID + `"}`
		}
		var said struct {
			ProviderID string `json:"provider_id"`
		}
		answer := wantJSON(t, f.do(c.method, path, body, append(bearer(bobToken), "X-Svc-User", userID,
			"X-Svc-Provider", providerA)...), http.StatusOK, &said)
		if said.ProviderID != providerB {
			t.Errorf("%s %s: provider: got %q, want %q", c.method, c.path, said.ProviderID, providerB)
		}
		if strings.Contains(answer, providerA) {
			t.Errorf("%s %s: got %s, want nothing of another provider", c.method, c.path, answer)
		}
	}
	if got := f.selves.changedBy(); slices.Contains(got, userID) {
		t.Errorf("changes in a user's name: got %q, want none of %q", got, userID)
	}
}

func TestNoOtherCredentialOpensTheCallsOfAProvidersOwner(t *testing.T) {
	f := start(t)
	cookie := []string{"Cookie", "svc_refresh=" + refreshToken, "Sec-Fetch-Site", "same-origin"}
	for name, c := range map[string]struct {
		credential []string
		status     int
		code       string
	}{
		"nothing":                        {nil, 401, "missing_api_key"},
		"the cookie of a page of ours":   {cookie, 401, "missing_api_key"},
		"a session that was ended":       {bearer(endedToken), 401, "session_expired"},
		"a session that nobody had":      {bearer("stale"), 401, "invalid_api_key"},
		"a consumer key":                 {bearer(f.key), 401, "wrong_key_type"},
		"a user without a provider":      {bearer(sessionToken), 404, "provider_not_found"},
		"an ended session with a cookie": {append(bearer(endedToken), cookie...), 401, "session_expired"},
	} {
		for _, o := range ownersCalls {
			described := operation{method: o.method, path: o.path}
			t.Run(name+" "+described.String(), func(t *testing.T) {
				described.wantError(t, f.do(o.method, o.path, o.body, c.credential...), c.status, c.code)
			})
		}
	}
	if got := f.selves.changedBy(); len(got) != 0 {
		t.Errorf("changes in a user's name: got %q, want none", got)
	}
}

// The owner's key of today is revoked with the removal of the provider; its session is not.
func TestAKeyThatIsRevokedLeavesTheSessionOpen(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	f.selves.set(fault.New(fault.Unauthenticated, fault.KeyRevoked, "gone"),
		hubv1.ProviderStatus_PROVIDER_STATUS_REJECTED)
	for _, o := range ownersCalls {
		described := operation{method: o.method, path: o.path}
		described.wantError(t, f.do(o.method, o.path, o.body, f.asProvider()...), 401, "key_revoked")
		wantJSON(t, f.do(o.method, o.path, o.body, bearer(sessionToken)...), http.StatusOK, nil)
	}
}

// A page of another site can make a browser send a body of a form and cookies, and neither the header
// Authorization nor a body of JSON.
func TestAnotherSitesFormChangesNoProvider(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	for _, o := range ownersCalls[1:] {
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			resp := f.do(o.method, o.path, o.body, "Content-Type", kind, "Cookie", "svc_refresh="+refreshToken,
				"Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site")
			operation{method: o.method, path: o.path}.wantError(t, resp, 401, "missing_api_key")
		}
	}
	if got := f.selves.changedBy(); len(got) != 0 {
		t.Errorf("changes in a user's name: got %q, want none", got)
	}
}

// An address in the name of a user who signed in long ago is refused in the words of the other routes that
// take a fresh sign-in, and a page knows by the code that the user is to sign in again.
func TestAStaleSessionChangesNoAddress(t *testing.T) {
	f := start(t)
	f.people.set(providerA, nil)
	f.people.stale = true
	put, review := ownersCalls[1], ownersCalls[2]
	operation{method: put.method, path: put.path}.wantError(t,
		f.do(put.method, put.path, put.body, bearer(sessionToken)...), 403, "fresh_sign_in_required")
	wantJSON(t, f.do(review.method, review.path, review.body, bearer(sessionToken)...), http.StatusOK, nil)
	wantJSON(t, f.do(put.method, put.path, put.body, f.asProvider()...), http.StatusOK, nil) // which only proposes
	if got := f.selves.changedBy(); !slices.Equal(got, []string{userID}) {
		t.Errorf("changes in a user's name: got %q, want the review alone", got)
	}
}

// earlier sends the calls to one service to a peer of an earlier release.
type earlier struct {
	grpc.ClientConnInterface
	service string
	peer    grpc.ClientConnInterface
}

func (e earlier) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	to := e.ClientConnInterface
	if strings.HasPrefix(method, "/"+e.service+"/") {
		to = e.peer
	}
	return to.Invoke(ctx, method, args, reply, opts...)
}

// While releases are mixed, a hub may not know the calls in a user's name. That is no verdict on the session,
// and the call is worth a try later.
func TestAHubOfAnEarlierReleaseIsAServiceThatIsAway(t *testing.T) {
	f := newFleet(t)
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), metricnoop.MeterProvider{},
		tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	service := hubv1.ProviderSelfService_ServiceDesc
	service.Methods = slices.DeleteFunc(slices.Clone(service.Methods), func(m grpc.MethodDesc) bool {
		return strings.HasSuffix(m.MethodName, "OfUser")
	})
	f.named.ClientConnInterface = earlier{f.named.ClientConnInterface, service.ServiceName,
		overSockets(t, in, func(r grpc.ServiceRegistrar) { r.RegisterService(&service, f.selves) })}
	f.start()
	f.people.set(providerA, nil)
	for _, o := range ownersCalls[1:] {
		described := operation{method: o.method, path: o.path}
		resp := f.do(o.method, o.path, o.body, bearer(sessionToken)...)
		if got := resp.Header.Get("Retry-After"); got == "" {
			t.Errorf("%s: Retry-After: got none, want a time", described)
		}
		described.wantError(t, resp, 503, "service_unavailable")
		wantJSON(t, f.do(o.method, o.path, o.body, f.asProvider()...), http.StatusOK, nil)
	}
}
