package rpc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestAWalletOwnsOneProvider(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	var group sync.WaitGroup
	results := make(chan error, 16)
	for i := range 16 {
		ask := d.proven(p)
		ask.Name = fmt.Sprint("Farm ", i)
		group.Go(func() {
			_, err := d.self.SignUp(t.Context(), ask)
			results <- err
		})
	}
	group.Wait()
	made := 0
	for range 16 {
		err := <-results
		f, _ := fault.As(err)
		switch {
		case err == nil:
			made++
		case f == nil || f.Kind != fault.Conflict || f.Reason != fault.AlreadyExists || f.Param != "owner_address":
			t.Errorf("sign up: %v", err)
		}
	}
	if made != 1 {
		t.Errorf("%d accounts for one wallet", made)
	}
}

func TestAClaimOfAWalletBindsNothingAndBlocksNobody(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	claim := func() member {
		got, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Thief", OwnerAddress: p.address})
		d.must(err)
		if got.GetProvider().GetOwnerProven() || got.GetProvider().GetOwnerAddress() == "" {
			t.Errorf("a claim: %v", got.GetProvider())
		}
		return memberOf(got)
	}
	claim()
	claim()
	if _, err := d.enter(p); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("the wallet enters what was claimed with it: %v", err)
	}
	signed, err := d.self.SignUp(t.Context(), d.proven(p))
	if err != nil || !signed.GetProvider().GetOwnerProven() {
		t.Fatalf("the owner: %v, %v", signed, err)
	}
	late := claim()
	for range 2 {
		grant, err := d.enter(p)
		if err != nil || grant.ProviderID.String() != signed.GetProvider().GetProviderId() {
			t.Errorf("the wallet enters %v, %v", grant.ProviderID, err)
		}
	}
	// Even the wallet itself cannot make a claim of what it owns already.
	if _, err := d.self.UpdateOwn(t.Context(), d.binding(late, p)); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("another account of the wallet: %v", err)
	}
}

// binding is an update that the wallet has signed.
func (d *desk) binding(m member, p purse) *hubv1.UpdateOwnRequest {
	d.Helper()
	c := d.challenge(p)
	return &hubv1.UpdateOwnRequest{KeyDigest: m.digest, OwnerAddress: p.address, Signature: p.sign(c.GetMessage()),
		AuthNonce: c.GetNonce()}
}

func TestAKeyAndASignatureBindAnAccountForGood(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p, other := newPurse(1), newPurse(2)
	m := d.signUp()
	forged := d.binding(m, p)
	forged.Signature = other.sign("anything")
	unsigned := d.binding(m, p)
	unsigned.Signature, unsigned.AuthNonce = nil, ""
	for name, bad := range map[string]*hubv1.UpdateOwnRequest{"forged": forged, "unsigned": unsigned} {
		if _, err := d.self.UpdateOwn(t.Context(), bad); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ask := d.binding(m, p)
	ask.BeneficiaryAddress = beneficiary
	for range 2 { // once more changes nothing
		got, err := d.self.UpdateOwn(t.Context(), ask)
		if err != nil || got.GetProvider().GetOwnerProven() || got.GetProvider().GetBeneficiaryAddress() != "" ||
			len(got.GetProvider().GetProposals()) != 2 {
			t.Fatalf("proposed: %v, %v", got, err)
		}
	}
	if _, err := d.enter(p); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a wallet that is only proposed enters: %v", err)
	}
	d.due(m)
	if grant, err := d.enter(p); err != nil || grant.ProviderID.String() != m.id {
		t.Errorf("the wallet enters %v, %v", grant.ProviderID, err)
	}
	if _, err := d.self.UpdateOwn(t.Context(), d.binding(m, other)); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("bound to another: %v", err)
	}
	for _, sql := range []string{`UPDATE provider SET owner_proven_at = NULL`,
		`UPDATE provider SET owner_address = NULL`} {
		if _, err := d.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is taken", sql)
		}
	}
	if got := d.own(m).GetProvider(); !strings.EqualFold(got.GetOwnerAddress(), p.address) || !got.GetOwnerProven() ||
		got.GetBeneficiaryAddress() != beneficiary {
		t.Errorf("owner %v", got)
	}
	key := d.keyOf(m)
	d.wantHistory(m, "beneficiary_proposed: pending by provider (to "+beneficiary+" by key "+key+")",
		"owner_proposed: pending by provider (to "+checksummed(p)+" by key "+key+")",
		"owner_proven: pending by platform (to "+checksummed(p)+" by key "+key+")",
		"beneficiary: pending by platform (to "+beneficiary+" by key "+key+")")
}

