package rpc_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func (d *desk) payee(m member) *hubv1.Payee {
	d.Helper()
	got, err := d.payees.GetPayee(d.Context(), &hubv1.GetPayeeRequest{ProviderId: m.id})
	d.must(err)
	listed, err := d.payees.ListPayees(d.Context(), &hubv1.ListPayeesRequest{ProviderIds: []string{m.id}})
	d.must(err)
	if one, list := []*hubv1.Payee{got.GetPayee()}, listed.GetPayees(); fmt.Sprint(list) != fmt.Sprint(one) {
		d.Errorf("listed: got %v, want %v", list, one)
	}
	return got.GetPayee()
}

// databaseNow is the time by which payees are judged.
func (d *desk) databaseNow() time.Time {
	d.Helper()
	var now time.Time
	d.must(d.pool.QueryRow(d.Context(), `SELECT clock_timestamp()`).Scan(&now))
	return now
}

// aged lets a provider's addresses have counted for a time longer.
func (d *desk) aged(m member, by time.Duration) {
	d.Helper()
	owner := pgtest.Owner(d.T, d.pool)
	for _, sql := range []string{
		`ALTER TABLE provider DISABLE TRIGGER USER`,
		fmt.Sprintf(`UPDATE provider SET beneficiary_since = beneficiary_since - interval '%d s',
			owner_bound_at = owner_bound_at - interval '%[1]d s' WHERE provider_id = '%s'`, int(by.Seconds()), m.id),
		`ALTER TABLE provider ENABLE TRIGGER USER`,
	} {
		_, err := owner.Exec(d.Context(), sql)
		d.must(err)
	}
}

// paysTo has the owner's wallet and a key say where earnings go, which counts at once.
func (d *desk) paysTo(m member, p purse, address string) {
	d.Helper()
	req := d.binding(m, p)
	req.BeneficiaryAddress = address
	_, err := d.self.UpdateOwn(d.Context(), req)
	d.must(err)
}

func (d *desk) wantSince(what string, m member, address string, from time.Time, cooling time.Duration) time.Time {
	d.Helper()
	p := d.payee(m)
	since := p.GetBeneficiarySince().AsTime()
	if p.GetBeneficiaryAddress() != address {
		d.Errorf("%s: beneficiary: got %q, want %q", what, p.GetBeneficiaryAddress(), address)
	}
	if since.Before(from) {
		d.Errorf("%s: since: got %v, want from %v on", what, since, from)
	}
	if now := d.databaseNow(); since.After(now) {
		d.Errorf("%s: since: got %v, want at most %v", what, since, now)
	}
	if p.GetBeneficiarySetAtSignup() {
		d.Errorf("%s: set at sign-up: got true, want false", what)
	}
	if got := p.GetBeneficiaryCoolingUntil().AsTime().Sub(since); got != cooling {
		d.Errorf("%s: cooling from since: got %v, want %v", what, got, cooling)
	}
	return since
}

const coolDown = 48 * time.Hour

func TestAnAddressOfASignUpDoesNotCool(t *testing.T) {
	t.Parallel()
	d := setup(t)
	begun := d.databaseNow()
	got, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Farm", BeneficiaryAddress: beneficiary,
		UserId: "u1", AccountId: "a1"})
	d.must(err)
	m := memberOf(got)
	p := d.payee(m)
	switch {
	case p.GetAccountId() != "a1":
		t.Errorf("account: got %q, want a1", p.GetAccountId())
	case p.GetBeneficiaryAddress() != beneficiary:
		t.Errorf("beneficiary: got %q, want %q", p.GetBeneficiaryAddress(), beneficiary)
	case !p.GetBeneficiarySetAtSignup():
		t.Error("set at sign-up: got false, want true")
	case p.GetBeneficiarySince().AsTime().Before(begun):
		t.Errorf("since: got %v, want from %v on", p.GetBeneficiarySince().AsTime(), begun)
	case p.GetBeneficiaryCoolingUntil() != nil:
		t.Errorf("cooling until: got %v, want none", p.GetBeneficiaryCoolingUntil().AsTime())
	}
	d.wantHistory(m, "beneficiary_at_signup: pending by user (to "+beneficiary+")")
}

