package rpc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/siwe"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// thief is where whoever has a leaked key would have earnings go.
const thief = "0xde709f2102306220921060314715629080e2fb77"

// signUpAs is a provider of a user.
func (d *desk) signUpAs(user string) member {
	d.Helper()
	got, err := d.self.SignUp(d.Context(), &hubv1.SignUpRequest{Name: "Farm", Region: "eu", UserId: user})
	d.must(err)
	return memberOf(got)
}

// propose says with a key alone where earnings are to go.
func (d *desk) propose(m member, to string) *hubv1.Provider {
	d.Helper()
	got, err := d.self.UpdateOwn(d.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: to})
	d.must(err)
	return got.GetProvider()
}

// waited lets a provider's proposals have waited for a time by the database's clock.
func (d *desk) waited(m member, by time.Duration) {
	d.Helper()
	_, err := pgtest.Owner(d.T, d.pool).Exec(d.Context(),
		`UPDATE provider_proposal SET proposed_at = proposed_at - $2::interval WHERE provider_id = $1`, m.id, by)
	d.must(err)
}

// checksummed is a purse's address as it is kept.
func checksummed(p purse) string {
	address, err := siwe.ParseAddress(p.address)
	if err != nil {
		panic(err)
	}
	return address.String()
}

// checksummedText is an address as it is kept.
func checksummedText(t *testing.T, text string) string {
	t.Helper()
	address, err := siwe.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return address.String()
}

// due lets a provider's proposals have waited for long enough.
func (d *desk) due(m member) {
	d.Helper()
	d.waited(m, 48*time.Hour)
}

func (d *desk) decide(user, proposal string) (*hubv1.Provider, error) {
	got, err := d.self.ConfirmProposal(d.Context(), &hubv1.ConfirmProposalRequest{UserId: user, ProposalId: proposal})
	return got.GetProvider(), err
}

func (d *desk) refuse(user, proposal string) error {
	_, err := d.self.RefuseProposal(d.Context(), &hubv1.RefuseProposalRequest{UserId: user, ProposalId: proposal})
	return err
}

// wantPaid checks where earnings go, as everybody is told who asks.
func (d *desk) wantPaid(m member, want string, waiting int) {
	d.Helper()
	read, err := d.directory.GetProvider(d.Context(), &hubv1.GetProviderRequest{ProviderId: m.id})
	d.must(err)
	detail, err := d.admin.GetProviderDetail(d.Context(), &hubv1.GetProviderDetailRequest{ProviderId: m.id})
	d.must(err)
	list, err := d.admin.ListProviders(d.Context(), &hubv1.ListProvidersRequest{PageSize: 200})
	d.must(err)
	views := []*hubv1.Provider{read.GetProvider(), detail.GetProvider()}
	for _, p := range list.GetList() {
		if p.GetProviderId() == m.id {
			views = append(views, p)
		}
	}
	if len(views) != 3 {
		d.Errorf("got %d views of the provider, want 3", len(views))
	}
	for i, p := range views {
		if !strings.EqualFold(p.GetBeneficiaryAddress(), want) || len(p.GetProposals()) != waiting {
			d.Errorf("view %d: got earnings at %q and %v waiting, want %q and %d", i, p.GetBeneficiaryAddress(),
				p.GetProposals(), want, waiting)
		}
	}
}