func TestAChallengeCountsOnceForWhateverItIsShown(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	ask := d.proven(p)
	_, err := d.self.SignUp(t.Context(), ask)
	d.must(err)
	if _, err := d.admit(p, ask.GetAuthNonce(), ask.GetSignature()); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("what signed up connects: %v", err)
	}
	q := newPurse(2)
	m := d.signUp()
	bound := d.binding(m, q)
	_, err = d.self.UpdateOwn(t.Context(), bound)
	d.must(err)
	d.due(m)
	if _, err := d.admit(q, bound.GetAuthNonce(), bound.GetSignature()); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("what bound connects: %v", err)
	}
	c := d.challenge(q)
	_, err = d.admit(q, c.GetNonce(), q.sign(c.GetMessage()))
	d.must(err)
	late := d.signUp()
	if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{
		KeyDigest: late.digest, OwnerAddress: q.address, Signature: q.sign(c.GetMessage()), AuthNonce: c.GetNonce(),
	}); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("what connected binds: %v", err)
	}
	bad := d.proven(newPurse(3))
	bad.OwnerAddress = ""
	if _, err := d.self.SignUp(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a signature of nobody's: %v", err)
	}
	expired := d.proven(newPurse(3))
	d.clock.Advance(5 * time.Minute)
	if _, err := d.self.SignUp(t.Context(), expired); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("too late: %v", err)
	}
}

func TestAUserHasOneAccountWhateverIsSaidAndWhenever(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	ask := d.proven(p)
	ask.UserId = "user-1"
	first, err := d.self.SignUp(t.Context(), ask)
	d.must(err)
	id := first.GetProvider().GetProviderId()
	d.clock.Advance(25 * time.Hour)
	for name, again := range map[string]*hubv1.SignUpRequest{
		"the same":     ask,
		"another name": {Name: "Other", UserId: "user-1"},
		"another wallet": {Name: "Farm", Region: "us", UserId: "user-1", OwnerAddress: owner,
			BeneficiaryAddress: beneficiary},
	} {
		got, err := d.self.SignUp(t.Context(), again)
		if err != nil || got.GetProvider().GetProviderId() != id || got.GetProvider().GetName() != "Farm" ||
			!got.GetProvider().GetOwnerProven() ||
			got.GetProvider().GetBeneficiaryAddress() != "" {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if c, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); err != nil || c.ID.String() != id {
			t.Errorf("%s: its key: %v", name, err)
		}
	}
	// The same words of others are others'.
	for name, other := range map[string]*hubv1.SignUpRequest{
		"another user": {Name: "Farm", UserId: "user-2"},
		"nobody":       {Name: "Farm"},
	} {
		if got, err := d.self.SignUp(t.Context(), other); err != nil || got.GetProvider().GetProviderId() == id {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	made, err := d.admin.CreateProvider(t.Context(), &hubv1.CreateProviderRequest{Name: "Farm", IdempotencyKey: "user-1"})
	if err != nil || made.GetProvider().GetProviderId() == id {
		t.Errorf("an operator's: %v, %v", made, err)
	}
	var last error
	for range 40 {
		if _, last = d.self.SignUp(t.Context(), ask); last != nil {
			break
		}
	}
	if !fault.Is(last, fault.TooManyKeys) {
		t.Errorf("40 keys: %v", last)
	}
	_, err = d.set(memberOf(first), suspended)
	d.must(err)
	if _, err := d.self.SignUp(t.Context(), ask); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("suspended: %v", err)
	}
	if _, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "a", UserId: strings.Repeat("u", 129)}); !fault.Is(
		err, fault.InvalidValue) {
		t.Errorf("a long user: %v", err)
	}
}