func TestAPayeeWithoutAddressesHasNone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := d.payee(d.signUp())
	switch {
	case p.GetBeneficiaryAddress() != "":
		t.Errorf("beneficiary: got %q, want none", p.GetBeneficiaryAddress())
	case p.GetBeneficiarySince() != nil:
		t.Errorf("since: got %v, want none", p.GetBeneficiarySince().AsTime())
	case p.GetBeneficiaryCoolingUntil() != nil:
		t.Errorf("cooling until: got %v, want none", p.GetBeneficiaryCoolingUntil().AsTime())
	case len(p.GetOwnerWallets()) != 0:
		t.Errorf("wallets: got %v, want none", p.GetOwnerWallets())
	case p.GetAccountId() != "":
		t.Errorf("account: got %q, want none", p.GetAccountId())
	}
}

// A thief who sets the address back, or the same again, gains no time.
func TestNoChangeOfAnAddressShortensItsCoolDown(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	begun := d.databaseNow()
	d.paysTo(m, p, beneficiary)
	first := d.wantSince("set", m, beneficiary, begun, coolDown)
	d.aged(m, time.Hour)
	first = first.Add(-time.Hour)
	d.paysTo(m, p, beneficiary)
	if again := d.payee(m).GetBeneficiarySince().AsTime(); !again.Equal(first) {
		t.Errorf("the same again: since: got %v, want %v", again, first)
	}
	begun = d.databaseNow()
	d.paysTo(m, p, thief)
	moved := d.wantSince("another one", m, checksummedText(t, thief), begun, coolDown)
	d.paysTo(m, p, beneficiary)
	d.wantSince("back to the first", m, beneficiary, moved, coolDown)
}

func TestAnAddressThatLeavesItsSignUpCoolsEvenWhenItReturns(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	req := d.proven(p)
	req.BeneficiaryAddress = beneficiary
	got, err := d.self.SignUp(t.Context(), req)
	d.must(err)
	m := memberOf(got)
	d.paysTo(m, p, thief)
	begun := d.databaseNow()
	d.paysTo(m, p, beneficiary)
	d.wantSince("returned", m, beneficiary, begun, coolDown)
}

func TestEveryPathToAnAddressBeginsItsCoolDown(t *testing.T) {
	t.Parallel()
	d := setup(t)
	// A key proposes, and the account's user confirms.
	ofUser := d.signUpAs("u1")
	proposal := d.propose(ofUser, beneficiary).GetProposals()[0].GetProposalId()
	begun := d.databaseNow()
	_, err := d.decide("u1", proposal)
	d.must(err)
	d.wantSince("confirmed", ofUser, beneficiary, begun, coolDown)
	// A key proposes, and the proposal falls due: as it is read, and as it is written down.
	alone := d.signUp()
	d.propose(alone, beneficiary)
	d.due(alone)
	d.wantSince("due", alone, beneficiary, begun.Add(-time.Minute), coolDown)
	d.sweep()
	d.wantSince("written down", alone, beneficiary, begun.Add(-time.Minute), coolDown)
	// An operator takes the address away, and another proposal brings it back.
	_, err = d.admin.UnbindProvider(t.Context(), &hubv1.UnbindProviderRequest{ProviderId: alone.id, Beneficiary: true})
	d.must(err)
	if since := d.payee(alone).GetBeneficiarySince(); since != nil {
		t.Errorf("unbound: since: got %v, want none", since.AsTime())
	}
	begun = d.databaseNow()
	d.propose(alone, beneficiary)
	d.due(alone)
	d.sweep()
	d.wantSince("bound again", alone, beneficiary, begun, coolDown)
}

