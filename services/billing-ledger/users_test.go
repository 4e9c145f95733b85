package billingledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

const password = "correct horse battery"

func digestOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func TestAUserSignsUpSignsInAndBecomesAProvider(t *testing.T) {
	f := start(t)
	up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: "Ada@Example.com", Password: password,
		DisplayName: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	u := up.GetUser()
	switch {
	case u.GetEmail() != "ada@example.com":
		t.Errorf(`signed up: u.GetEmail(): got %q, want "ada@example.com"`, u.GetEmail())
	case u.GetDisplayName() != "Ada":
		t.Errorf(`signed up: u.GetDisplayName(): got %q, want "Ada"`, u.GetDisplayName())
	case u.GetProviderId() != "":
		t.Errorf(`signed up: u.GetProviderId(): got %q, want ""`, u.GetProviderId())
	case u.GetCreatedAt() == nil:
		t.Error("signed up: u.GetCreatedAt(): got nil, want a value")
	case up.GetToken() == "":
		t.Error(`signed up: up.GetToken(): got "", want some text`)
	case up.GetExpiresAt().AsTime().Before(time.Now().Add(14 * time.Minute)):
		t.Error("signed up: up.GetExpiresAt().AsTime().Before(…): got true, want false")
	}
	// The key is good for what any other is.
	key, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: digestOf(up.GetApiKey())})
	if err != nil {
		t.Fatalf("the key: got the error %v, want none", err)
	}
	if key.GetAccountId() != u.GetAccountId() {
		t.Fatalf("key.GetAccountId(): got %q, want %q", key.GetAccountId(), u.GetAccountId())
	}
	if resp := f.admit(t, &billingv1.AdmitRequest{RequestId: newRequest(t), KeyId: key.GetKeyId(), ModelId: "acme/free",
		PromptTokens: 10, MaxCompletionTokens: 10}); resp.GetBillingType() != billingv1.BillingType_BILLING_TYPE_FREE {
		t.Errorf("a request: got %v, want %v", resp.GetBillingType(), billingv1.BillingType_BILLING_TYPE_FREE)
	}
	in, err := f.users.LogInUser(t.Context(), &billingv1.LogInUserRequest{Email: " ADA@example.COM ", Password: password})
	switch {
	case err != nil:
		t.Fatalf("signed: got the error %v, want none", err)
	case !proto.Equal(in.GetUser(), u):
		t.Fatalf("signed: in.GetUser(): got %v, want %v", in.GetUser(), u)
	case in.GetToken() == up.GetToken():
		t.Fatalf("signed: in.GetToken(): got %q, want any but %q", in.GetToken(), up.GetToken())
	}
	for range 2 {
		linked, err := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: u.GetUserId(),
			ProviderId: provider})
		if err != nil {
			t.Errorf("linked: got the error %v, want none", err)
		} else if linked.GetUser().GetProviderId() != provider {
			t.Errorf("linked.GetUser().GetProviderId(): got %q, want %q", linked.GetUser().GetProviderId(), provider)
		}
	}
	for _, token := range []string{up.GetToken(), in.GetToken()} {
		got, err := f.users.GetUser(t.Context(), &billingv1.GetUserRequest{TokenDigest: digestOf(token)})
		switch {
		case err != nil:
			t.Errorf("whose token: got the error %v, want none", err)
		case got.GetUser().GetUserId() != u.GetUserId():
			t.Errorf("whose token: got.GetUser().GetUserId(): got %q, want %q", got.GetUser().GetUserId(), u.GetUserId())
		case got.GetUser().GetProviderId() != provider:
			t.Errorf("whose token: got.GetUser().GetProviderId(): got %q, want %q", got.GetUser().GetProviderId(), provider)
		}
	}
	f.sound(t)
}

// Hostile test 11, of the ledger: signing in tells nothing of who has signed up.
func TestRefusalsOfUsersAreAsTheirDescriptionSays(t *testing.T) {
	f := start(t)
	sign := &billingv1.SignUpUserRequest{Email: "ada@example.com", Password: password}
	if _, err := f.users.SignUpUser(t.Context(), sign); err != nil {
		t.Fatal(err)
	}
	logIn := func(email, password string) error {
		_, err := f.users.LogInUser(t.Context(), &billingv1.LogInUserRequest{Email: email, Password: password})
		return err
	}
	_, again := f.users.SignUpUser(t.Context(), sign)
	_, short := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: "b@example.com", Password: "short"})
	_, over := f.users.GetUser(t.Context(), &billingv1.GetUserRequest{TokenDigest: make([]byte, 32)})
	_, long := f.users.GetUser(t.Context(), &billingv1.GetUserRequest{TokenDigest: make([]byte, 33)})
	_, nobody := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: newRequest(t),
		ProviderId: provider})
	_, noID := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: "x", ProviderId: provider})
	_, noProvider := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: newRequest(t),
		ProviderId: "x"})
	for what, c := range map[string]struct {
		err    error
		kind   fault.Kind
		reason fault.Reason
	}{
		"an e-mail twice": {again, fault.Conflict, fault.AlreadyExists}, "a short password": {short, fault.Invalid,
			fault.InvalidValue},
		"a wrong password":  {logIn("ada@example.com", "wrong horse"), fault.Unauthenticated, fault.InvalidCredentials},
		"nobody":            {logIn("eve@example.com", "wrong horse"), fault.Unauthenticated, fault.InvalidCredentials},
		"no session":        {over, fault.Unauthenticated, fault.InvalidSession},
		"no digest":         {long, fault.Invalid, fault.InvalidValue},
		"nobody's provider": {nobody, fault.NotFound, fault.UserNotFound}, "no id of a user": {noID, fault.NotFound,
			fault.UserNotFound},
		"no id of a provider": {noProvider, fault.Invalid, fault.InvalidValue},
	} {
		switch got, ok := fault.As(c.err); {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", what, c.err)
		case got.Kind != c.kind:
			t.Errorf("%s: %v: Kind: got %d, want %d", what, c.err, got.Kind, c.kind)
		case got.Reason != c.reason:
			t.Errorf("%s: %v: Reason: got %q, want %q", what, c.err, got.Reason, c.reason)
		}
	}
	if a, b := logIn("ada@example.com", "wrong horse"), logIn("eve@example.com", "wrong horse"); a.Error() != b.Error() {
		t.Errorf("got the error %q, want %q", a, b.Error())
	}
}