func TestAUserWhoSignsUpAtOnceHasOneAccount(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var group sync.WaitGroup
	made := make(chan string, 16)
	for i := range 16 {
		group.Go(func() {
			got, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: fmt.Sprint("Farm ", i), UserId: "user-1"})
			if err != nil {
				t.Error(err)
			}
			made <- got.GetProvider().GetProviderId()
		})
	}
	group.Wait()
	first := <-made
	for range 15 {
		if id := <-made; id != first {
			t.Errorf("accounts %s and %s", first, id)
		}
	}
}

func TestAUserProvesTheWalletOfAnAccountLater(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	first, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Farm", UserId: "user-1", OwnerAddress: p.address})
	d.must(err)
	ask := d.proven(p)
	ask.UserId = "user-1"
	for range 2 {
		got, err := d.self.SignUp(t.Context(), ask)
		if err != nil || got.GetProvider().GetProviderId() != first.GetProvider().GetProviderId() ||
			!got.GetProvider().GetOwnerProven() {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if _, err := d.enter(p); err != nil {
		t.Errorf("the wallet: %v", err)
	}
}

func TestAUsersKeysAreBounded(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	issue := func() (*hubv1.IssueKeyResponse, error) {
		return d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id, Name: "further"})
	}
	got, err := issue()
	d.must(err)
	if c, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); err != nil || c.ID.String() != m.id ||
		c.KeyID.String() != got.GetKeyId() ||
		!strings.HasPrefix(got.GetApiKey(), got.GetKeyPrefix()) {
		t.Errorf("%v, %v", got, err)
	}
	for _, status := range []hubv1.ProviderStatus{suspended, rejected} {
		_, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: d.in(status).id})
		if f, _ := fault.As(err); f == nil || f.Kind != fault.Denied || f.Reason != fault.AccountFrozen {
			t.Errorf("%v: %v", status, err)
		}
	}
	for range 30 {
		_, err := issue()
		d.must(err)
	}
	_, err = issue()
	if f, _ := fault.As(err); f == nil || f.Kind != fault.Exhausted || f.Reason != fault.TooManyKeys {
		t.Errorf("a 33rd: %v", err)
	}
	for _, id := range []string{"", "x", "01890000-0000-7000-8000-000000000000"} {
		if _, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: id}); !fault.Is(err,
			fault.ProviderNotFound) {
			t.Errorf("provider %q: %v", id, err)
		}
	}
	if _, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id,
		Name: strings.Repeat("x", 65)}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a long name: %v", err)
	}
}

// keyOf is the id of a member's key.
func (d *desk) keyOf(m member) string {
	d.Helper()
	c, err := d.accounts.Authenticate(d.Context(), m.key)
	d.must(err)
	return c.KeyID.String()
}

func TestWhereEarningsGoIsAuditedAndShownForAWeek(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	key := d.keyOf(m)
	pay := func(to string) {
		t.Helper()
		for _, p := range d.propose(m, to).GetProposals() {
			_, err := d.self.ConfirmProposal(t.Context(), &hubv1.ConfirmProposalRequest{UserId: "user-1",
				ProposalId: p.GetProposalId()})
			d.must(err)
		}
	}
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf("warning %q", w)
	}
	pay(beneficiary)
	d.clock.Advance(time.Hour)
	pay(owner)
	pay(strings.ToLower(owner)) // the same
	d.wantHistory(m,
		"beneficiary_proposed: pending by provider (to "+beneficiary+" by key "+key+")",
		"beneficiary: pending by user (to "+beneficiary+" by key "+key+")",
		"beneficiary_proposed: pending by provider (from "+beneficiary+" to "+owner+" by key "+key+")",
		"beneficiary: pending by user (from "+beneficiary+" to "+owner+" by key "+key+")")
	d.clock.Advance(7*24*time.Hour - time.Second)
	if w := d.own(m).GetWarning(); !strings.Contains(w, "beneficiary changed at 2026-03-01T01:00:00Z") {
		t.Errorf("warning %q", w)
	}
	d.clock.Advance(time.Second)
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf("warning after a week: %q", w)
	}
	var line string
	d.must(d.pool.QueryRow(t.Context(), `
		SELECT old_address || ' ' || new_address || ' ' || key_id FROM provider_status_change
		WHERE what = 'beneficiary' AND old_address IS NOT NULL`).Scan(&line))
	if line != beneficiary+" "+owner+" "+key {
		t.Errorf("audit %q", line)
	}
	// A change that is not kept leaves no line.
	_, err := d.set(m, suspended)
	d.must(err)
	before := len(d.history(m))
	if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
		BeneficiaryAddress: beneficiary}); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("suspended: %v", err)
	}
	if after := len(d.history(m)); after != before {
		t.Errorf("%d lines of what was refused", after-before)
	}
}

