package rpc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// update changes where earnings go in a user's name.
func (d *desk) update(user, to string) (*hubv1.Provider, error) {
	got, err := d.self.UpdateOfUser(d.Context(), &hubv1.UpdateOfUserRequest{UserId: user, BeneficiaryAddress: to})
	return got.GetProvider(), err
}

func TestWhereTheUserSaysEarningsGoCountsAtOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	d.propose(m, thief)
	for range 2 { // the same call again changes nothing
		p, err := d.update("user-1", strings.ToLower(beneficiary))
		d.must(err)
		if got := p.GetBeneficiaryAddress(); got != beneficiary {
			t.Errorf("beneficiary: got %q, want %q", got, beneficiary)
		}
	}
	d.wantPaid(m, beneficiary, 0)
	history := d.history(m)
	if len(history) != 3 {
		t.Fatalf("history: got %q, want a proposal, its end and the change", history)
	}
	if got := history[2]; !strings.HasPrefix(got, "beneficiary_set: pending by user (to "+beneficiary) {
		t.Errorf("the change: got %q, want one by the user", got)
	}
	payee, err := d.payees.GetPayee(t.Context(), &hubv1.GetPayeeRequest{ProviderId: m.id})
	d.must(err)
	cools := payee.GetPayee().GetBeneficiaryCoolingUntil()
	if cools == nil {
		t.Fatal("the new address is paid at once, want it to cool")
	}
	want := "Nothing is paid out before " + cools.AsTime().Format(time.RFC3339)
	if got := d.own(m).GetWarning(); !strings.Contains(got, want) {
		t.Errorf("warning: got %q, want %q in it", got, want)
	}
}

func TestAUserChangesTheUsersOwnAccountAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	mine, others, nobodys := d.signUpAs("user-1"), d.signUpAs("user-2"), d.signUp()
	_, err := d.update("user-1", beneficiary)
	d.must(err)
	d.must(reviewOf(d, "user-1"))
	for name, m := range map[string]member{"another user's": others, "nobody's": nobodys} {
		if got := d.own(m).GetProvider().GetBeneficiaryAddress(); got != "" {
			t.Errorf("%s account: beneficiary: got %q, want none", name, got)
		}
		if got := d.status(m); got != pending {
			t.Errorf("%s account: status: got %v, want %v", name, got, pending)
		}
	}
	if got := d.status(mine); got != underReview {
		t.Errorf("the user's account: status: got %v, want %v", got, underReview)
	}
	for name, user := range map[string]string{"a user without an account": "user-3", "a provider's id": others.id,
		"a hostile text": "' OR '1'='1"} {
		if _, err := d.update(user, thief); !fault.Is(err, fault.ProviderNotFound) {
			t.Errorf("%s: update: got the error %v, want the reason %v", name, err, fault.ProviderNotFound)
		}
		if err := reviewOf(d, user); !fault.Is(err, fault.ProviderNotFound) {
			t.Errorf("%s: review: got the error %v, want the reason %v", name, err, fault.ProviderNotFound)
		}
	}
}

func reviewOf(d *desk, user string) error {
	_, err := d.self.RequestReviewOfUser(d.Context(), &hubv1.RequestReviewOfUserRequest{UserId: user})
	return err
}

func TestACallWithoutAKeyAndWithoutAUserChangesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp() // an account that no user has
	_, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{BeneficiaryAddress: thief})
	if !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("no key: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	if _, err := d.update("", thief); !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("no user: got the error %v, want the reason %v", err, fault.ProviderNotFound)
	}
	if err := reviewOf(d, ""); !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("a review for no user: got the error %v, want the reason %v", err, fault.ProviderNotFound)
	}
	d.wantPaid(m, "", 0)
}

func TestInAnAccountOfAWalletTheUserNeedsTheWalletToo(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, wallet, other := d.signUpAs("user-1"), newPurse(1), newPurse(2)
	signed := func(p purse, to string) *hubv1.UpdateOfUserRequest {
		c := d.challenge(p)
		return &hubv1.UpdateOfUserRequest{UserId: "user-1", BeneficiaryAddress: to, OwnerAddress: p.address,
			Signature: p.sign(c.GetMessage()), AuthNonce: c.GetNonce()}
	}
	first := signed(wallet, beneficiary)
	for range 2 { // a lost answer: the signature is spent, and the account is as the call says
		got, err := d.self.UpdateOfUser(t.Context(), first)
		d.must(err)
		if !got.GetProvider().GetOwnerProven() {
			t.Error("owner proven: got false, want true")
		}
		if to := got.GetProvider().GetBeneficiaryAddress(); to != beneficiary {
			t.Errorf("beneficiary: got %q, want %q", to, beneficiary)
		}
	}
	if _, err := d.update("user-1", thief); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("the user without the wallet: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	if _, err := d.self.UpdateOfUser(t.Context(), signed(other, thief)); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("another wallet: got the error %v, want the reason %v", err, fault.AlreadyExists)
	}
	first.BeneficiaryAddress = thief
	if _, err := d.self.UpdateOfUser(t.Context(), first); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a spent signature: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	d.wantPaid(m, beneficiary, 0)
	_, err := d.self.UpdateOfUser(t.Context(), signed(wallet, owner))
	d.must(err)
	d.wantPaid(m, owner, 0)
}

