package providerapi

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// changing is a call that changes an account.
func changing(credential, body string) Call {
	c := with(credential, body)
	c.Method = http.MethodPut
	return c
}

// updates notes what a hub is asked to change in a user's name, and has it answer.
func updates(b *bundle, answer error) *[]*hubv1.UpdateOfUserRequest {
	var asked []*hubv1.UpdateOfUserRequest
	b.hub.ofUser = func(req *hubv1.UpdateOfUserRequest) error {
		asked = append(asked, req)
		return answer
	}
	return &asked
}

func TestAHubIsAskedInTheNameOfOneAlone(t *testing.T) {
	b := setup(t)
	signedIn(b)
	asked := updates(b, nil)
	var byKey []*hubv1.UpdateOwnRequest
	b.hub.update = func(req *hubv1.UpdateOwnRequest) error {
		byKey = append(byKey, req)
		return nil
	}
	for _, credential := range []string{"session", b.key} {
		body := `{"beneficiary_address":"0x1","user_id":"u9","key_digest":"0x01"}`
		if _, err := b.Me(t.Context(), changing(credential, body)); err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
	}
	if len(*asked) != 1 {
		t.Fatalf("in a user's name: got %d calls, want 1", len(*asked))
	}
	if got := (*asked)[0].GetUserId(); got != "u1" {
		t.Errorf("by a session: user: got %q, want %q", got, "u1")
	}
	if got := (*asked)[0].GetBeneficiaryAddress(); got != "0x1" {
		t.Errorf("by a session: address: got %q, want %q", got, "0x1")
	}
	if len(byKey) != 1 {
		t.Fatalf("in a key's name: got %d calls, want 1", len(byKey))
	}
	if n := len(byKey[0].GetKeyDigest()); n != 32 {
		t.Errorf("by a key: bytes of the key's digest: got %d, want 32", n)
	}
}

// Whoever copied the token of a session that is renewed for weeks must not have the money go elsewhere.
func TestWhereMoneyGoesIsChangedByAFreshSignInAlone(t *testing.T) {
	const body = `{"beneficiary_address":"0x1"}`
	confirm := with("session", "")
	confirm.Method, confirm.Rest = http.MethodPost, "q1"
	for name, c := range map[string]struct {
		past  time.Duration // the end of being fresh
		known bool
		want  fault.Reason
	}{
		"just before":                    {-time.Second, true, ""},
		"just then":                      {0, true, fault.FreshSignInRequired},
		"weeks later":                    {21 * 24 * time.Hour, true, fault.FreshSignInRequired},
		"a ledger of an earlier release": {-time.Second, false, fault.ServiceUnavailable},
	} {
		b := setup(t)
		signedIn(b)
		asked := updates(b, nil)
		b.ledger.fresh = timestamppb.New(b.clock.Now().Add(-c.past))
		if !c.known {
			b.ledger.fresh = nil
		}
		_, changed := b.Me(t.Context(), changing("session", body))
		_, confirmed := b.Proposal(t.Context(), confirm)
		for what, err := range map[string]error{"an address": changed, "a proposal that is confirmed": confirmed} {
			switch f, _ := fault.As(err); {
			case err == nil && c.want != "":
				t.Errorf("%s, %s: got no error, want the reason %v", name, what, c.want)
			case err != nil && (f == nil || f.Reason != c.want):
				t.Errorf("%s, %s: got the error %v, want the reason %q", name, what, err, c.want)
			}
		}
		if refused := len(*asked) == 0 && b.hub.asked == 0; refused != (c.want != "") {
			t.Errorf("%s: the hub was asked: got %t, want %t", name, !refused, c.want == "")
		}
		// Reading and dropping redirect nothing.
		drop := confirm
		drop.Method = http.MethodDelete
		if _, err := b.Proposal(t.Context(), drop); err != nil {
			t.Errorf("%s: dropped: got the error %v, want none", name, err)
		}
		if _, err := b.Status(t.Context(), with("session", "")); err != nil {
			t.Errorf("%s: read: got the error %v, want none", name, err)
		}
	}
}

func TestWhatAHubRefusesTheUserIsNoVerdictOnAKey(t *testing.T) {
	b := setup(t)
	signedIn(b)
	const wallet = `{"beneficiary_address":"0x1","owner_address":"0x2","signature":"0x01","auth_nonce":"n"}`
	for name, c := range map[string]struct {
		said error
		body string
		want fault.Reason
	}{
		"a wallet that did not sign": {fault.New(fault.Denied, fault.InvalidAPIKey, "sign"), `{"beneficiary_address":"0x1"}`,
			apierror.OwnerRequired},
		"a bad signature": {fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "bad"), wallet, fault.InvalidCredentials},
		"a taken wallet":  {fault.New(fault.Conflict, fault.AlreadyExists, "taken"), wallet, fault.AlreadyExists},
		"a frozen account": {fault.New(fault.Denied, fault.AccountFrozen, "frozen"), `{"beneficiary_address":"0x1"}`,
			fault.AccountFrozen},
		"a hub of an earlier release": {fault.FromError(grpcstatus.Error(codes.Unimplemented, "unknown method")), wallet,
			fault.ServiceUnavailable},
		"a hub that is away": {fault.New(fault.Timeout, fault.DeadlineExceeded, "late"), `{"beneficiary_address":"0x1"}`,
			fault.ServiceUnavailable},
	} {
		updates(b, c.said)
		if _, err := b.Me(t.Context(), changing("session", c.body)); !fault.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, c.want)
		}
	}
}

func TestWhoCallsIsLookedAtBeforeWhatTheCallSays(t *testing.T) {
	b := setup(t)
	asked := updates(b, nil)
	for name, c := range map[string]struct {
		signedIn bool
		body     string
		want     fault.Reason
	}{
		"nobody's session, a bad body": {false, `{`, fault.InvalidAPIKey},
		"a bad body":                   {true, `{`, fault.InvalidRequest},
		"no address":                   {true, `{}`, apierror.MissingRequired},
	} {
		b.ledger.user = nil
		if c.signedIn {
			signedIn(b)
		}
		if _, err := b.Me(t.Context(), changing("session", c.body)); !fault.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, c.want)
		}
	}
	if n := len(*asked); n != 0 {
		t.Errorf("changes that a hub was asked for: got %d, want 0", n)
	}
}

// Another account's status must never be given for a session, not even while the hub is away.
func TestNoStatusIsKeptForASession(t *testing.T) {
	b := setup(t)
	signedIn(b)
	if _, err := b.Status(t.Context(), with("session", "")); err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	b.hub.status = func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	}
	if _, err := b.Status(t.Context(), with("session", "")); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("with the hub away: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}
