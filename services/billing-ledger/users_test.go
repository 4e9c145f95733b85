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
	if u.GetEmail() != "ada@example.com" || u.GetDisplayName() != "Ada" || u.GetProviderId() != "" ||
		u.GetCreatedAt() == nil ||
		up.GetToken() == "" || up.GetExpiresAt().AsTime().Before(time.Now().Add(14*time.Minute)) {
		t.Errorf("signed up: %v", u)
	}
	// The key is good for what any other is.
	key, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: digestOf(up.GetApiKey())})
	if err != nil || key.GetAccountId() != u.GetAccountId() {
		t.Fatalf("the key: %v, %v", key, err)
	}
	if resp := f.admit(t, &billingv1.AdmitRequest{RequestId: newRequest(t), KeyId: key.GetKeyId(), ModelId: "acme/free",
		PromptTokens: 10, MaxCompletionTokens: 10}); resp.GetBillingType() != billingv1.BillingType_BILLING_TYPE_FREE {
		t.Errorf("a request: %v", resp)
	}
	in, err := f.users.LogInUser(t.Context(), &billingv1.LogInUserRequest{Email: " ADA@example.COM ", Password: password})
	if err != nil || !proto.Equal(in.GetUser(), u) || in.GetToken() == up.GetToken() {
		t.Fatalf("signed in: %v, %v", in.GetUser(), err)
	}
	for range 2 {
		linked, err := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: u.GetUserId(),
			ProviderId: provider})
		if err != nil || linked.GetUser().GetProviderId() != provider {
			t.Errorf("linked: %v, %v", linked, err)
		}
	}
	for _, token := range []string{up.GetToken(), in.GetToken()} {
		got, err := f.users.GetUser(t.Context(), &billingv1.GetUserRequest{TokenDigest: digestOf(token)})
		if err != nil || got.GetUser().GetUserId() != u.GetUserId() || got.GetUser().GetProviderId() != provider {
			t.Errorf("whose token: %v, %v", got, err)
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
		if got, ok := fault.As(c.err); !ok || got.Kind != c.kind || got.Reason != c.reason {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if a, b := logIn("ada@example.com", "wrong horse"), logIn("eve@example.com", "wrong horse"); a.Error() != b.Error() {
		t.Errorf("%v and %v", a, b)
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
	if !strings.Contains(out.String(), "invalid_credentials") || !strings.Contains(out.String(), "call failed") {
		t.Fatalf("what was looked at is not all there is: %s", out)
	}
	sum := digestOf(token)
	for what, secret := range map[string]string{
		"a password": password, "a wrong password": wrong, "a token": token, "a digest": hex.EncodeToString(sum),
		"a digest in base64": base64.StdEncoding.EncodeToString(sum),
		"a hash":             "argon2id", "a key": "sk-svc-",
	} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s is in the log or in an error", what)
		}
	}
}

// again makes the service once more, on the same database, with a log and a
// source of randomness of its own.
func (f *fleet) again(t *testing.T, log *slog.Logger, random io.Reader) *billingledger.Service {
	t.Helper()
	cfg := billingledger.DefaultConfig()
	cfg.Pepper[0] = 1
	service, err := billingledger.New(t.Context(), cfg, billingledger.Deps{
		Log: log, Meters: noop.NewMeterProvider(), Clock: clock.System, Random: random, Bus: f.bus, DB: f.db,
	})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func TestDemandIsWhatWasServed(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	none, err := f.demand.ListModelDemand(t.Context(), &billingv1.ListModelDemandRequest{})
	if err != nil || len(none.GetModels()) != 0 {
		t.Fatalf("at first: %v, %v", none, err)
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
	if still, err := f.demand.ListModelDemand(t.Context(), &billingv1.ListModelDemandRequest{}); err != nil ||
		len(still.GetModels()) != 0 {
		t.Errorf("within five minutes: %v, %v", still, err)
	}
	service := f.again(t, slog.New(slog.DiscardHandler), canary{})
	in, err := serve.NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(in)
	service.Register(channel)
	fresh, err := billingv1.NewDemandServiceClient(patient{channel.Client()}).ListModelDemand(t.Context(),
		&billingv1.ListModelDemandRequest{})
	want := &billingv1.ListModelDemandResponse{Models: []*billingv1.ModelDemand{{
		ModelId: "acme/large", Requests_24H: 1, Tokens_24H: 1100, Revenue_24HNanoUsd: 1_400_000, Payout_24HNanoUsd: 980_000,
		AvgLatencyMs: 2000,
	}}}
	if err != nil || !proto.Equal(fresh, want) {
		t.Errorf("another replica says %v, %v, want %v", fresh, err, want)
	}
}
