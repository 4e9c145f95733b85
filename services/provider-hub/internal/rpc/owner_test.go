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
		t.Errorf("accounts for one wallet: got %d, want 1", made)
	}
}

func TestAClaimOfAWalletBindsNothingAndBlocksNobody(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	claim := func() member {
		got, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "Thief", OwnerAddress: p.address})
		d.must(err)
		if got.GetProvider().GetOwnerProven() {
			t.Errorf("a claim: got.GetProvider().GetOwnerProven(): got true, want false, with %v", got.GetProvider())
		} else if got.GetProvider().GetOwnerAddress() == "" {
			t.Error(`a claim: got.GetProvider().GetOwnerAddress(): got "", want some text`)
		}
		return memberOf(got)
	}
	claim()
	claim()
	if _, err := d.enter(p); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("the wallet enters what was claimed: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	signed, err := d.self.SignUp(t.Context(), d.proven(p))
	if err != nil {
		t.Fatalf("the owner: got the error %v, want none", err)
	}
	if !signed.GetProvider().GetOwnerProven() {
		t.Fatal("signed.GetProvider().GetOwnerProven(): got false, want true")
	}
	late := claim()
	for range 2 {
		grant, err := d.enter(p)
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if grant.ProviderID.String() != signed.GetProvider().GetProviderId() {
			t.Errorf("the wallet enters: grant.ProviderID: got %q, want %q", grant.ProviderID.String(),
				signed.GetProvider().GetProviderId())
		}
	}
	// Even the wallet itself cannot make a claim of what it owns already.
	if _, err := d.self.UpdateOwn(t.Context(), d.binding(late, p)); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("another account of the wallet: got the error %v, want the reason %v", err, fault.AlreadyExists)
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
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidAPIKey)
		}
	}
	ask := d.binding(m, p)
	ask.BeneficiaryAddress = beneficiary
	for range 2 { // once more changes nothing
		got, err := d.self.UpdateOwn(t.Context(), ask)
		switch {
		case err != nil:
			t.Fatalf("proposed: got the error %v, want none", err)
		case got.GetProvider().GetOwnerProven():
			t.Fatal("proposed: got.GetProvider().GetOwnerProven(): got true, want false")
		case got.GetProvider().GetBeneficiaryAddress() != "":
			t.Fatalf(`proposed: got.GetProvider().GetBeneficiaryAddress(): got %q, want ""`,
				got.GetProvider().GetBeneficiaryAddress())
		case len(got.GetProvider().GetProposals()) != 2:
			t.Fatalf("proposed: len(…): got %d, want 2, in %v", len(got.GetProvider().GetProposals()), got)
		}
	}
	if _, err := d.enter(p); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a wallet that is only proposed enters: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	d.due(m)
	if grant, err := d.enter(p); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if grant.ProviderID.String() != m.id {
		t.Errorf("the wallet enters: grant.ProviderID: got %q, want %q", grant.ProviderID.String(), m.id)
	}
	if _, err := d.self.UpdateOwn(t.Context(), d.binding(m, other)); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("bound to another: got the error %v, want the reason %v", err, fault.AlreadyExists)
	}
	for _, sql := range []string{`UPDATE provider SET owner_proven_at = NULL`,
		`UPDATE provider SET owner_address = NULL`} {
		if _, err := d.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is taken", sql)
		}
	}
	switch got := d.own(m).GetProvider(); {
	case !strings.EqualFold(got.GetOwnerAddress(), p.address):
		t.Error("owner: strings.EqualFold(…): got false, want true")
	case !got.GetOwnerProven():
		t.Errorf("got.GetOwnerProven(): got false, want true, with %v", got)
	case got.GetBeneficiaryAddress() != beneficiary:
		t.Errorf("owner: got.GetBeneficiaryAddress(): got %q, want %q", got.GetBeneficiaryAddress(), beneficiary)
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
		t.Errorf("what signed up connects: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	q := newPurse(2)
	m := d.signUp()
	bound := d.binding(m, q)
	_, err = d.self.UpdateOwn(t.Context(), bound)
	d.must(err)
	d.due(m)
	if _, err := d.admit(q, bound.GetAuthNonce(), bound.GetSignature()); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("what bound connects: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	c := d.challenge(q)
	_, err = d.admit(q, c.GetNonce(), q.sign(c.GetMessage()))
	d.must(err)
	late := d.signUp()
	if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{
		KeyDigest: late.digest, OwnerAddress: q.address, Signature: q.sign(c.GetMessage()), AuthNonce: c.GetNonce(),
	}); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("what connected binds: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	bad := d.proven(newPurse(3))
	bad.OwnerAddress = ""
	if _, err := d.self.SignUp(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a signature of nobody's: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	expired := d.proven(newPurse(3))
	d.clock.Advance(5 * time.Minute)
	if _, err := d.self.SignUp(t.Context(), expired); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("too late: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
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
		if c, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); err != nil {
			t.Errorf("%s: its key: got the error %v, want none", name, err)
		} else if c.ID.String() != id {
			t.Errorf("%s: its key: c.ID: got %q, want %q", name, c.ID.String(), id)
		}
	}
	// The same words of others are others'.
	for name, other := range map[string]*hubv1.SignUpRequest{
		"another user": {Name: "Farm", UserId: "user-2"},
		"nobody":       {Name: "Farm"},
	} {
		if got, err := d.self.SignUp(t.Context(), other); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if got.GetProvider().GetProviderId() == id {
			t.Errorf("%s: got.GetProvider().GetProviderId(): got %q, want any but %q", name, got.GetProvider().GetProviderId(),
				id)
		}
	}
	made, err := d.admin.CreateProvider(t.Context(), &hubv1.CreateProviderRequest{Name: "Farm", IdempotencyKey: "user-1"})
	if err != nil {
		t.Errorf("an operator's: got the error %v, want none", err)
	} else if made.GetProvider().GetProviderId() == id {
		t.Errorf("an operator's: made.GetProvider().GetProviderId(): got %q, want any but %q",
			made.GetProvider().GetProviderId(), id)
	}
	var last error
	for range 40 {
		if _, last = d.self.SignUp(t.Context(), ask); last != nil {
			break
		}
	}
	if !fault.Is(last, fault.TooManyKeys) {
		t.Errorf("40 keys: got the error %v, want the reason %v", last, fault.TooManyKeys)
	}
	_, err = d.set(memberOf(first), suspended)
	d.must(err)
	if _, err := d.self.SignUp(t.Context(), ask); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("suspended: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
	if _, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "a", UserId: strings.Repeat("u", 129)}); !fault.Is(
		err, fault.InvalidValue) {
		t.Errorf("a long user: got the error %v, want the reason %v", err, fault.InvalidValue)
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
			t.Errorf("accounts: got %q, want %q", id, first)
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
		switch {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case got.GetProvider().GetProviderId() != first.GetProvider().GetProviderId():
			t.Fatalf("got.GetProvider().GetProviderId(): got %q, want %q", got.GetProvider().GetProviderId(),
				first.GetProvider().GetProviderId())
		case !got.GetProvider().GetOwnerProven():
			t.Fatal("got.GetProvider().GetOwnerProven(): got false, want true")
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
	switch c, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case c.ID.String() != m.id:
		t.Errorf("c.ID: got %q, want %q", c.ID.String(), m.id)
	case c.KeyID.String() != got.GetKeyId():
		t.Errorf("c.KeyID: got %q, want %q", c.KeyID.String(), got.GetKeyId())
	case !strings.HasPrefix(got.GetApiKey(), got.GetKeyPrefix()):
		t.Errorf("got.GetApiKey(): got %q, want the prefix %q", got.GetApiKey(), got.GetKeyPrefix())
	}
	for _, status := range []hubv1.ProviderStatus{suspended, rejected} {
		_, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: d.in(status).id})
		switch f, _ := fault.As(err); {
		case f == nil:
			t.Errorf("%v: f: got no error, want one", status)
		case f.Kind != fault.Denied:
			t.Errorf("%v: f.Kind: got %d, want %d", status, f.Kind, fault.Denied)
		case f.Reason != fault.AccountFrozen:
			t.Errorf("%v: f.Reason: got %q, want %q", status, f.Reason, fault.AccountFrozen)
		}
	}
	for range 30 {
		_, err := issue()
		d.must(err)
	}
	_, err = issue()
	switch f, _ := fault.As(err); {
	case f == nil:
		t.Error("a 33rd: f: got no error, want one")
	case f.Kind != fault.Exhausted:
		t.Errorf("a 33rd: f.Kind: got %d, want %d", f.Kind, fault.Exhausted)
	case f.Reason != fault.TooManyKeys:
		t.Errorf("a 33rd: f.Reason: got %q, want %q", f.Reason, fault.TooManyKeys)
	}
	for _, id := range []string{"", "x", "01890000-0000-7000-8000-000000000000"} {
		if _, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: id}); !fault.Is(err,
			fault.ProviderNotFound) {
			t.Errorf("provider %q: got the error %v, want the reason %v", id, err, fault.ProviderNotFound)
		}
	}
	if _, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id,
		Name: strings.Repeat("x", 65)}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a long name: got the error %v, want the reason %v", err, fault.InvalidValue)
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
		t.Errorf(`warning: got %q, want ""`, w)
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
		t.Errorf(`warning: got %q, want "beneficiary changed at 2026-03-01T01:00:00Z" in it`, w)
	}
	d.clock.Advance(time.Second)
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf(`warning after a week: got %q, want ""`, w)
	}
	var line string
	d.must(d.pool.QueryRow(t.Context(), `
		SELECT old_address || ' ' || new_address || ' ' || key_id FROM provider_status_change
		WHERE what = 'beneficiary' AND old_address IS NOT NULL`).Scan(&line))
	if line != beneficiary+" "+owner+" "+key {
		t.Errorf("audit: got %q, want %q", line, beneficiary+" "+owner+" "+key)
	}
	// A change that is not kept leaves no line.
	_, err := d.set(m, suspended)
	d.must(err)
	before := len(d.history(m))
	if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
		BeneficiaryAddress: beneficiary}); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("suspended: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
	if after := len(d.history(m)); after != before {
		t.Errorf("lines of what refused: got %d, want %d", after, before)
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
		if _, err := d.self.UpdateOwn(t.Context(), bad); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidAPIKey)
		}
	}
	_, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: beneficiary})
	switch f, _ := fault.As(err); {
	case f == nil:
		t.Error("a key alone: f: got no error, want one")
	case f.Kind != fault.Denied:
		t.Errorf("a key alone: f.Kind: got %d, want %d", f.Kind, fault.Denied)
	case !strings.Contains(f.Message, "wallet must sign"):
		t.Errorf(`a key alone: f.Message: got %q, want "wallet must sign" in it`, f.Message)
	}
	if got := d.own(m).GetProvider().GetBeneficiaryAddress(); got != "" {
		t.Fatalf(`earnings go: got %q, want ""`, got)
	}
	ask := pay(p)
	for range 2 { // once more changes nothing
		got, err := d.self.UpdateOwn(t.Context(), ask)
		if err != nil {
			t.Fatalf("signed: got the error %v, want none", err)
		}
		if got.GetProvider().GetBeneficiaryAddress() != beneficiary {
			t.Fatalf("signed: got.GetProvider().GetBeneficiaryAddress(): got %q, want %q",
				got.GetProvider().GetBeneficiaryAddress(), beneficiary)
		}
	}
	// What was seen once says nothing else, even where it changed nothing.
	idle := pay(p)
	_, err = d.self.UpdateOwn(t.Context(), idle)
	d.must(err)
	for _, used := range []*hubv1.UpdateOwnRequest{ask, idle} {
		used.BeneficiaryAddress = owner
		if _, err := d.self.UpdateOwn(t.Context(), used); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("a challenge that was used: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
		}
	}
	if got := d.own(m).GetProvider().GetBeneficiaryAddress(); got != beneficiary {
		t.Errorf("earnings go: got %q, want %q", got, beneficiary)
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
	switch f, _ := fault.As(err); {
	case f == nil:
		t.Error("an 11th: f: got no error, want one")
	case f.Kind != fault.Exhausted:
		t.Errorf("an 11th: f.Kind: got %d, want %d", f.Kind, fault.Exhausted)
	case f.Reason != fault.RateLimitExceeded:
		t.Errorf("an 11th: f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	case f.RetryAfter != 14*time.Hour:
		t.Errorf("an 11th: f.RetryAfter: got %v, want %v", f.RetryAfter, 14*time.Hour)
	}
	if got := d.own(m).GetProvider().GetProposals(); len(got) != 1 {
		t.Errorf("once refused: len(got): got %d, want 1, in %v", len(got), got)
	} else if got[0].GetAddress() != beneficiary {
		t.Errorf("once refused: got[0].GetAddress(): got %q, want %q", got[0].GetAddress(), beneficiary)
	} else if found := len(d.history(m)); found != 10 {
		t.Errorf("len(d.history(m)): got %d, want 10", found)
	}
	d.must(pay(9)) // the same again is no change
	d.clock.Advance(14 * time.Hour)
	d.must(pay(10))
}