// Nothing but time passes: no sweep, no call that changes anything.
func TestAProposalOfAnAccountWithoutAUserCountsAfter48HoursByItself(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	p := d.propose(m, beneficiary).GetProposals()[0]
	if waits := p.GetTakesEffectAt().AsTime().Sub(p.GetProposedAt().AsTime()); waits != 48*time.Hour ||
		p.GetKind() != "beneficiary" || p.GetKeyId() != d.keyOf(m) {
		t.Errorf("got %v, which waits %s, want a beneficiary that waits 48h", p, waits)
	}
	if w := d.own(m).GetWarning(); !strings.Contains(w, beneficiary) ||
		!strings.Contains(w, p.GetTakesEffectAt().AsTime().Format(time.RFC3339)) {
		t.Errorf("got the warning %q, want one that names the address and the time", w)
	}
	d.clock.Advance(1000 * time.Hour) // a hub's clock says nothing
	d.waited(m, 48*time.Hour-time.Minute)
	d.wantPaid(m, "", 1)
	d.waited(m, time.Minute)
	d.wantPaid(m, beneficiary, 0)
	d.sweep()
	d.wantPaid(m, beneficiary, 0)
	if got := d.history(m); len(got) != 2 ||
		!strings.HasPrefix(got[1], "beneficiary: pending by platform (to "+beneficiary) {
		t.Errorf("got the history %q, want the sweep to write the effect down", got)
	}
	var left int
	d.must(d.pool.QueryRow(t.Context(), `SELECT count(*) FROM provider_proposal`).Scan(&left))
	if left != 0 {
		t.Errorf("got %d proposals left, want none", left)
	}
}

func TestAnotherAddressWaitsAnewAndTheSameDoesNot(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	first := d.propose(m, thief).GetProposals()[0].GetProposalId()
	d.waited(m, 47*time.Hour)
	if again := d.propose(m, strings.ToLower(thief)).GetProposals()[0].GetProposalId(); again != first {
		t.Errorf("got another proposal for the same address: got %q, want %q", again, first)
	}
	second := d.propose(m, beneficiary).GetProposals()
	if len(second) != 1 || second[0].GetProposalId() == first {
		t.Fatalf("got %v, want one other proposal", second)
	}
	d.waited(m, 47*time.Hour)
	d.wantPaid(m, "", 1)
	d.waited(m, time.Hour)
	d.wantPaid(m, beneficiary, 0)
	// The address that counts already takes back what waits.
	d.propose(m, thief)
	d.propose(m, beneficiary)
	d.due(m)
	d.wantPaid(m, beneficiary, 0)
}

func TestAUsersAccountWaitsForItsUserHoweverLong(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	p := d.propose(m, beneficiary).GetProposals()[0]
	if p.GetTakesEffectAt() != nil {
		t.Errorf("got %v, want a proposal that takes no effect by itself", p)
	}
	d.waited(m, 5000*time.Hour)
	d.sweep()
	d.wantPaid(m, "", 1)
	d.signUpAs("user-2")
	for _, other := range []string{"user-2", "user-3", ""} {
		if _, err := d.decide(other, p.GetProposalId()); !fault.Is(err, fault.ProposalNotFound) {
			t.Errorf("confirmed by %q: got %v, want proposal_not_found", other, err)
		}
		if err := d.refuse(other, p.GetProposalId()); !fault.Is(err, fault.ProposalNotFound) {
			t.Errorf("refused by %q: got %v, want proposal_not_found", other, err)
		}
	}
	d.wantPaid(m, "", 1)
	for range 2 { // once more changes nothing
		if got, err := d.decide("user-1", p.GetProposalId()); err != nil || got.GetBeneficiaryAddress() != beneficiary {
			t.Errorf("got %v, %v, want earnings at the address", got, err)
		}
	}
	d.wantPaid(m, beneficiary, 0)
	if err := d.refuse("user-1", p.GetProposalId()); !fault.Is(err, fault.ProposalNotFound) {
		t.Errorf("what took effect is refused: got %v, want proposal_not_found", err)
	}
}

// Whoever has the key puts another address in the place of what the user read.
func TestAConfirmationNamesWhatItConfirms(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	read := d.propose(m, beneficiary).GetProposals()[0].GetProposalId()
	replaced := d.propose(m, thief).GetProposals()[0].GetProposalId()
	if _, err := d.decide("user-1", read); !fault.Is(err, fault.ProposalNotFound) {
		t.Errorf("got %v for a proposal that was replaced, want proposal_not_found", err)
	}
	d.wantPaid(m, "", 1)
	for range 2 { // once more changes nothing
		d.must(d.refuse("user-1", replaced))
	}
	for _, id := range []string{replaced, "", "x"} {
		if _, err := d.decide("user-1", id); !fault.Is(err, fault.ProposalNotFound) {
			t.Errorf("confirmed %q: got %v, want proposal_not_found", id, err)
		}
	}
	d.wantPaid(m, "", 0)
}