// ten has a key propose an address, or the user change it, as often as a day may have.
func (d *desk) ten(change func(to string) error) {
	d.Helper()
	for i := range 10 {
		d.must(change([]string{beneficiary, owner}[i%2]))
	}
	if err := change(beneficiary); !fault.Is(err, fault.RateLimitExceeded) {
		d.Errorf("the eleventh change: got the error %v, want the reason %v", err, fault.RateLimitExceeded)
	}
}

func TestAKeyAndItsUserHaveTenChangesADayEach(t *testing.T) {
	t.Parallel()
	d := setup(t)
	byUser := func(to string) error {
		_, err := d.update("user-1", to)
		return err
	}
	m := d.signUpAs("user-1")
	byKey := func(to string) error {
		_, err := d.self.UpdateOwn(d.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: to})
		return err
	}
	// Whoever has the key uses its bound up, and the user still has all of its own.
	d.ten(byKey)
	d.ten(byUser)
	d.wantPaid(m, owner, 0)
	if err := byKey(thief); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a key's proposal after both: got the error %v, want the reason %v", err, fault.RateLimitExceeded)
	}
	d.clock.Advance(24*time.Hour + time.Second)
	d.ten(byUser)
	d.must(byKey(thief))
}

func TestAUserOfASuspendedAccountChangesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	_, err := d.set(m, suspended)
	d.must(err)
	if _, err := d.update("user-1", beneficiary); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("update: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
	if err := reviewOf(d, "user-1"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("review: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
}

func TestAUsersApplicationIsCheckedAsAKeys(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	_, err := d.self.RequestReviewOfUser(t.Context(), &hubv1.RequestReviewOfUserRequest{UserId: "user-1",
		ContactEmail: "none"})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an e-mail without @: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	if _, err := d.update("user-1", "0x1"); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a bad address: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	if _, err := d.update("user-1", ""); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("no address: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	got, err := d.self.RequestReviewOfUser(t.Context(), &hubv1.RequestReviewOfUserRequest{UserId: "user-1",
		ProviderName: "Barn", ContactEmail: "ada@example.com"})
	d.must(err)
	if name := got.GetProvider().GetName(); name != "Barn" {
		t.Errorf("name: got %q, want %q", name, "Barn")
	}
	if got.GetRequestedAt() == nil {
		t.Error("requested at: got none, want a time")
	}
	if line := d.history(m)[0]; line != "request_review: pending to under_review by user" {
		t.Errorf("history: got %q, want the user's request", line)
	}
}

const checkViolation = "23514"

// Whatever a hub writes, nobody but the account's user changes where earnings go without a key.
func TestTheDatabaseTakesAChangeWithoutAKeyFromTheUserAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	for by, taken := range map[string]bool{"user": true, "provider": false, "operator": false, "platform": false} {
		tx, err := d.pool.Begin(t.Context())
		d.must(err)
		_, err = tx.Exec(t.Context(), `INSERT INTO provider_status_change (provider_id, from_status, to_status, what,
			changed_by, new_address) VALUES ($1, 'pending', 'pending', 'beneficiary_set', $2, $3)`, m.id, by, beneficiary)
		d.must(err)
		_, err = tx.Exec(t.Context(), `UPDATE provider SET beneficiary_address = $2 WHERE provider_id = $1`,
			m.id, beneficiary)
		var refused *pgconn.PgError
		switch isRefused := errors.As(err, &refused); {
		case err != nil && !isRefused:
			t.Errorf("by the %s: got the error %v, want the database's word", by, err)
		case isRefused && refused.Code != checkViolation:
			t.Errorf("by the %s: code: got %q, want %q", by, refused.Code, checkViolation)
		case isRefused == taken:
			t.Errorf("by the %s: taken: got %t, want %t", by, !isRefused, taken)
		}
		d.must(tx.Rollback(t.Context()))
	}
}
