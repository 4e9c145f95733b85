package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
)

func verdictID(t *testing.T, n int) provider.VerdictID {
	t.Helper()
	id, err := provider.ParseVerdict(fmt.Sprintf("01890000-0000-4000-8000-%012d", n))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// keyed is a provider that is active, with a key.
func keyed(t *testing.T, d *provider.Directory) (provider.Account, provider.Key, string) {
	t.Helper()
	a := create(t, d, "Farm")
	k, text, err := d.IssueKey(t.Context(), a.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	return providertest.Activate(t, d, a.ID, time.Now()), k, text
}

// wantRefused runs a statement in the application's role, which the database must refuse.
func wantRefused(t *testing.T, s *Store, what, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); !refusedByCheck(err) {
		t.Errorf("%s: got the error %v, want a check_violation", what, err)
	}
}

func TestTheDatabaseLetsNoOtherKeyReturn(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a, k, _ := keyed(t, d)
	revoked, _, err := d.IssueKey(t.Context(), a.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RevokeKey(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	one, two := verdictID(t, 1), verdictID(t, 2)
	for _, v := range []provider.VerdictID{one, two} {
		if _, err := d.Expel(t.Context(), a.ID, v, ""); err != nil {
			t.Fatal(err)
		}
	}
	const back = `UPDATE provider_key SET revoked_at = NULL, expelled_by = NULL WHERE key_id = $1`
	wantRefused(t, s, "while its verdict stands", back, k.ID)
	if _, err := d.Reinstate(t.Context(), a.ID, one, ""); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, "while another verdict stands", back, k.ID)
	wantRefused(t, s, "a key that somebody revoked", back, revoked.ID)
	wantRefused(t, s, "a good key that a verdict revoked",
		`UPDATE provider_key SET revoked_at = NULL, expelled_by = $2 WHERE key_id = $1`, k.ID, one)
	wantRefused(t, s, "a reversal that is taken back",
		`UPDATE provider_expulsion SET reversed_at = NULL WHERE verdict_id = $1`, one)
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Suspended, ""); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, "behind the end of its removal", back, k.ID)
	wantRefused(t, s, "a reversal behind the end of the removal",
		`UPDATE provider_expulsion SET reversed_at = now() WHERE verdict_id = $1`, two)
}