func TestTheOwnersWalletCountsFromWhenItWasBound(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	d.aged(m, 100*time.Hour)
	wallets := d.payee(m).GetOwnerWallets()
	if len(wallets) != 1 {
		t.Fatalf("wallets: got %v, want 1", wallets)
	}
	if got := wallets[0].GetAddress(); got != checksummed(p) {
		t.Errorf("wallet: got %q, want %q", got, checksummed(p))
	}
	begun := d.databaseNow()
	d.paysTo(m, p, p.address)
	if until := d.payee(m).GetBeneficiaryCoolingUntil().AsTime(); until.After(begun) {
		t.Errorf("cooling until: got %v, want a time that is past", until)
	}
	// A wallet that is younger than the address saves nothing.
	_, err := d.admin.UnbindProvider(t.Context(), &hubv1.UnbindProviderRequest{ProviderId: m.id, Wallet: true})
	d.must(err)
	if wallets := d.payee(m).GetOwnerWallets(); len(wallets) != 0 {
		t.Errorf("unbound: wallets: got %v, want none", wallets)
	}
	later := newPurse(2)
	_, err = d.self.UpdateOwn(t.Context(), d.binding(m, later))
	d.must(err)
	d.due(m)
	d.sweep()
	bound := d.payee(m).GetOwnerWallets()
	if len(bound) != 1 {
		t.Fatalf("bound anew: got %v, want 1", bound)
	}
	if at := bound[0].GetBoundAt().AsTime(); at.Before(begun) {
		t.Errorf("bound anew: got %v, want from %v on", at, begun)
	}
	begun = d.databaseNow()
	d.paysTo(m, later, later.address)
	if until := d.payee(m).GetBeneficiaryCoolingUntil().AsTime(); until.Before(begun) {
		t.Errorf("a young wallet: cooling until: got %v, want a time to come", until)
	}
}

func TestAConsumerAccountIsKeptOnceWithItsUser(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("u1") // by a gateway that says no account
	for _, account := range []string{"a1", "a2", ""} {
		_, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Farm", UserId: "u1", AccountId: account})
		d.must(err)
		if got := d.payee(m).GetAccountId(); got != "a1" {
			t.Errorf("signed up with %q: account: got %q, want a1", account, got)
		}
	}
	_, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Farm", AccountId: "a1"})
	d.wantReason("an account without a user", err, fault.InvalidValue)
}

func TestPayeesAreListedInOrderAndBounded(t *testing.T) {
	t.Parallel()
	d := setup(t)
	a, b := d.signUp(), d.signUp()
	const nobody = "01890000-0000-7000-8000-000000000000"
	got, err := d.payees.ListPayees(t.Context(), &hubv1.ListPayeesRequest{
		ProviderIds: []string{b.id, nobody, "malformed", a.id, b.id}})
	d.must(err)
	var found []string
	for _, p := range got.GetPayees() {
		found = append(found, p.GetProviderId())
	}
	if want := []string{b.id, a.id}; !slices.Equal(found, want) {
		t.Errorf("listed: got %v, want %v", found, want)
	}
	_, err = d.payees.ListPayees(t.Context(), &hubv1.ListPayeesRequest{ProviderIds: slices.Repeat([]string{a.id}, 1000)})
	d.must(err)
	for _, id := range []string{a.id, "malformed"} {
		_, err = d.payees.ListPayees(t.Context(), &hubv1.ListPayeesRequest{ProviderIds: slices.Repeat([]string{id}, 1001)})
		d.wantReason("1,001 of "+id, err, fault.InvalidValue)
	}
	_, err = d.payees.GetPayee(t.Context(), &hubv1.GetPayeeRequest{ProviderId: nobody})
	d.wantReason("nobody", err, fault.ProviderNotFound)
	_, err = d.payees.GetPayee(t.Context(), &hubv1.GetPayeeRequest{ProviderId: "malformed"})
	d.wantReason("malformed", err, fault.ProviderNotFound)
}

func TestAUserReadsItsStatusWithoutAKey(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("u1")
	got, err := d.self.GetOwnStatus(t.Context(), &hubv1.GetOwnStatusRequest{ProviderId: m.id})
	d.must(err)
	if got.GetPayee().GetProviderId() != m.id {
		t.Errorf("payee: got %q, want %q", got.GetPayee().GetProviderId(), m.id)
	}
	_, err = d.self.GetOwnStatus(t.Context(), &hubv1.GetOwnStatusRequest{ProviderId: "malformed"})
	d.wantReason("malformed", err, fault.ProviderNotFound)
	_, err = d.self.GetOwnStatus(t.Context(), &hubv1.GetOwnStatusRequest{ProviderId: m.id, KeyDigest: []byte{1}})
	d.wantReason("a bad key beside it", err, fault.InvalidAPIKey)
}
