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
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case a.Status != 201:
		t.Fatalf("a.Status: got %d, want 201", a.Status)
	case a.Header.Get("Deprecation") == "":
		t.Fatal(`a.Header.Get("Deprecation"): got "", want some text`)
	}
	switch got := (*asked)[0]; {
	case got.GetUserId() != "":
		t.Errorf(`the hub was asked: got.GetUserId(): got %q, want ""`, got.GetUserId())
	case got.GetName() != "x":
		t.Errorf(`the hub was asked: got.GetName(): got %q, want "x"`, got.GetName())
	case got.GetOwnerAddress() != "0x1":
		t.Errorf(`the hub was asked: got.GetOwnerAddress(): got %q, want "0x1"`, got.GetOwnerAddress())
	}
}

func TestSignUpsOfAnAddressAreBounded(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	for range 3 {
		if _, err := b.SignUp(t.Context(), with("", `{"name":""}`)); !fault.Is(err, apierror.MissingRequired) {
			t.Errorf("got the error %v, want the reason %v", err, apierror.MissingRequired)
		}
	}
	for range 9 {
		_, err := b.SignUp(t.Context(), with("", `{"name":"x"}`))
		if err != nil && !fault.Is(err, fault.RateLimitExceeded) {
			t.Errorf("got %v", err)
		}
	}
	if len(*asked) != 5 {
		t.Errorf("accounts within an hour: got %d, want 5", len(*asked))
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
		if f, _ := fault.As(err); !fault.Is(err, want) {
			t.Errorf("log-in %d: got the error %v, want the reason %v", n, err, want)
		} else if strings.Contains(f.Message, "ann") {
			t.Errorf(`log-in %d: f.Message: got %q, want it without "ann"`, n, f.Message)
		}
		_, err = b.Challenge(t.Context(), with("", `{"address":"0x1"}`))
		if fault.Is(err, fault.RateLimitExceeded) != (n >= testConfig.Challenges.Calls) {
			t.Errorf("challenge %d: got %t, want %t", n, fault.Is(err, fault.RateLimitExceeded),
				n >= testConfig.Challenges.Calls)
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
			t.Errorf("%v: got %d of 9 were held, want %d", c.err, held, want)
		}
	}
}