func TestTheDatabaseLetsAVerdictRevokeOnlyGoodKeysOfItsProvider(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a, k, _ := keyed(t, d)
	other, _, _ := keyed(t, d)
	revoked, _, err := d.IssueKey(t.Context(), a.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RevokeKey(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	one, two, foreign := verdictID(t, 1), verdictID(t, 2), verdictID(t, 3)
	for _, v := range []struct { // the first has the key
		id  provider.VerdictID
		who provider.Account
	}{{one, a}, {two, a}, {foreign, other}} {
		if _, err := d.Expel(t.Context(), v.who.ID, v.id, ""); err != nil {
			t.Fatal(err)
		}
	}
	const by = `UPDATE provider_key SET expelled_by = $2 WHERE key_id = $1`
	wantRefused(t, s, "a key that is revoked for ever", by, revoked.ID, one)
	wantRefused(t, s, "a key that another verdict revoked", by, k.ID, two)
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Suspended, ""); err != nil {
		t.Fatal(err)
	}
	issued, _, err := d.IssueKey(t.Context(), a.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	const revoke = `UPDATE provider_key SET revoked_at = now(), expelled_by = $2 WHERE key_id = $1`
	wantRefused(t, s, "a good key by a verdict that is over", revoke, issued.ID, one)
	wantRefused(t, s, "a good key by a verdict against another provider", revoke, issued.ID, foreign)
}

// TestAKeyThatEndedSinceItWasShownIsNotFollowedByAnother has the key end between its
// look-up and the lock of its provider.
func TestAKeyThatEndedSinceItWasShownIsNotFollowedByAnother(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a, k, _ := keyed(t, d)
	next := k
	next.ID[15]++
	next.Hash.Hash[0]++
	if err := d.RevokeKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	_, err := s.AddOwnKey(t.Context(), next, 32, k.ID, time.Now())
	if !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	keys, err := d.OwnKeys(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 {
		t.Errorf("keys: got %d, want 1", len(keys))
	}
}

func TestAVersionBeforeThatRevokesAKeyAgainEndsItForEver(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a, k, text := keyed(t, d)
	if _, err := d.Expel(t.Context(), a.ID, verdictID(t, 1), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `
		UPDATE provider_key SET revoked_at = coalesce(revoked_at, now()) WHERE key_id = $1`, k.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Reinstate(t.Context(), a.ID, verdictID(t, 1), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Authenticate(t.Context(), text); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
}

func TestTheDatabaseKeepsReferencesInactiveAndRevisionsGrowing(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	active, _, _ := keyed(t, d)
	wantRefused(t, s, "an active reference", `UPDATE provider SET reference = true WHERE provider_id = $1`, active.ID)
	no := false
	if _, err := d.Confirm(t.Context(), active.ID, provider.Confirmation{Collateral: &no}, ""); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, "a reference that was active", `UPDATE provider SET reference = true WHERE provider_id = $1`,
		active.ID)
	reviewed := create(t, d, "Farm")
	if _, err := d.SetStatus(t.Context(), reviewed.ID, provider.UnderReview, ""); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, "a reference under review", `UPDATE provider SET reference = true WHERE provider_id = $1`,
		reviewed.ID)
	a := create(t, d, "Reference")
	if _, err := d.SetReference(t.Context(), a.ID, true, ""); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, "a reference that becomes active", `UPDATE provider SET status = 'active' WHERE provider_id = $1`,
		a.ID)
	report := provider.BenchmarkReport{Revision: 7}
	if _, err := d.ReportBenchmark(t.Context(), a.ID, report, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SetCollateral(t.Context(), a.ID, true, 7, ""); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"benchmark_revision", "collateral_revision"} {
		wantRefused(t, s, column, `UPDATE provider SET `+column+` = 6 WHERE provider_id = $1`, a.ID)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE provider SET first_active_at = NULL`); err == nil {
		t.Error("the role forgets who was active")
	}
}

// TestAnExpelThatFailsHalfWayLeavesNothing fails behind the verdict, the keys and the
// status: what a process that is killed there leaves, because its transaction ends.
func TestAnExpelThatFailsHalfWayLeavesNothing(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a, _, text := keyed(t, d)
	v := verdictID(t, 1)
	kill := func(move func(*provider.Account, *provider.Verdict) provider.Entry) {
		t.Helper()
		_, err := s.ChangeByVerdict(t.Context(), a.ID, v, time.Now(),
			func(a *provider.Account, v *provider.Verdict) ([]provider.Entry, error) {
				// The second line names no status that follows, so the transaction ends there.
				return []provider.Entry{move(a, v), {At: time.Now(), What: "nonsense", From: a.Status, To: "nowhere",
					By: provider.ByPlatform}}, nil
			})
		if err == nil {
			t.Fatal("got no error, want one")
		}
	}
	kill(func(a *provider.Account, v *provider.Verdict) provider.Entry {
		v.State = provider.VerdictStands
		a.Removal = provider.Removal{From: a.Status}
		a.Status = provider.Rejected
		return provider.Entry{At: time.Now(), What: "expel", From: provider.Active, To: provider.Rejected,
			By: provider.ByPlatform, Verdict: v.ID}
	})
	if _, err := d.Authenticate(t.Context(), text); err != nil {
		t.Errorf("behind an Expel that failed: got the error %v, want none", err)
	}
	if _, err := d.Reinstate(t.Context(), a.ID, v, ""); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("behind an Expel that failed: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	if _, err := d.Expel(t.Context(), a.ID, v, ""); err != nil {
		t.Fatal(err)
	}
	kill(func(a *provider.Account, v *provider.Verdict) provider.Entry {
		v.State = provider.VerdictWasReversed
		a.Removal = provider.Removal{}
		a.Status = provider.Pending
		return provider.Entry{At: time.Now(), What: "reinstate", From: provider.Rejected, To: provider.Pending,
			By: provider.ByPlatform, Verdict: v.ID}
	})
	if _, err := d.Authenticate(t.Context(), text); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("behind a Reinstate that failed: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
	if got, err := d.Reinstate(t.Context(), a.ID, v, ""); err != nil {
		t.Errorf("reinstated at last: got the error %v, want none", err)
	} else if got.Status != provider.Active {
		t.Errorf("reinstated at last: status: got %q, want %q", got.Status, provider.Active)
	}
}

func TestOneVerdictExpelsOneProvider(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	var accounts []ids.ProviderID
	for range 6 {
		a, _, _ := keyed(t, d)
		accounts = append(accounts, a.ID)
	}
	var group sync.WaitGroup
	begin := make(chan struct{})
	results := make(chan error, len(accounts))
	for _, id := range accounts {
		group.Go(func() {
			<-begin
			_, err := d.Expel(context.WithoutCancel(t.Context()), id, verdictID(t, 1), "")
			results <- err
		})
	}
	close(begin)
	group.Wait()
	close(results)
	expelled := 0
	for err := range results {
		if err == nil {
			expelled++
		} else if !fault.Is(err, fault.TransitionNotAllowed) {
			t.Errorf("got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
		}
	}
	if expelled != 1 {
		t.Errorf("providers that one verdict expelled: got %d, want 1", expelled)
	}
}

func TestVerdictsAgainstOneProviderAreBounded(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	a, _, _ := keyed(t, d)
	for n := range 16 {
		if _, err := d.Expel(t.Context(), a.ID, verdictID(t, n+1), ""); err != nil {
			t.Fatalf("verdict %d: got the error %v, want none", n+1, err)
		}
	}
	if _, err := d.Expel(t.Context(), a.ID, verdictID(t, 17), ""); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("verdict 17: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	if _, err := d.Expel(t.Context(), a.ID, verdictID(t, 1), ""); err != nil {
		t.Errorf("the first once more: got the error %v, want none", err)
	}
}

// TestAProviderThatTheVersionBeforeActivatedBecomesNoReference has a provider that is
// active, and that the database does not know to have become active.
func TestAProviderThatTheVersionBeforeActivatedBecomesNoReference(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	err := pg.InTx(t.Context(), pgtest.Owner(t, s.pool), pgx.TxOptions{}, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`ALTER TABLE provider DISABLE TRIGGER USER`,
			`UPDATE provider SET status = 'active', active_since = now(), first_active_at = NULL,
				collateral_at = now(), benchmark_at = now()`,
			`ALTER TABLE provider ENABLE TRIGGER USER`,
		} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Pending, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SetReference(t.Context(), a.ID, true, ""); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
}
