package store

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func setup(t *testing.T) (*Store, *provider.Directory) {
	t.Helper()
	s := New(pgtest.Pool(t, Schema, Role, Migrations))
	return s, provider.NewDirectory(s, provider.SecretsOf(apikey.Pepper{1}), site, clock.System, rand.Reader)
}

var site = provider.Site{Domain: "svc.test", URI: "wss://svc.test/ws", ChainID: 8453}

func idsOf(a provider.Account) []ids.ProviderID { return []ids.ProviderID{a.ID} }

func create(t *testing.T, d *provider.Directory, name string) provider.Account {
	t.Helper()
	a, err := d.Create(t.Context(), name, "eu", "")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCreateWithTheSameIdempotencyKeyIsOneAccount(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	first, err := d.Create(t.Context(), "Farm", "eu", "k1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Create(t.Context(), "Farm", "eu", "k1")
	if err != nil {
		t.Errorf("created again: got the error %v, want none", err)
	} else if again.ID != first.ID {
		t.Errorf("created again: again.ID: got %v, want %v", again.ID, first.ID)
	}
	if _, err := d.Create(t.Context(), "Other", "eu", "k1"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another account under the key: got the error %v, want the reason %v", err, fault.IdempotencyKeyReused)
	}
	create(t, d, "Farm")
	page, err := d.List(t.Context(), 1, 1)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case page.Total != 2:
		t.Errorf("page.Total: got %d, want 2", page.Total)
	case len(page.List) != 1:
		t.Errorf("len(page.List): got %d, want 1, in %+v", len(page.List), page)
	case page.List[0].ID != first.ID:
		t.Errorf("page.List[0].ID: got %v, want %v", page.List[0].ID, first.ID)
	}
	switch got, err := d.Get(t.Context(), first.ID); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.Name != "Farm":
		t.Errorf(`get: Name: got %q, want "Farm"`, got.Name)
	case got.Status != provider.Pending:
		t.Errorf("get: Status: got %q, want %q", got.Status, provider.Pending)
	}
}

func TestStatusMovesOnlyAlongTheTableAndIsAudited(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	a := create(t, d, "Farm")
	providertest.Activate(t, d, a.ID, time.Now())
	for _, to := range []provider.Status{provider.Active, provider.Suspended} {
		if got, err := d.SetStatus(t.Context(), a.ID, to, ""); err != nil {
			t.Fatalf("to %s: got the error %v, want none", to, err)
		} else if got.Status != to {
			t.Fatalf("to %s: Status: got %q, want %q", to, got.Status, to)
		}
	}
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Active, ""); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("from suspended to active: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	history, err := d.History(t.Context(), a.ID, 1, 10)
	var what []string
	for _, e := range history.List {
		what = append(what, e.What)
	}
	if want := "suspend qualify benchmark_confirmed gpu_waived collateral_confirmed"; err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if strings.Join(what, " ") != want {
		t.Errorf(`history: strings.Join(what, " "): got %q, want %q`, strings.Join(what, " "), want)
	}
	var unknown ids.ProviderID
	unknown[0] = 1
	if _, err := d.SetStatus(t.Context(), unknown, provider.Active, ""); !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("unknown provider: got the error %v, want the reason %v", err, fault.ProviderNotFound)
	}
}

func TestKeyIsKnownUntilRevokedAndEachLookUpHasANewerEpoch(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	a := create(t, d, "Farm")
	k, text, err := d.IssueKey(t.Context(), a.ID, "first")
	if err != nil {
		t.Fatal(err)
	}
	one, err := d.Authenticate(t.Context(), text)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case one.ID != a.ID:
		t.Fatalf("authenticate: one.ID: got %v, want %v", one.ID, a.ID)
	case one.KeyID != k.ID:
		t.Fatalf("authenticate: one.KeyID: got %v, want %v", one.KeyID, k.ID)
	}
	two, err := d.Authenticate(t.Context(), text)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if two.Epoch <= one.Epoch {
		t.Errorf("epoch: got %d, want more than %d", two.Epoch, one.Epoch)
	}
	other, err := apikey.Generate(apikey.Provider, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := apikey.Generate(apikey.Consumer, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{other, consumer, "", "sk-prov-'; DROP TABLE provider; --"} {
		if _, err := d.Authenticate(t.Context(), bad); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("authenticate %q: got the error %v, want the reason %v", bad, err, fault.InvalidAPIKey)
		}
	}
	for range 2 {
		if err := d.RevokeKey(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Authenticate(t.Context(), text); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("a revoked key: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	standing, err := d.Standings(t.Context(), []ids.KeyID{k.ID}, nil)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(standing) != 1:
		t.Errorf("standings: len(standing): got %d, want 1, in %+v", len(standing), standing)
	case !standing[0].Revoked:
		t.Error("standings: standing[0].Revoked: got false, want true")
	case standing[0].Status != provider.Pending:
		t.Errorf("standings: standing[0].Status: got %q, want %q", standing[0].Status, provider.Pending)
	}
	var none ids.KeyID
	none[3] = 9
	if err := d.RevokeKey(t.Context(), none); !fault.Is(err, fault.KeyNotFound) {
		t.Errorf("revoke an unknown key: got the error %v, want the reason %v", err, fault.KeyNotFound)
	}
}

func TestSuspendedProviderDoesNotAuthenticate(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	a := create(t, d, "Farm")
	_, text, err := d.IssueKey(t.Context(), a.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Suspended, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Authenticate(t.Context(), text); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("a suspended provider: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
}

func TestConcurrentLookUpsNeverShareAnEpoch(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	_, text, err := d.IssueKey(t.Context(), create(t, d, "Farm").ID, "")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[int64]bool{}
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			c, err := d.Authenticate(t.Context(), text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("epoch %d: got the error %v, want none", c.Epoch, err)
			} else if seen[c.Epoch] {
				t.Errorf("epoch %d: seen[c.Epoch]: got true, want false", c.Epoch)
			}
			seen[c.Epoch] = true
		})
	}
	group.Wait()
}

func TestTheRoleCannotRewriteHistory(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	create(t, d, "Farm")
	for _, sql := range []string{
		`DELETE FROM provider`, `UPDATE provider SET created_at = now()`, `UPDATE provider SET user_id = NULL`,
		`UPDATE provider_key SET key_prefix = ''`, `UPDATE provider_status_change SET reason = 'x'`,
		`DELETE FROM provider_status_change`,
		`INSERT INTO provider_transition VALUES ('rejected', 'active')`, `UPDATE presence_interval SET started = now()`,
		`UPDATE wallet_nonce SET expires_at = now()`, `UPDATE provider_status_change SET new_address = 'x'`,
		`UPDATE provider_status_change SET key_id = NULL`, `DELETE FROM provider_expulsion`,
		`UPDATE provider_expulsion SET provider_id = NULL`, `UPDATE provider SET first_active_at = NULL`,
	} {
		var denied *pgconn.PgError
		if _, err := s.pool.Exec(t.Context(), sql); !errors.As(err, &denied) {
			t.Errorf("%s: got the error %v, want a %T", sql, err, denied)
		} else if denied.Code != "42501" {
			t.Errorf(`%s: denied.Code: got %q, want "42501"`, sql, denied.Code)
		}
	}
}