func TestAProposalLapsesWithItsKey(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	d.issue(m, "kept")
	id := d.propose(m, thief).GetProposals()[0].GetProposalId()
	d.must(d.revoke(m, d.keyOf(m)))
	if _, err := d.decide("user-1", id); !fault.Is(err, fault.ProposalNotFound) {
		t.Errorf("a proposal of a revoked key is confirmed: got %v, want proposal_not_found", err)
	}
	d.wantPaid(m, "", 0)
	d.sweep()
	if got := d.history(m); !strings.Contains(got[len(got)-1], "proposal_lapsed") ||
		!strings.Contains(got[len(got)-1], "its key has ended") {
		t.Errorf("got the history %q, want the lapse in it", got)
	}

	// An account without a user: a key that another one followed.
	alone := d.signUp()
	d.propose(alone, thief)
	d.waited(alone, 47*time.Hour)
	next, err := d.rotate(alone, 0)
	d.must(err)
	d.waited(alone, 2*time.Hour)
	d.wantPaid(alone, "", 0)
	// A key that ends later takes nothing back.
	d.propose(next, beneficiary)
	d.due(next)
	d.wantPaid(next, beneficiary, 0)
	_, err = pgtest.Owner(t, d.pool).Exec(t.Context(),
		`UPDATE provider_key SET revoked_at = now() + interval '1 second' WHERE key_id = $1`, d.keyOf(next))
	d.must(err)
	d.wantPaid(next, beneficiary, 0)
}

func TestProposalsLapseWithASuspension(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	id := d.propose(m, thief).GetProposals()[0].GetProposalId()
	_, err := d.set(m, suspended)
	d.must(err)
	if _, err := d.decide("user-1", id); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("suspended: got %v, want account_frozen", err)
	}
	_, err = d.set(m, hubv1.ProviderStatus_PROVIDER_STATUS_PENDING)
	d.must(err)
	if _, err := d.decide("user-1", id); !fault.Is(err, fault.ProposalNotFound) {
		t.Errorf("after it: got %v, want proposal_not_found", err)
	}
	// What had taken effect before stays.
	alone := d.signUp()
	d.propose(alone, beneficiary)
	d.due(alone)
	_, err = d.set(alone, suspended)
	d.must(err)
	d.wantPaid(alone, beneficiary, 0)
}

func TestAWalletThatIsBoundOutdoesWhatAKeyAloneProposed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpAs("user-1")
	bound, err := d.self.UpdateOwn(t.Context(), d.binding(m, p))
	d.must(err)
	d.propose(m, thief)
	if _, err := d.decide("user-1", bound.GetProvider().GetProposals()[0].GetProposalId()); err != nil {
		t.Fatal(err)
	}
	d.wantPaid(m, "", 0)
	if grant, err := d.enter(p); err != nil || grant.ProviderID.String() != m.id {
		t.Errorf("got %v, %v, want the wallet to enter", grant.ProviderID, err)
	}
}

