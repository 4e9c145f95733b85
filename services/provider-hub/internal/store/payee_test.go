package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
)

const (
	someAddress  = "0x52908400098527886E0F7030069857D2E4169EE7"
	otherAddress = "0xde709f2102306220921060314715629080e2fb77"
	longAgo      = "'2020-01-01'"
)

func (s *Store) mustExec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// forbidden runs a statement for which the application's role has no right.
func forbidden(t *testing.T, s *Store, what, sql string, args ...any) {
	t.Helper()
	_, err := s.pool.Exec(t.Context(), sql, args...)
	refused := &pgconn.PgError{}
	_ = errors.As(err, &refused) // without it there is no code
	if refused.Code != "42501" {
		t.Errorf("%s: got the error %v, want one of rights", what, err)
	}
}

// getAccount reads an account.
func getAccount(t *testing.T, s *Store, id ids.ProviderID) provider.Account {
	t.Helper()
	a, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNobodyButTheDatabaseTimesAnAddress(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	begun := time.Now().Add(-time.Second)
	id := ids.ProviderID{1}
	s.mustExec(t, `INSERT INTO provider (provider_id, name, status, region, created_at, beneficiary_address, owner_address,
			owner_proven_at, beneficiary_at, beneficiary_since, beneficiary_at_signup, owner_bound_at)
		VALUES ($1, 'x', 'pending', '', `+longAgo+`, $2, $2, `+longAgo+`, `+longAgo+`, `+longAgo+`, false, `+longAgo+`)`,
		id, someAddress)
	p := getAccount(t, s, id).Payee
	switch {
	case p.Since.Before(begun):
		t.Errorf("since: got %v, want now", p.Since)
	case !p.AtSignUp:
		t.Error("at sign-up: got false, want true")
	case p.BoundAt.Before(begun):
		t.Errorf("bound at: got %v, want now", p.BoundAt)
	}
	a := create(t, d, "Farm")
	for _, column := range []string{"beneficiary_since = " + longAgo, "owner_bound_at = " + longAgo,
		"beneficiary_at_signup = true"} {
		forbidden(t, s, column, `UPDATE provider SET `+column+` WHERE provider_id = $1`, a.ID)
	}
	owner := pgtest.Owner(t, s.pool)
	for _, column := range []string{"beneficiary_since = " + longAgo, "owner_bound_at = " + longAgo,
		"beneficiary_at_signup = false"} {
		if _, err := owner.Exec(t.Context(), `UPDATE provider SET `+column+` WHERE provider_id = $1`, id); err != nil {
			t.Fatal(err)
		}
	}
	if got := getAccount(t, s, id).Payee; got != p {
		t.Errorf("after the owner of the table wrote times: got %+v, want %+v", got, p)
	}
}

func TestAnAddressThatIsWrittenAgainKeepsItsTime(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a, key, _ := keyed(t, d)
	pay := func(address string) provider.Payee {
		t.Helper()
		_, err := s.Change(t.Context(), a.ID, func(a *provider.Account) ([]provider.Entry, error) {
			from := a.Beneficiary
			a.Beneficiary, a.BeneficiaryAt = address, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
			return []provider.Entry{{At: time.Now(), What: provider.BeneficiaryChanged, From: a.Status, To: a.Status,
				By: provider.ByPlatform, Payout: provider.Payout{From: from, To: address, Key: key.ID}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return getAccount(t, s, a.ID).Payee
	}
	first := pay(someAddress)
	if again := pay(someAddress); again != first {
		t.Errorf("the same again: got %+v, want %+v", again, first)
	}
	other := pay(otherAddress)
	if !other.Since.After(first.Since) {
		t.Errorf("another address: since: got %v, want after %v", other.Since, first.Since)
	}
	if back := pay(someAddress); !back.Since.After(other.Since) {
		t.Errorf("back: since: got %v, want after %v", back.Since, other.Since)
	}
}

func TestAConsumerAccountComesWithItsUserAndStays(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	alone := create(t, d, "Farm")
	wantRefused(t, s, "without a user", `UPDATE provider SET account_id = 'a1' WHERE provider_id = $1`, alone.ID)
	id := ids.ProviderID{1}
	s.mustExec(t, `INSERT INTO provider (provider_id, name, status, region, created_at, user_id, account_id)
		VALUES ($1, 'x', 'pending', '', now(), 'u1', 'a1')`, id)
	wantRefused(t, s, "another one", `UPDATE provider SET account_id = 'a2' WHERE provider_id = $1`, id)
	wantRefused(t, s, "none", `UPDATE provider SET account_id = NULL WHERE provider_id = $1`, id)
}

const addCause = `INSERT INTO provider_suspension (provider_id, cause, since, revision) VALUES ($1, $2, now(), $3)`

func TestTheDatabaseSuspendsExactlyWhileACauseHolds(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	wantRefused(t, s, "a cause without its status", addCause, a.ID, "refund", 1)
	if _, err := d.SetSuspension(t.Context(), a.ID, provider.SuspensionWord{Cause: provider.CauseRefund, On: true,
		Revision: 5}, ""); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, "a status that ends while a cause holds",
		`UPDATE provider SET status = 'pending' WHERE provider_id = $1`, a.ID)
	wantRefused(t, s, "a last cause that ends without its status",
		`UPDATE provider_suspension SET since = NULL, revision = 6 WHERE provider_id = $1`, a.ID)
	wantRefused(t, s, "an older word",
		`UPDATE provider_suspension SET since = NULL, revision = 4 WHERE provider_id = $1`, a.ID)
	wantRefused(t, s, "the same word", `UPDATE provider_suspension SET since = NULL WHERE provider_id = $1`, a.ID)
	wantRefused(t, s, "an operator's with a revision", addCause, a.ID, "admin", 1)
	wantRefused(t, s, "settlement's without one", addCause, a.ID, "card", 0)
	wantRefused(t, s, "no cause", addCause, a.ID, "whim", 1)
	forbidden(t, s, "a cause is forgotten", `DELETE FROM provider_suspension WHERE provider_id = $1`, a.ID)
	forbidden(t, s, "a cause moves", `UPDATE provider_suspension SET cause = 'card' WHERE provider_id = $1`, a.ID)
}

// The version before knows nothing of causes.
func TestAStatusThatIsWrittenAloneIsAnOperatorsWord(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	const to = `UPDATE provider SET status = $2 WHERE provider_id = $1`
	for range 2 {
		s.mustExec(t, to, a.ID, "suspended")
		got := getAccount(t, s, a.ID)
		if hold := got.Suspensions.Hold(); !slices.Equal(hold, []provider.Cause{provider.CauseAdmin}) {
			t.Errorf("suspended: causes: got %v, want admin alone", hold)
		}
		s.mustExec(t, to, a.ID, "pending")
		got = getAccount(t, s, a.ID)
		if hold := got.Suspensions.Hold(); len(hold) != 0 {
			t.Errorf("lifted: causes: got %v, want none", hold)
		}
	}
	s.mustExec(t, to, a.ID, "suspended")
	if _, err := d.Expel(t.Context(), a.ID, verdictID(t, 1), ""); err != nil {
		t.Fatal(err)
	}
	s.mustExec(t, to, a.ID, "under_review")
}

// TestACauseWaitsForTheStatusThatItFollows has one transaction end the last cause and the
// suspension, and another one begin a cause meanwhile.
func TestACauseWaitsForTheStatusThatItFollows(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Suspended, ""); err != nil {
		t.Fatal(err)
	}
	lifted, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lifted.Exec(t.Context(), `UPDATE provider SET status = 'pending' WHERE provider_id = $1`,
		a.ID); err != nil {
		t.Fatal(err)
	}
	began := make(chan error, 1)
	go func() {
		_, err := s.pool.Exec(t.Context(), addCause, a.ID, "card", 1)
		began <- err
	}()
	owner := pgtest.Owner(t, s.pool)
	for waiting := 0; waiting == 0 && len(began) == 0; {
		if err := owner.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity CROSS JOIN pg_sleep(0.02)
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := lifted.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-began; !refusedByCheck(err) {
		t.Errorf("a cause of a provider that is pending by now: got the error %v, want a check_violation", err)
	}
}

func TestTheMigrationOfCausesKnowsWhoWasSuspendedAndSinceWhenEarningsGo(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Schema, Role, before(t, "00007"))
	pool := pgtest.Open(t, url, Schema, Role)
	suspended, removed, paid, moved := ids.ProviderID{1}, ids.ProviderID{2}, ids.ProviderID{3}, ids.ProviderID{4}
	owner := pgtest.Owner(t, pool)
	for _, sql := range []string{
		`ALTER TABLE provider DISABLE TRIGGER USER`, // their functions have new texts
		fmt.Sprintf(`INSERT INTO provider (provider_id, name, status, region, created_at, beneficiary_address, beneficiary_at)
			VALUES ('%s', 'x', 'suspended', '', now(), NULL, NULL), ('%s', 'x', 'rejected', '', now(), NULL, NULL),
				('%s', 'x', 'pending', '', '2026-01-01', '%[5]s', NULL),
				('%[4]s', 'x', 'pending', '', '2026-01-01', '%[5]s', '2026-02-02')`,
			suspended, removed, paid, moved, someAddress),
		fmt.Sprintf(`INSERT INTO provider_expulsion (verdict_id, provider_id, from_status, reason, expelled_at)
			VALUES (gen_random_uuid(), '%s', 'suspended', '', now())`, removed),
		`ALTER TABLE provider ENABLE TRIGGER USER`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := pg.Migrate(t.Context(), url, Schema, Role, Migrations); err != nil {
		t.Fatal(err)
	}
	s := New(pool)
	for _, id := range []ids.ProviderID{suspended, removed} {
		a := getAccount(t, s, id)
		if hold := a.Suspensions.Hold(); !slices.Equal(hold, []provider.Cause{provider.CauseAdmin}) {
			t.Errorf("a provider that is %s: causes: got %v, want admin alone", a.Status, hold)
		}
	}
	d := provider.NewDirectory(s, provider.SecretsOf(apikey.Pepper{1}), site, clock.System, nil)
	if _, err := d.SetStatus(t.Context(), suspended, provider.Pending, ""); err != nil {
		t.Errorf("lifted: got the error %v, want none", err)
	}
	for id, want := range map[ids.ProviderID]provider.Payee{
		paid:  {Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), AtSignUp: true},
		moved: {Since: time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)},
	} {
		got := getAccount(t, s, id).Payee
		if !got.Since.Equal(want.Since) {
			t.Errorf("since: got %v, want %v", got.Since, want.Since)
		}
		if got.AtSignUp != want.AtSignUp {
			t.Errorf("at sign-up: got %t, want %t", got.AtSignUp, want.AtSignUp)
		}
	}
}