// Earnings are converted to the account that the hub knows.
func TestAnUpgradeNamesTheUsersConsumerAccount(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	b.ledger.user = &billingv1.User{UserId: "u1", AccountId: "a1"}
	if _, err := b.Upgrade(t.Context(), with("token", `{"name":"x","account_id":"a2"}`)); err != nil {
		t.Fatal(err)
	}
	if got := (*asked)[0].GetAccountId(); got != "a1" {
		t.Errorf("account: got %q, want a1", got)
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
	if a, err := b.Upgrade(t.Context(), with("token", other)); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if a.Status != 201 {
		t.Fatalf("a.Status: got %d, want 201", a.Status)
	}
	for _, req := range *asked {
		if req.GetUserId() != "u1" {
			t.Errorf(`the hub was asked: got %q, want "u1"`, req.GetUserId())
		}
	}
	_, err := b.Upgrade(t.Context(), with("token", body))
	if a := apierror.Of(err); a.Status != 409 {
		t.Errorf("once more: a.Status: got %d, want 409", a.Status)
	} else if !strings.Contains(a.Message, "already a provider") {
		t.Errorf(`once more: a.Message: got %q, want "already a provider" in it`, a.Message)
	}
	if len(*asked) != 2 {
		t.Errorf("a provider was signed up once more: got %d, want 2", len(*asked))
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
	if a := apierror.Of(err); a.Status != 409 {
		t.Errorf("a.Status: got %d, want 409", a.Status)
	} else if strings.Contains(a.Message, "already a provider") {
		t.Errorf(`a.Message: got %q, want it without "already a provider"`, a.Message)
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
	switch {
	case one != nil:
		t.Fatalf("one: got the error %v, want none", one)
	case two != nil:
		t.Fatalf("two: got the error %v, want none", two)
	case three != nil:
		t.Fatalf("three: got the error %v, want none", three)
	case len(*asked) != 2:
		t.Fatalf("len(*asked): got %d, want 2", len(*asked))
	}
	type said interface {
		GetOwnerAddress() string
		GetSignature() []byte
		GetAuthNonce() string
	}
	for _, req := range []said{(*asked)[0], (*asked)[1], updated} {
		if got := req.GetOwnerAddress(); got != "0x1" {
			t.Errorf(`the hub was asked: req.GetOwnerAddress(): got %q, want "0x1"`, got)
		} else if got := string(req.GetSignature()); got != "\x00\xff" {
			t.Errorf("the hub was asked: req.GetSignature(): got %q, want %q", got, "\x00\xff")
		} else if got := req.GetAuthNonce(); got != "n" {
			t.Errorf(`the hub was asked: req.GetAuthNonce(): got %q, want "n"`, got)
		}
	}
	for _, bad := range []string{`"00ff"`, `"0x0"`, `"0xzz"`, `7`, `"0x` + strings.Repeat("00", maxSignature+1) + `"`} {
		_, err := b.SignUp(t.Context(), with("", `{"name":"x","signature":`+bad+`}`))
		if f, _ := fault.As(err); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%.20s: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		} else if f.Param != "signature" {
			t.Errorf(`%.20s: f.Param: got %q, want "signature"`, bad, f.Param)
		}
	}
	if _, err := b.UpdateMe(t.Context(), with(b.key, `{"signature":"","auth_nonce":"n"}`)); !fault.Is(err,
		apierror.MissingRequired) {
		t.Errorf("neither address: got the error %v, want the reason %v", err, apierror.MissingRequired)
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
		if f, _ := fault.As(err); !fault.Is(err, fault.InvalidCredentials) {
			t.Fatalf("got the error %v, want the reason %v", err, fault.InvalidCredentials)
		} else if f.Param != "signature" {
			t.Fatalf(`f.Param: got %q, want "signature"`, f.Param)
		}
	}
	if _, err := b.SignUp(t.Context(), with("", body)); !fault.Is(err, fault.InvalidCredentials) {
		t.Errorf("signing up: got the error %v, want the reason %v", err, fault.InvalidCredentials)
	}
	b.hub.status = failing(bad)
	if _, err := b.UpdateMe(t.Context(), with(b.key, body)); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a bad key: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
}

func TestUpgradesAndKeysOfAnAddressAreBounded(t *testing.T) {
	b := setup(t)
	asked := opening(b)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	b.ledger.linkErr = fault.New(fault.Unavailable, fault.ServiceUnavailable, "away") // and yet a key was made
	for n := range 9 {
		_, err := b.Upgrade(t.Context(), with("token", `{"name":"x"}`))
		if want := n >= testConfig.SignUps.Calls; err == nil {
			t.Errorf("upgrade %d: got no error, want one", n)
		} else if fault.Is(err, fault.RateLimitExceeded) != want {
			t.Errorf("upgrade %d: fault.Is(…): got %t, want %t", n, fault.Is(err, fault.RateLimitExceeded), want)
		}
	}
	b.ledger.user.ProviderId = "p1"
	for n := range 9 {
		_, err := b.CreateProviderKey(t.Context(), with("token", `{"name":"k"}`))
		if want := n >= testConfig.Keys.Calls; fault.Is(err, fault.RateLimitExceeded) != want {
			t.Errorf("key %d: got %t, want %t", n, fault.Is(err, fault.RateLimitExceeded), want)
		}
	}
	if len(*asked) != testConfig.SignUps.Calls {
		t.Errorf("len(*asked): got %d, want %d", len(*asked), testConfig.SignUps.Calls)
	} else if len(b.hub.issued) != testConfig.Keys.Calls {
		t.Errorf("len(b.hub.issued): got %d, want %d", len(b.hub.issued), testConfig.Keys.Calls)
	}
	if req := b.hub.issued[0]; req.GetProviderId() != "p1" {
		t.Errorf(`the hub was asked: req.GetProviderId(): got %q, want "p1"`, req.GetProviderId())
	} else if req.GetName() != "k" {
		t.Errorf(`the hub was asked: req.GetName(): got %q, want "k"`, req.GetName())
	}
}

func TestTheLedgerHearsOfANetworkAndOfNoAddress(t *testing.T) {
	b := setup(t)
	for _, from := range []string{"2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"} {
		c := with("", `{"email":"ann@example.org","password":"x"}`)
		c.From = netip.MustParseAddr(from)
		if _, err := b.LogIn(t.Context(), c); !fault.Is(err, fault.InvalidCredentials) {
			t.Fatalf("got the error %v, want the reason %v", err, fault.InvalidCredentials)
		}
	}
	c := with("", `{"email":"ann@example.org","password":"correct horse"}`)
	c.From = netip.MustParseAddr("2001:db8::3")
	if _, err := b.UserSignUp(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	n := b.ledger.networks
	switch {
	case n[0] != n[1]:
		t.Errorf("the networks: n[0]: got %q, want %q", n[0], n[1])
	case n[0] != n[3]:
		t.Errorf("the networks: n[0]: got %q, want %q", n[0], n[3])
	case n[0] == n[2]:
		t.Errorf("the networks: n[0]: got %q, want any but %q", n[0], n[2])
	case len(n[0]) != 64:
		t.Errorf("the networks: len(n[0]): got %d, want 64, in %q", len(n[0]), n)
	case strings.Contains(n[0], ":"):
		t.Errorf(`the networks: n[0]: got %q, want it without ":"`, n[0])
	}
}

// Everybody's session is over some time: agents that go on with it guess nothing, and
// shut nobody out.
func TestAnExpiredSessionIsNoGuess(t *testing.T) {
	b := setup(t)
	b.ledger.noUser = fault.New(fault.Unauthenticated, fault.SessionExpired, "over")
	for range 20 {
		_, err := b.CreateProviderKey(t.Context(), with("token", ""))
		if a := apierror.Of(err); !fault.Is(err, fault.SessionExpired) {
			t.Fatalf("got the error %v, want the reason %v", err, fault.SessionExpired)
		} else if a.Status != 401 {
			t.Fatalf("a.Status: got %d, want 401", a.Status)
		}
	}
}

func TestAGoodSessionIsNotHeldUpByItsNeighbours(t *testing.T) {
	b := setup(t)
	b.ledger.user = &billingv1.User{UserId: "u1"}
	if _, err := b.CreateProviderKey(t.Context(), with("token", "")); !fault.Is(err, fault.ProviderNotFound) {
		t.Fatalf("got the error %v, want the reason %v", err, fault.ProviderNotFound)
	}
	ann := b.ledger.user
	b.ledger.user = nil
	for range 20 {
		_, _ = b.CreateProviderKey(t.Context(), with("unknown", ""))
	}
	if _, err := b.CreateProviderKey(t.Context(), with("unknown", "")); !fault.Is(err, fault.RateLimitExceeded) {
		t.Fatalf("a guesser: got the error %v, want the reason %v", err, fault.RateLimitExceeded)
	}
	b.ledger.user = ann
	for range 20 {
		if _, err := b.CreateProviderKey(t.Context(), with("token", "")); !fault.Is(err, fault.ProviderNotFound) {
			t.Fatalf("its neighbour: got the error %v, want the reason %v", err, fault.ProviderNotFound)
		}
	}
}

func TestKeysAreNoSessions(t *testing.T) {
	b := setup(t)
	for credential, reason := range map[string]fault.Reason{
		b.key: apierror.WrongKeyType, "": apierror.MissingAPIKey, "unknown": fault.InvalidSession,
		strings.Repeat("x", 300): fault.InvalidSession,
	} {
		if _, err := b.CreateProviderKey(t.Context(), with(credential, "")); !fault.Is(err, reason) {
			t.Errorf("%.8q: got the error %v, want the reason %v", credential, err, reason)
		}
	}
	if b.ledger.asked != 1 {
		t.Errorf("sessions looked up: got %d, want 1", b.ledger.asked)
	}
	b.ledger.user = &billingv1.User{UserId: "u1"}
	if _, err := b.CreateProviderKey(t.Context(), with("token", "")); !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("a consumer has a provider key: got the error %v, want the reason %v", err, fault.ProviderNotFound)
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
	if held < 10 {
		t.Errorf("%d were held, %d looked up: held: got %d, want at least 10", held, b.ledger.asked, held)
	} else if b.ledger.asked > 10 {
		t.Errorf("%d were held, %d looked up: b.ledger.asked: got %d, want at most 10", held, b.ledger.asked, b.ledger.asked)
	}
	elsewhere := with("unknown", "")
	elsewhere.From = netip.MustParseAddr("203.0.113.9")
	if _, err := b.CreateProviderKey(t.Context(), elsewhere); !fault.Is(err, fault.InvalidSession) {
		t.Errorf("elsewhere: got the error %v, want the reason %v", err, fault.InvalidSession)
	}
}

func TestAPeerThatDoesNotAnswerIs503(t *testing.T) {
	for _, err := range []error{errors.New("plain"), fault.New(fault.Timeout, fault.DeadlineExceeded, "late"),
		fault.New(fault.Canceled, fault.ClientClosed, "gone")} {
		if a := apierror.Of(ofPeer(t.Context(), err)); a.Status != 503 {
			t.Errorf("%v: a.Status: got %d, want 503", err, a.Status)
		}
	}
}