func TestAWalletThatFallsDueForTwoProvidersHasTheFirst(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	one, two := d.signUp(), d.signUp()
	for _, m := range []member{one, two} {
		_, err := d.self.UpdateOwn(t.Context(), d.binding(m, p))
		d.must(err)
	}
	d.due(two)
	d.waited(one, 49*time.Hour)
	if !d.own(one).GetProvider().GetOwnerProven() || d.own(two).GetProvider().GetOwnerProven() {
		t.Errorf("got %v and %v, want the first to be owned", d.own(one).GetProvider(), d.own(two).GetProvider())
	}
	// Whoever signs up with it afterwards finds it taken, although nobody swept.
	if _, err := d.self.SignUp(t.Context(), d.proven(p)); !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("got %v, want already_exists", err)
	}
	if grant, err := d.enter(p); err != nil || grant.ProviderID.String() != one.id {
		t.Errorf("got %v, %v, want the first provider", grant.ProviderID, err)
	}
	if _, err := d.set(two, suspended); err != nil {
		t.Errorf("the other cannot be suspended: %v", err)
	}
}

func TestOperatorsUnbindUnderTheirName(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	m := d.signUpWith(p)
	ask := d.binding(m, p)
	ask.BeneficiaryAddress = thief
	_, err := d.self.UpdateOwn(t.Context(), ask)
	d.must(err)
	ctx := metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))
	unbind := func(req *hubv1.UnbindProviderRequest) (*hubv1.Provider, error) {
		req.ProviderId, req.Reason = m.id, "stolen"
		got, err := d.admin.UnbindProvider(ctx, req)
		return got.GetProvider(), err
	}
	if _, err := unbind(&hubv1.UnbindProviderRequest{}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("nothing: got %v, want invalid_value", err)
	}
	for range 2 { // once more changes nothing
		got, err := unbind(&hubv1.UnbindProviderRequest{Wallet: true, Beneficiary: true})
		if err != nil || got.GetOwnerProven() || got.GetOwnerAddress() != "" || got.GetBeneficiaryAddress() != "" {
			t.Fatalf("got %v, %v, want nothing bound", got, err)
		}
	}
	if _, err := d.enter(p); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("the wallet that was unbound enters: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	d.propose(m, thief)
	if got, err := unbind(&hubv1.UnbindProviderRequest{Proposals: true}); err != nil || len(got.GetProposals()) != 0 {
		t.Errorf("got %v, %v, want no proposal", got, err)
	}
	history := strings.Join(d.history(m), "\n")
	for _, want := range []string{"owner_unbound: pending by operator:alice (from " + checksummed(p) + ": stolen)",
		"beneficiary_unbound: pending by operator:alice (from ", "proposal_dropped: pending by operator:alice (to "} {
		if !strings.Contains(history, want) {
			t.Errorf("got the history\n%s\nwant %q in it", history, want)
		}
	}
}

func TestTheDatabaseRefusesAddressesWithoutAnEntry(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := newPurse(1)
	d.signUpWith(p)
	for _, sql := range []string{
		`UPDATE provider SET beneficiary_address = '` + thief + `'`,
		`UPDATE provider SET owner_address = NULL, owner_proven_at = NULL`,
		`UPDATE provider_proposal SET proposed_at = now() - interval '3 days'`,
		`INSERT INTO provider_proposal (proposal_id, provider_id, kind, address, key_id, proposed_at)
			SELECT gen_random_uuid(), provider_id, 'beneficiary', '` + thief +
			`', key_id, now() - interval '3 days' FROM provider_key`,
	} {
		if _, err := d.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: got no error, want a refusal", sql)
		}
	}
}

// However many say at once, one proposal waits, and what is confirmed is what was named.
func TestProposalsAndConfirmationsAtOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUpAs("user-1")
	first := d.propose(m, beneficiary).GetProposals()[0].GetProposalId()
	var group sync.WaitGroup
	var confirmed error
	group.Go(func() { _, confirmed = d.decide("user-1", first) })
	for i := range 8 {
		group.Go(func() {
			_, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
				BeneficiaryAddress: fmt.Sprintf("0x%040x", i+1)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	want := beneficiary
	if confirmed != nil {
		want = ""
		if !fault.Is(confirmed, fault.ProposalNotFound) {
			t.Errorf("confirm: got the error %v, want the reason %v", confirmed, fault.ProposalNotFound)
		}
	}
	d.wantPaid(m, want, 1)
}
