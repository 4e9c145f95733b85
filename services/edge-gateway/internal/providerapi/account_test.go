package providerapi

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// opening is a hub that opens accounts, and notes what it was asked.
func opening(b *bundle) *[]*hubv1.SignUpRequest {
	var asked []*hubv1.SignUpRequest
	b.hub.signUp = func(req *hubv1.SignUpRequest) (*hubv1.SignUpResponse, error) {
		asked = append(asked, req)
		return &hubv1.SignUpResponse{Provider: &hubv1.Provider{ProviderId: "p1"}, ApiKey: "sk-prov-one",
			KeyPrefix: "sk-prov-on"}, nil
	}
	return &asked
}

// Whoever could name a user could be given a key to another's account.
func TestAStrangerNamesNoUser(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	c := with("", `{"name":"x","owner_address":"0x1","user_id":"u1","userId":"u1"}`)
	c.Header.Set("Idempotency-Key", "u1")
	a, err := b.SignUp(t.Context(), c)
	if err != nil || a.Status != 201 || a.Header.Get("Deprecation") == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	if got := (*asked)[0]; got.GetUserId() != "" || got.GetName() != "x" || got.GetOwnerAddress() != "0x1" {
		t.Errorf("the hub was asked %v", got)
	}
}

func TestSignUpsOfAnAddressAreBounded(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	for range 3 {
		if _, err := b.SignUp(t.Context(), with("", `{"name":""}`)); !fault.Is(err, apierror.MissingRequired) {
			t.Errorf("got %v", err)
		}
	}
	for range 9 {
		_, err := b.SignUp(t.Context(), with("", `{"name":"x"}`))
		if err != nil && !fault.Is(err, fault.RateLimitExceeded) {
			t.Errorf("got %v", err)
		}
	}
	if len(*asked) != 5 {
		t.Errorf("%d accounts within an hour", len(*asked))
	}
	b.clock.Advance(time.Hour)
	if _, err := b.SignUp(t.Context(), with("", `{"name":"x"}`)); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

func TestLogInsAndChallengesOfAnAddressAreBounded(t *testing.T) {
	b := setup(t)
	for n := range 5 {
		want := fault.InvalidCredentials
		if n >= testConfig.LogIns.Calls {
			want = fault.RateLimitExceeded
		}
		_, err := b.LogIn(t.Context(), with("", `{"email":"ann@example.org","password":"x"}`))
		if f, _ := fault.As(err); !fault.Is(err, want) || strings.Contains(f.Message, "ann") {
			t.Errorf("log-in %d: %v", n, err)
		}
		_, err = b.Challenge(t.Context(), with("", `{"address":"0x1"}`))
		if fault.Is(err, fault.RateLimitExceeded) != (n >= testConfig.Challenges.Calls) {
			t.Errorf("challenge %d: %v", n, err)
		}
	}
}

// Five an hour are few: what was malformed, or met an outage, is not counted.
func TestWhatCouldNotBeAnsweredIsNotCounted(t *testing.T) {
	b := setup(t)
	var failure error
	b.hub.signUp = func(*hubv1.SignUpRequest) (*hubv1.SignUpResponse, error) { return nil, failure }
	for _, c := range []struct {
		err     error
		counted bool
	}{
		{fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"), false},
		{fault.New(fault.Timeout, fault.DeadlineExceeded, "late"), false},
		{fault.New(fault.Invalid, fault.InvalidValue, "bad").On("owner_address"), false},
		{fault.New(fault.Conflict, fault.AlreadyExists, "taken"), true},
	} {
		failure = c.err
		held := 0
		for range 9 {
			_, err := b.SignUp(t.Context(), with("", `{"name":"x"}`))
			if fault.Is(err, fault.RateLimitExceeded) {
				held++
			}
		}
		if want := map[bool]int{true: 4}[c.counted]; held != want {
			t.Errorf("%v: %d of 9 were held, want %d", c.err, held, want)
		}
	}
}

// The account was opened and the ledger did not answer: the same call ends with the
// same account.
func TestAnUpgradeThatBrokeOffIsTakenUpAgain(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	b.ledger.linkErr = fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	body := `{"name":"x","wallet_address":"","description":"d","worker_address":"w"}`
	if _, err := b.Upgrade(t.Context(), with("token", body)); apierror.Of(err).Status != 503 {
		t.Fatalf("got %v", err)
	}
	b.ledger.linkErr = nil
	other := `{"name":"y","wallet_address":"0x1"}`
	if a, err := b.Upgrade(t.Context(), with("token", other)); err != nil || a.Status != 201 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, req := range *asked {
		if req.GetUserId() != "u1" {
			t.Errorf("the hub was asked %v", req)
		}
	}
	_, err := b.Upgrade(t.Context(), with("token", body))
	if a := apierror.Of(err); a.Status != 409 || !strings.Contains(a.Message, "already a provider") {
		t.Errorf("once more: %+v", a)
	}
	if len(*asked) != 2 {
		t.Error("a provider was signed up once more")
	}
}

// Agents take "already a provider" for the word to ask for a key, which would be of no
// use to whom the wallet's account does not belong.
func TestAWalletOfAnotherIsNotAlreadyAProvider(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	b.hub.signUp = func(*hubv1.SignUpRequest) (*hubv1.SignUpResponse, error) {
		return nil, fault.New(fault.Conflict, fault.AlreadyExists, "this wallet is already a provider")
	}
	_, err := b.Upgrade(t.Context(), with("token", `{"name":"x","wallet_address":"0x1"}`))
	if a := apierror.Of(err); a.Status != 409 || strings.Contains(a.Message, "already a provider") {
		t.Errorf("got %+v", a)
	}
}

// Nothing but its wallet's signature binds an address, which is the hub's to check.
func TestASignatureReachesTheHub(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	var updated *hubv1.UpdateOwnRequest
	b.hub.update = func(req *hubv1.UpdateOwnRequest) error { updated = req; return nil }
	b.ledger.user = &billingv1.User{UserId: "u1"}
	const signed = `"signature":"0x00fF","auth_nonce":"n"}`
	_, one := b.SignUp(t.Context(), with("", `{"name":"x","owner_address":"0x1",`+signed))
	_, two := b.Upgrade(t.Context(), with("token", `{"name":"x","wallet_address":"0x1",`+signed))
	_, three := b.UpdateMe(t.Context(), with(b.key, `{"owner_address":"0x1",`+signed))
	if one != nil || two != nil || three != nil || len(*asked) != 2 {
		t.Fatalf("%v, %v, %v", one, two, three)
	}
	type said interface {
		GetOwnerAddress() string
		GetSignature() []byte
		GetAuthNonce() string
	}
	for _, req := range []said{(*asked)[0], (*asked)[1], updated} {
		if req.GetOwnerAddress() != "0x1" || string(req.GetSignature()) != "\x00\xff" || req.GetAuthNonce() != "n" {
			t.Errorf("the hub was asked %v", req)
		}
	}
	for _, bad := range []string{`"00ff"`, `"0x0"`, `"0xzz"`, `7`, `"0x` + strings.Repeat("00", maxSignature+1) + `"`} {
		_, err := b.SignUp(t.Context(), with("", `{"name":"x","signature":`+bad+`}`))
		if f, _ := fault.As(err); !fault.Is(err, fault.InvalidValue) || f.Param != "signature" {
			t.Errorf("%.20s: %v", bad, err)
		}
	}
	if _, err := b.UpdateMe(t.Context(), with(b.key, `{"signature":"","auth_nonce":"n"}`)); !fault.Is(err,
		apierror.MissingRequired) {
		t.Errorf("neither address: %v", err)
	}
}

// A hub says of a bad signature what it says of a bad key.
func TestABadSignatureIsNoVerdictOnTheKey(t *testing.T) {
	b := setup(t)
	bad := fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "the signature is not the wallet's")
	b.hub.update = func(*hubv1.UpdateOwnRequest) error { return bad }
	b.hub.signUp = func(*hubv1.SignUpRequest) (*hubv1.SignUpResponse, error) { return nil, bad }
	const body = `{"name":"x","owner_address":"0x1","signature":"0x00","auth_nonce":"n"}`
	for range 9 {
		_, err := b.UpdateMe(t.Context(), with(b.key, body))
		if f, _ := fault.As(err); !fault.Is(err, fault.InvalidCredentials) || f.Param != "signature" {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := b.SignUp(t.Context(), with("", body)); !fault.Is(err, fault.InvalidCredentials) {
		t.Errorf("signing up: %v", err)
	}
	b.hub.status = failing(bad)
	if _, err := b.UpdateMe(t.Context(), with(b.key, body)); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a bad key: %v", err)
	}
}

func TestUpgradesAndKeysOfAnAddressAreBounded(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	b.ledger.linkErr = fault.New(fault.Unavailable, fault.ServiceUnavailable, "away") // and yet a key was made
	for n := range 9 {
		_, err := b.Upgrade(t.Context(), with("token", `{"name":"x"}`))
		if want := n >= testConfig.SignUps.Calls; err == nil || fault.Is(err, fault.RateLimitExceeded) != want {
			t.Errorf("upgrade %d: %v", n, err)
		}
	}
	b.ledger.user.ProviderId = "p1"
	for n := range 9 {
		_, err := b.CreateProviderKey(t.Context(), with("token", `{"name":"k"}`))
		if want := n >= testConfig.Keys.Calls; fault.Is(err, fault.RateLimitExceeded) != want {
			t.Errorf("key %d: %v", n, err)
		}
	}
	if len(*asked) != testConfig.SignUps.Calls || len(b.hub.issued) != testConfig.Keys.Calls {
		t.Errorf("%d accounts and %d keys", len(*asked), len(b.hub.issued))
	}
	if req := b.hub.issued[0]; req.GetProviderId() != "p1" || req.GetName() != "k" {
		t.Errorf("the hub was asked %v", req)
	}
}

func TestTheLedgerHearsOfANetworkAndOfNoAddress(t *testing.T) {
	b := setup(t)
	for _, from := range []string{"2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"} {
		c := with("", `{"email":"ann@example.org","password":"x"}`)
		c.From = netip.MustParseAddr(from)
		if _, err := b.LogIn(t.Context(), c); !fault.Is(err, fault.InvalidCredentials) {
			t.Fatal(err)
		}
	}
	c := with("", `{"email":"ann@example.org","password":"correct horse"}`)
	c.From = netip.MustParseAddr("2001:db8::3")
	if _, err := b.UserSignUp(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	n := b.ledger.networks
	if n[0] != n[1] || n[0] != n[3] || n[0] == n[2] || len(n[0]) != 64 || strings.Contains(n[0], ":") {
		t.Errorf("the networks are %q", n)
	}
}

// Everybody's session is over some time: agents that go on with it guess nothing, and
// shut nobody out.
func TestAnExpiredSessionIsNoGuess(t *testing.T) {
	b := setup(t)
	b.ledger.noUser = fault.New(fault.Unauthenticated, fault.SessionExpired, "over")
	for range 20 {
		_, err := b.CreateProviderKey(t.Context(), with("token", ""))
		if a := apierror.Of(err); !fault.Is(err, fault.SessionExpired) || a.Status != 401 {
			t.Fatalf("got %v", err)
		}
	}
}

func TestAGoodSessionIsNotHeldUpByItsNeighbours(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	if _, err := b.CreateProviderKey(t.Context(), with("token", "")); !fault.Is(err, fault.ProviderNotFound) {
		t.Fatal(err)
	}
	ann := b.ledger.user
	b.ledger.user = nil
	for range 20 {
		_, _ = b.CreateProviderKey(t.Context(), with("unknown", ""))
	}
	if _, err := b.CreateProviderKey(t.Context(), with("unknown", "")); !fault.Is(err, fault.RateLimitExceeded) {
		t.Fatalf("a guesser: %v", err)
	}
	b.ledger.user = ann
	for range 20 {
		if _, err := b.CreateProviderKey(t.Context(), with("token", "")); !fault.Is(err, fault.ProviderNotFound) {
			t.Fatalf("its neighbour: %v", err)
		}
	}
	if got, most := b.sessions.known.Len(), testConfig.Kept; got > most {
		t.Errorf("got %d sessions, want at most %d", got, most)
	}
}

func TestKeysAreNoSessions(t *testing.T) {
	b := setup(t)
	for credential, reason := range map[string]fault.Reason{
		b.key: apierror.WrongKeyType, "": apierror.MissingAPIKey, "unknown": fault.InvalidSession,
		strings.Repeat("x", 300): fault.InvalidSession,
	} {
		if _, err := b.CreateProviderKey(t.Context(), with(credential, "")); !fault.Is(err, reason) {
			t.Errorf("%.8q: %v", credential, err)
		}
	}
	if b.ledger.asked != 1 {
		t.Errorf("%d sessions were looked up", b.ledger.asked)
	}
	b.ledger.user = &billingv1.User{UserId: "u1"}
	if _, err := b.CreateProviderKey(t.Context(), with("token", "")); !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("a consumer has a provider key: %v", err)
	}
}

func TestGuessesOfSessionsAreBounded(t *testing.T) {
	b := setup(t)
	held := 0
	for range 20 {
		_, err := b.CreateProviderKey(t.Context(), with("unknown", ""))
		if fault.Is(err, fault.RateLimitExceeded) {
			held++
		}
	}
	if held < 10 || b.ledger.asked > 10 {
		t.Errorf("%d were held, %d looked up", held, b.ledger.asked)
	}
	elsewhere := with("unknown", "")
	elsewhere.From = netip.MustParseAddr("203.0.113.9")
	if _, err := b.CreateProviderKey(t.Context(), elsewhere); !fault.Is(err, fault.InvalidSession) {
		t.Errorf("elsewhere: %v", err)
	}
}

func TestAPeerThatDoesNotAnswerIs503(t *testing.T) {
	for _, err := range []error{errors.New("plain"), fault.New(fault.Timeout, fault.DeadlineExceeded, "late"),
		fault.New(fault.Canceled, fault.ClientClosed, "gone")} {
		if a := apierror.Of(ofPeer(t.Context(), err)); a.Status != 503 {
			t.Errorf("%v is %+v", err, a)
		}
	}
}
