package store

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/provider"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func setup(t *testing.T) (*Store, *provider.Directory) {
	t.Helper()
	s := New(pgtest.Pool(t, Schema, Role, Migrations))
	return s, provider.NewDirectory(s, apikey.Pepper{1}, site, clock.System, rand.Reader)
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
	if err != nil || again.ID != first.ID {
		t.Errorf("created again: %v, %v; want %v", again.ID, err, first.ID)
	}
	if _, err := d.Create(t.Context(), "Other", "eu", "k1"); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another account under the key: %v", err)
	}
	create(t, d, "Farm")
	page, err := d.List(t.Context(), 1, 1)
	if err != nil || page.Total != 2 || len(page.List) != 1 || page.List[0].ID != first.ID {
		t.Errorf("page = %+v, %v", page, err)
	}
	if got, err := d.Get(t.Context(), first.ID); err != nil || got.Name != "Farm" || got.Status != provider.Pending {
		t.Errorf("get = %+v, %v", got, err)
	}
}

func TestStatusMovesOnlyAlongTheTableAndIsAudited(t *testing.T) {
	t.Parallel()
	_, d := setup(t)
	a := create(t, d, "Farm")
	for _, to := range []provider.Status{provider.Active, provider.Active, provider.Suspended} {
		if got, err := d.SetStatus(t.Context(), a.ID, to, ""); err != nil || got.Status != to {
			t.Fatalf("to %s: %+v, %v", to, got, err)
		}
	}
	if _, err := d.SetStatus(t.Context(), a.ID, provider.Active, ""); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("from suspended to active: %v", err)
	}
	history, err := d.History(t.Context(), a.ID, 1, 10)
	var what []string
	for _, e := range history.List {
		what = append(what, e.What)
	}
	if want := "suspend qualify gpu_waived benchmark_confirmed collateral_confirmed"; err != nil ||
		strings.Join(what, " ") != want {
		t.Errorf("history %q, %v; want %q", what, err, want)
	}
	var unknown ids.ProviderID
	unknown[0] = 1
	if _, err := d.SetStatus(t.Context(), unknown, provider.Active, ""); !fault.Is(err, fault.ProviderNotFound) {
		t.Errorf("unknown provider: %v", err)
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
	if err != nil || one.ID != a.ID || one.KeyID != k.ID {
		t.Fatalf("authenticate = %+v, %v", one, err)
	}
	two, err := d.Authenticate(t.Context(), text)
	if err != nil || two.Epoch <= one.Epoch {
		t.Errorf("epoch %d after %d, %v", two.Epoch, one.Epoch, err)
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
			t.Errorf("authenticate %q: %v", bad, err)
		}
	}
	for range 2 {
		if err := d.RevokeKey(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Authenticate(t.Context(), text); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("a revoked key: %v", err)
	}
	standing, err := d.Standings(t.Context(), []ids.KeyID{k.ID}, nil)
	if err != nil || len(standing) != 1 || !standing[0].Revoked || standing[0].Status != provider.Pending {
		t.Errorf("standings = %+v, %v", standing, err)
	}
	var none ids.KeyID
	none[3] = 9
	if err := d.RevokeKey(t.Context(), none); !fault.Is(err, fault.KeyNotFound) {
		t.Errorf("revoke an unknown key: %v", err)
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
		t.Errorf("a suspended provider: %v", err)
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
			if err != nil || seen[c.Epoch] {
				t.Errorf("epoch %d, %v", c.Epoch, err)
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
		`UPDATE provider_key SET key_hash = ''`, `UPDATE provider_status_change SET reason = 'x'`,
		`DELETE FROM provider_status_change`,
		`INSERT INTO provider_transition VALUES ('rejected', 'active')`, `UPDATE presence_interval SET started = now()`,
		`UPDATE wallet_nonce SET expires_at = now()`, `UPDATE provider_status_change SET new_address = 'x'`,
		`UPDATE provider_status_change SET key_id = NULL`,
	} {
		var denied *pgconn.PgError
		if _, err := s.pool.Exec(t.Context(), sql); !errors.As(err, &denied) || denied.Code != "42501" {
			t.Errorf("%s: %v, want permission denied", sql, err)
		}
	}
}
