package providerapi

import (
	"net/http"
	"testing"

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

// updates notes what a hub is asked to change, and has it answer.
func updates(b *bundle, answer error) *[]*hubv1.UpdateOwnRequest {
	var asked []*hubv1.UpdateOwnRequest
	b.hub.update = func(req *hubv1.UpdateOwnRequest) error {
		asked = append(asked, req)
		return answer
	}
	return &asked
}

func TestAHubIsAskedInTheNameOfOneAlone(t *testing.T) {
	b := setup(t)
	signedIn(b)
	asked := updates(b, nil)
	for _, credential := range []string{"session", b.key} {
		body := `{"beneficiary_address":"0x1","user_id":"u9","key_digest":"0x01"}`
		if _, err := b.Me(t.Context(), changing(credential, body)); err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
	}
	user, key := (*asked)[0], (*asked)[1]
	if user.GetUserId() != "u1" {
		t.Errorf("by a session: user: got %q, want %q", user.GetUserId(), "u1")
	}
	if n := len(user.GetKeyDigest()); n != 0 {
		t.Errorf("by a session: bytes of the key's digest: got %d, want 0", n)
	}
	if key.GetUserId() != "" {
		t.Errorf("by a key: user: got %q, want none", key.GetUserId())
	}
	if n := len(key.GetKeyDigest()); n != 32 {
		t.Errorf("by a key: bytes of the key's digest: got %d, want 32", n)
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