// paper is all that a process writes.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(line)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// canary is randomness in which tokens are known beforehand.
type canary struct{}

func (canary) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = 0xA5
	}
	return len(into), nil
}

// TestPasswordsAndTokensAreInNoLogAndNoError drives every call of UserService to
// every end it has, the loss of the database included, and reads all that was
// logged, at every level, and all errors.
func TestPasswordsAndTokensAreInNoLogAndNoError(t *testing.T) {
	f := assemble(t)
	out := &paper{}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	in, err := serve.NewInterceptors(log, noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	service := f.again(t, log, canary{})
	channel := serve.NewInProcess(in)
	service.Register(channel)
	users := billingv1.NewUserServiceClient(patient{channel.Client()})

	const wrong = "wrong horse canary"
	token := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xA5}, 32))
	keep := func(err error) {
		for err != nil {
			_, _ = io.WriteString(out, err.Error()+"\n")
			err = errors.Unwrap(err)
		}
	}
	calls := func(ctx context.Context) {
		up, err := users.SignUpUser(ctx, &billingv1.SignUpUserRequest{Email: "ada@example.com", Password: password})
		keep(err)
		if err == nil && up.GetToken() != token {
			t.Errorf("the canary is not the token: %s", up.GetToken())
		}
		for _, p := range []string{password, wrong, strings.Repeat(wrong, 100)} {
			_, err := users.LogInUser(ctx, &billingv1.LogInUserRequest{Email: "ada@example.com", Password: p})
			keep(err)
		}
		_, err = users.SignUpUser(ctx, &billingv1.SignUpUserRequest{Email: password + "@@", Password: password,
			DisplayName: "\n"})
		keep(err)
		for _, digest := range [][]byte{digestOf(token), []byte(token)} {
			_, err := users.GetUser(ctx, &billingv1.GetUserRequest{TokenDigest: digest})
			keep(err)
		}
		_, err = users.LinkProvider(ctx, &billingv1.LinkProviderRequest{UserId: token, ProviderId: token})
		keep(err)
	}
	calls(t.Context())
	calls(t.Context()) // the e-mail is taken, and the token is
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	calls(canceled)
	f.db.Close()
	calls(t.Context())
	if !strings.Contains(out.String(), "invalid_credentials") {
		t.Fatalf(`what was looked at: out: got %q, want "invalid_credentials" in it`, out.String())
	}
	if !strings.Contains(out.String(), "call failed") {
		t.Fatalf(`what was looked at: out: got %q, want "call failed" in it`, out.String())
	}
	sum := digestOf(token)
	for what, secret := range map[string]string{
		"a password": password, "a wrong password": wrong, "a token": token, "a digest": hex.EncodeToString(sum),
		"a digest in base64": base64.StdEncoding.EncodeToString(sum),
		"a hash":             "argon2id", "a key": "sk-svc-",
	} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s in the log and in errors: got %q, want it without %q", what, out.String(), secret)
		}
	}
}

// again makes the service once more, on the same database, with a log and a
// source of randomness of its own.
func (f *fleet) again(t *testing.T, log *slog.Logger, random io.Reader) *billingledger.Service {
	t.Helper()
	cfg := billingledger.DefaultConfig()
	cfg.Pepper = apikey.Pepper{1, 2, 3}
	service, err := billingledger.New(t.Context(), cfg, billingledger.Deps{
		Log: log, Meters: noop.NewMeterProvider(), Clock: clock.System, Random: random, Bus: f.bus, DB: f.db,
	})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func TestDemandDoesNotTellWhatOneConsumerDid(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	none, err := f.demand.ListModelDemand(t.Context(), &billingv1.ListModelDemandRequest{})
	if err != nil {
		t.Fatalf("at first: got the error %v, want none", err)
	}
	if len(none.GetModels()) != 0 {
		t.Fatalf("at first: len(none.GetModels()): got %d, want 0, in %v", len(none.GetModels()), none)
	}
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	e := served(req.GetRequestId())
	e.EndedAt.Seconds += 2
	e.EndedAt.Nanos = e.GetDispatchedAt().GetNanos()
	e.DispatchedAt.Seconds = e.EndedAt.Seconds - 2
	f.publish(t, e)
	wait(t, notices)
	if still, err := f.demand.ListModelDemand(t.Context(), &billingv1.ListModelDemandRequest{}); err != nil {
		t.Errorf("of one consumer: got the error %v, want none", err)
	} else if len(still.GetModels()) != 0 {
		t.Errorf("of one consumer: len(still.GetModels()): got %d, want 0, in %v", len(still.GetModels()), still)
	}
}
