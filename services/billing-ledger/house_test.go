package billingledger_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
	"svc.internal/services/billing-ledger/internal/house"
)

// openHouse opens a house account.
func (f *fleet) openHouse(t *testing.T) string {
	t.Helper()
	opened, err := f.house.OpenHouseAccount(t.Context(), &billingv1.OpenHouseAccountRequest{
		Name: "Orchard Labs", IdempotencyKey: rand.Text(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return opened.GetAccountId()
}

// fund gives a house account whole dollars.
func (f *fleet) fund(t *testing.T, account string, usd int64, key string) (*billingv1.FundHouseAccountResponse, error) {
	t.Helper()
	return f.house.FundHouseAccount(t.Context(), &billingv1.FundHouseAccountRequest{
		AccountId: account, AmountNanoUsd: usd * int64(money.USD), IdempotencyKey: key,
	})
}

func tomorrow() *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(24 * time.Hour)) }

func TestAHouseAccountPaysLikeAnyOther(t *testing.T) {
	t.Parallel()
	f := start(t)
	account := f.openHouse(t)
	funded, err := f.fund(t, account, 2, "first")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := funded.GetBalanceNanoUsd(), 2*int64(money.USD); got != want {
		t.Errorf("balance: got %d, want %d", got, want)
	}
	issued, err := f.house.IssueHouseKey(t.Context(), &billingv1.IssueHouseKeyRequest{
		AccountId: account, ExpiresAt: tomorrow(),
	})
	if err != nil {
		t.Fatal(err)
	}
	authenticate := func() error {
		digest := apikey.Sum(issued.GetApiKey())
		_, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: digest[:]})
		return err
	}
	if err := authenticate(); err != nil {
		t.Errorf("AuthenticateKey: got the error %v, want none", err)
	}
	c := consumer{account: account, key: issued.GetKeyId(), text: issued.GetApiKey()}
	f.admit(t, order(t, c))
	if got, want := f.balance(t, c), "2.00 held 0.002"; got != want {
		t.Errorf("balance: got %q, want %q", got, want)
	}
	if _, err := f.house.RevokeHouseKey(t.Context(), &billingv1.RevokeHouseKeyRequest{KeyId: c.key}); err != nil {
		t.Fatal(err)
	}
	if err := authenticate(); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("a revoked key: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	var expense int64
	if err := f.db.QueryRow(t.Context(),
		`SELECT sum(amount) FROM posting WHERE account_kind = 'e:verification'`).Scan(&expense); err != nil {
		t.Fatal(err)
	}
	if want := -2 * int64(money.USD); expense != want {
		t.Errorf("e:verification: got %d, want %d", expense, want)
	}
	report, err := billingledger.Verify(t.Context(), f.db)
	if err != nil {
		t.Fatal(err)
	}
	if report.Drift != 0 {
		t.Errorf("drift: got %d, want 0, in %+v", report.Drift, report)
	}
}