func TestOfAWalletsAccountAKeyAloneDoesNotSayWhereEarningsGo(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p, thief := newPurse(1), newPurse(2)
	m := d.signUpWith(p)
	pay := func(by purse) *hubv1.UpdateOwnRequest {
		t.Helper()
		ask := d.binding(m, by)
		ask.BeneficiaryAddress = beneficiary
		return ask
	}
	forged := pay(p)
	forged.Signature = thief.sign("anything")
	for name, bad := range map[string]*hubv1.UpdateOwnRequest{
		"a key alone":      {KeyDigest: m.digest, BeneficiaryAddress: beneficiary},
		"an address alone": {KeyDigest: m.digest, BeneficiaryAddress: beneficiary, OwnerAddress: p.address},
		"forged":           forged,
		"another wallet":   pay(thief),
	} {
		if _, err := d.self.UpdateOwn(t.Context(), bad); err == nil || !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: beneficiary})
	if f, _ := fault.As(err); f == nil || f.Kind != fault.Denied || !strings.Contains(f.Message, "wallet must sign") {
		t.Errorf("a key alone: %v", err)
	}
	if got := d.own(m).GetProvider().GetBeneficiaryAddress(); got != "" {
		t.Fatalf("earnings go to %s", got)
	}
	ask := pay(p)
	for range 2 { // once more changes nothing
		got, err := d.self.UpdateOwn(t.Context(), ask)
		if err != nil || got.GetProvider().GetBeneficiaryAddress() != beneficiary {
			t.Fatalf("signed: %v, %v", got, err)
		}
	}
	// What was seen once says nothing else, even where it changed nothing.
	idle := pay(p)
	_, err = d.self.UpdateOwn(t.Context(), idle)
	d.must(err)
	for _, used := range []*hubv1.UpdateOwnRequest{ask, idle} {
		used.BeneficiaryAddress = owner
		if _, err := d.self.UpdateOwn(t.Context(), used); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("a challenge that was used: %v", err)
		}
	}
	if got := d.own(m).GetProvider().GetBeneficiaryAddress(); got != beneficiary {
		t.Errorf("earnings go to %s", got)
	}
	// The same address again needs nobody's word.
	if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
		BeneficiaryAddress: beneficiary}); err != nil {
		t.Errorf("the same again: %v", err)
	}
}

func TestWhereEarningsGoIsProposedAtMostTenTimesADay(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	pay := func(n int) error {
		_, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
			BeneficiaryAddress: []string{owner, beneficiary}[n%2]})
		return err
	}
	for n := range 10 {
		d.must(pay(n))
		d.clock.Advance(time.Hour)
	}
	err := pay(10)
	if f, _ := fault.As(err); f == nil || f.Kind != fault.Exhausted || f.Reason != fault.RateLimitExceeded ||
		f.RetryAfter != 14*time.Hour {
		t.Errorf("an 11th: %+v", f)
	}
	if got := d.own(m).GetProvider().GetProposals(); len(got) != 1 || got[0].GetAddress() != beneficiary ||
		len(d.history(m)) != 10 {
		t.Errorf("refused, and yet %v", got)
	}
	d.must(pay(9)) // the same again is no change
	d.clock.Advance(14 * time.Hour)
	d.must(pay(10))
}