func TestTheVerifierReachesNoAccountOfAConsumer(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.consumer(t, "1")
	if _, err := f.fund(t, c.account, 1, "theirs"); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("fund: got the error %v, want the reason %v", err, fault.AccountNotFound)
	}
	if _, err := f.house.IssueHouseKey(t.Context(), &billingv1.IssueHouseKeyRequest{
		AccountId: c.account, ExpiresAt: tomorrow(),
	}); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("issue a key: got the error %v, want the reason %v", err, fault.AccountNotFound)
	}
	if _, err := f.house.RevokeHouseKey(t.Context(), &billingv1.RevokeHouseKeyRequest{KeyId: c.key}); !fault.Is(err,
		fault.KeyNotFound) {
		t.Errorf("revoke a key: got the error %v, want the reason %v", err, fault.KeyNotFound)
	}
	if _, err := f.accounts.CreateAccount(t.Context(), &billingv1.CreateAccountRequest{
		Name: "acme", IdempotencyKey: "of an operator",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.house.OpenHouseAccount(t.Context(), &billingv1.OpenHouseAccountRequest{
		Name: "acme", IdempotencyKey: "of an operator",
	}); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("open with an operator's key: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
	if got, want := f.balance(t, c), "1.00 held 0.00"; got != want {
		t.Errorf("balance: got %q, want %q", got, want)
	}
}

func TestOpeningAndFundingTwiceCountOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	open := func(name string) (*billingv1.OpenHouseAccountResponse, error) {
		return f.house.OpenHouseAccount(t.Context(), &billingv1.OpenHouseAccountRequest{Name: name, IdempotencyKey: "one"})
	}
	first, err := open("Orchard")
	if err != nil {
		t.Fatal(err)
	}
	again, err := open("Orchard")
	if err != nil {
		t.Fatal(err)
	}
	if again.GetAccountId() != first.GetAccountId() {
		t.Errorf("open again: got %s, want %s", again.GetAccountId(), first.GetAccountId())
	}
	if _, err := open("Harbour"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another name: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
	account := first.GetAccountId()
	funded, err := f.fund(t, account, 3, "once")
	if err != nil {
		t.Fatal(err)
	}
	repeated, err := f.fund(t, account, 3, "once")
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(repeated, funded) {
		t.Errorf("fund again: got %v, want %v", repeated, funded)
	}
	if _, err := f.fund(t, account, 4, "once"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another amount: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
}

func TestMoneyForVerificationIsBoundedWithin24Hours(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *billingledger.Config) { c.VerificationDailyUSD = 10 })
	accounts := []string{f.openHouse(t), f.openHouse(t)}
	var calls sync.WaitGroup
	results := make(chan error, 20)
	for n := range cap(results) {
		calls.Go(func() {
			_, err := f.fund(t, accounts[n%2], 1, fmt.Sprint("call ", n))
			results <- err
		})
	}
	calls.Wait()
	close(results)
	funded := 0
	for err := range results {
		switch {
		case err == nil:
			funded++
		case !fault.Is(err, fault.VerificationBudgetSpent):
			t.Errorf("beyond the bound: got the error %v, want the reason %v", err, fault.VerificationBudgetSpent)
		}
	}
	if funded != 10 {
		t.Errorf("funded: got $%d, want $10", funded)
	}
	f.entriesAge(t, 24*time.Hour)
	if _, err := f.fund(t, accounts[0], 10, "the next day"); err != nil {
		t.Errorf("24 hours later: got the error %v, want none", err)
	}
	if _, err := f.fund(t, accounts[0], 1, "too much again"); !fault.Is(err, fault.VerificationBudgetSpent) {
		t.Errorf("the next day's bound: got the error %v, want the reason %v", err, fault.VerificationBudgetSpent)
	}
}

// entriesAge makes all entries older. It acts as the owner with triggers off.
func (f *fleet) entriesAge(t *testing.T, d time.Duration) {
	t.Helper()
	if _, err := pgtest.Owner(t, f.db).Exec(t.Context(), fmt.Sprintf(`BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE entry SET at = at - interval '%d seconds'; COMMIT`, int(d.Seconds()))); err != nil {
		t.Fatal(err)
	}
}

func TestHouseAccountsAndTheirKeysAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t)
	account := f.openHouse(t)
	for range house.MaxAccounts - 1 {
		f.openHouse(t)
	}
	if _, err := f.house.OpenHouseAccount(t.Context(), &billingv1.OpenHouseAccountRequest{
		Name: "one too many", IdempotencyKey: rand.Text(),
	}); !fault.Is(err, fault.TooManyAccounts) {
		t.Errorf("a 257th account: got the error %v, want the reason %v", err, fault.TooManyAccounts)
	}
	issue := func(expires *timestamppb.Timestamp) error {
		_, err := f.house.IssueHouseKey(t.Context(), &billingv1.IssueHouseKeyRequest{AccountId: account, ExpiresAt: expires})
		return err
	}
	for range house.MaxKeys {
		if err := issue(tomorrow()); err != nil {
			t.Fatal(err)
		}
	}
	if err := issue(tomorrow()); !fault.Is(err, fault.TooManyKeys) {
		t.Errorf("a 9th key: got the error %v, want the reason %v", err, fault.TooManyKeys)
	}
	for name, expires := range map[string]*timestamppb.Timestamp{
		"none": nil, "past": timestamppb.New(time.Now().Add(-time.Second)), "absurd": {Seconds: 1 << 60},
		"too late": timestamppb.New(time.Now().Add(32 * 24 * time.Hour)), "zero": {},
	} {
		if err := issue(expires); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("an expiry that is %s: got the error %v, want the reason %v", name, err, fault.InvalidValue)
		}
	}
	for _, usd := range []int64{0, -1, 1001} {
		if _, err := f.fund(t, account, usd, rand.Text()); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("$%d: got the error %v, want the reason %v", usd, err, fault.InvalidValue)
		}
	}
	if _, err := f.fund(t, account, 1, ""); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("no idempotency key: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}
