package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/catalog/internal/entry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// rig is a store with one model, "old", that had two price versions.
type rig struct {
	store *Store
	app   *pgxpool.Pool
	owner *pgxpool.Pool
}

func setup(t *testing.T) *rig {
	t.Helper()
	app := pgtest.Pool(t, Schema, Role, Migrations)
	r := &rig{store: New(app), app: app, owner: pgtest.Owner(t, app)}
	for i, rates := range []money.Rates{{Input: 10, PayoutInput: 9}, {Input: 20, PayoutInput: 18}} {
		r.put(t, "old", rates, ids.PriceVersionID{byte(i + 1)})
	}
	return r
}

func (r *rig) put(t *testing.T, id string, rates money.Rates, version ids.PriceVersionID) entry.Model {
	t.Helper()
	return r.putDraft(t, entry.Draft{ID: id, ContextTokens: 8192, Capabilities: []string{"chat"}}, rates, version)
}

func (r *rig) putDraft(t *testing.T, draft entry.Draft, rates money.Rates, version ids.PriceVersionID) entry.Model {
	t.Helper()
	d, err := draft.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.store.Put(t.Context(), d.ID, noon, func(current *entry.Model) (entry.Model, error) {
		return d.Replace(current,
			rates, noon, version)
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatIsPutIsLoaded(t *testing.T) {
	r := setup(t)
	d, err := entry.Draft{ID: "a/b", Name: "Ünïcode", Slug: "s", Category: entry.Embedding, Kind: entry.Gateway,
		Tier:   entry.Premium,
		Active: true, ContextTokens: 512, MinVRAMGB: 80, Parameters: []string{"seed"}}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	rates := money.Rates{Input: money.MaxRate, Output: 3, PayoutInput: 1, PayoutOutput: 3}
	put, err := r.store.Put(t.Context(), d.ID, noon, func(*entry.Model) (entry.Model, error) {
		return d.Replace(nil, rates, noon,
			ids.PriceVersionID{9})
	})
	if err != nil {
		t.Fatal(err)
	}
	revision, models, changed, err := r.store.Load(t.Context(), -1)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case !changed:
		t.Fatal("changed: got false, want true")
	case len(models) != 2:
		t.Fatalf("len(models): got %d, want 2", len(models))
	case models[0].ID != "a/b":
		t.Fatalf(`models[0].ID: got %q, want "a/b"`, models[0].ID)
	case models[1].ID != "old":
		t.Fatalf(`models[1].ID: got %q, want "old"`, models[1].ID)
	}
	got := models[0]
	switch {
	case !got.Equal(put.Draft):
		t.Errorf("loaded: got %+v, want %+v", got, put.Draft)
	case got.Price != put.Price:
		t.Errorf("loaded: Price: got %+v, want %+v", got.Price, put.Price)
	case !got.CreatedAt.Equal(put.CreatedAt):
		t.Errorf("loaded: CreatedAt: got %v, want %v", got.CreatedAt, put.CreatedAt)
	case !got.DeprecatedAt.IsZero():
		t.Error("loaded: got.DeprecatedAt.IsZero(): got false, want true")
	}
	if models[1].Price.Rates.Input != 20 {
		t.Errorf("the price in force: got %d, want 20", models[1].Price.Rates.Input)
	}
	switch again, models, changed, err := r.store.Load(t.Context(), revision); {
	case err != nil:
		t.Errorf("the same revision again: got the error %v, want none", err)
	case changed:
		t.Error("the same revision again: changed: got true, want false")
	case models != nil:
		t.Errorf("the same revision again: models: got %+v, want nil", models)
	case again != revision:
		t.Errorf("the same revision again: got %d, want %d", again, revision)
	}
}

func TestAModelThatTurnsToAudioIsPricedPerMinuteAndAnnounced(t *testing.T) {
	r := setup(t)
	put := r.putDraft(t, entry.Draft{ID: "old", ContextTokens: 1, Category: entry.Audio,
		DeprecatedAt: noon.Add(entry.Notice)},
		money.Rates{Unit: money.AudioMinute, Input: money.AudioMinute.MaxRate(), PayoutInput: 5}, ids.PriceVersionID{8})
	_, models, _, err := r.store.Load(t.Context(), -1)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(models) != 1:
		t.Errorf("loaded: len(models): got %d, want 1, in %+v", len(models), models)
	case !models[0].Equal(put.Draft):
		t.Errorf("loaded: models[0]: got %+v, want %+v", models[0], put.Draft)
	case models[0].Price != put.Price:
		t.Errorf("loaded: models[0].Price: got %+v, want %+v", models[0].Price, put.Price)
	case put.Price.ID != (ids.PriceVersionID{8}):
		t.Errorf("put.Price.ID: got %v, want %v", put.Price.ID, ids.PriceVersionID{8})
	}
}

// TestTheDatabaseRefusesWhatTheCodeWouldNotDo speaks SQL as the application
// role, as an injected statement would.
func TestTheDatabaseRefusesWhatTheCodeWouldNotDo(t *testing.T) {
	r := setup(t)
	model := func(column, value string) string {
		values := map[string]string{"model_id": "'new'", "slug": "'new'", "name": "'new'", "category": "'llm'",
			"kind": "'open'", "tier": "'free'",
			"context_tokens": "10", "max_output_tokens": "10", "capabilities": "'{}'", "supported_parameters": "'{}'"}
		values[column] = value
		return fmt.Sprintf(`WITH m AS (INSERT INTO model (model_id, slug, name, category, kind, tier, active, context_tokens,
			max_output_tokens, capabilities, supported_parameters, created_at)
			VALUES (%s, %s, %s, %s, %s, %s, true, %s, %s, %s, %s, now()) RETURNING model_id)
			INSERT INTO price_version SELECT gen_random_uuid(), model_id, 0, 0, 0, 0, now(), NULL FROM m`,
			values["model_id"], values["slug"], values["name"], values["category"], values["kind"], values["tier"],
			values["context_tokens"], values["max_output_tokens"], values["capabilities"], values["supported_parameters"])
	}
	price := func(columns string, unit ...string) string {
		return fmt.Sprintf(`UPDATE price_version SET valid_to = valid_from + interval '1 day' WHERE valid_to IS NULL;
			INSERT INTO price_version SELECT gen_random_uuid(), model_id, %s, max(valid_to), NULL, '%s'
				FROM price_version GROUP BY model_id`,
			columns, append(unit, "per_1m_tokens")[0])
	}
	audit := func(values string) string {
		return "INSERT INTO operator_action (actor, action, model_id, detail) VALUES (" + values + ")"
	}
	imageModel := func(columns string) string {
		return `UPDATE model SET category = 'image'; ` + price(columns, "per_image")
	}
	audioModel := func(columns string) string {
		return `UPDATE model SET category = 'audio'; ` + price(columns, "per_minute")
	}
	if err := r.try(t, r.app, model("model_id", "'new'")); err != nil {
		t.Fatalf("an honest model: %v", err)
	}
	if err := r.try(t, r.app, price("2, 2, 1, 2")); err != nil {
		t.Fatalf("an honest price: %v", err)
	}
	for _, honest := range []string{
		price("1000000000000, 0, 1, 0"), imageModel("0, 1000000000000000, 0, 1"), audioModel("1000000000000000, 0, 1, 0"),
		"UPDATE model SET deprecated_at = now()", audit("'operator:alice@ops', 'put_model', 'old', '{}'"),
	} {
		if err := r.try(t, r.app, honest); err != nil {
			t.Errorf("%s: %v", honest, err)
		}
	}
	for _, statement := range []string{
		model("model_id", "''"), model("model_id", "'a//b'"), model("model_id", "'a/../b'"), model("model_id", "'a/./b'"),
		model("model_id", "'a/providers'"), model("model_id", "'a/files'"), model("model_id", "'catalog'"),
		model("model_id", "'a b'"), model("model_id", "E'a\\n'"), model("model_id", "repeat('x', 129)"),
		model("model_id", "'/a'"), model("model_id", "'old'"), model("slug", "'old'"), model("slug", "'a/b'"),
		model("slug", "'..'"),
		model("name", "''"), model("name", "E'a\\nb'"), model("name", "repeat('x', 129)"),
		model("category", "'video'"), model("kind", "''"), model("tier", "NULL"),
		model("context_tokens", "0"), model("context_tokens", "100000001"), model("max_output_tokens", "11"),
		model("max_output_tokens", "0"),
		model("capabilities", "'{Chat}'"), model("capabilities", "'{NULL}'"), model("capabilities", "NULL"),
		model("capabilities", "array_fill('x'::text, ARRAY[33])"), model("supported_parameters",
			"array_fill('x'::text, ARRAY[65])"),
		price("2, 0, 0, 0"), price("0, 2, 0, 0"), price("2, 2, 3, 2"), price("2, 2, 2, 3"), price("0, 0, 1, 0"),
		price("-1, 0, -1, 0"), price("1000000000001, 0, 1, 0"), price("NULL, 0, 0, 0"),
		// a second current price version
		"INSERT INTO price_version SELECT gen_random_uuid(), model_id, 0, 0, 0, 0, now(), NULL FROM model",
		"UPDATE price_version SET valid_to = valid_from WHERE valid_to IS NULL",
		"UPDATE price_version SET valid_to = valid_from + interval '1 day' WHERE valid_to IS NULL", // and no successor
		"UPDATE price_version SET valid_to = NULL", "UPDATE price_version SET input_pico_usd = 30, valid_to = now()",
		"DELETE FROM price_version", "DELETE FROM model", "TRUNCATE price_version", "TRUNCATE model CASCADE",
		"UPDATE model SET model_id = 'other'", "UPDATE model SET created_at = now()",
		"UPDATE model SET kind = CASE kind WHEN 'open' THEN 'gateway' ELSE 'open' END",
		model("category", "'image'"), model("category", "'audio'"), // priced per 1M tokens
		"UPDATE model SET category = 'image'", "UPDATE model SET category = 'audio'",
		price("0, 0, 0, 0", "per_image"), price("0, 0, 0, 0", "per_minute"), price("0, 0, 0, 0", "per_token"),
		price("0, 0, 0, 0", ""),
		imageModel("2, 2, 1, 1"), imageModel("2, 0, 1, 0"), imageModel("0, 1000000000000001, 0, 1"), imageModel("0, 2, 0, 0"),
		audioModel("2, 2, 1, 1"), audioModel("0, 2, 0, 1"), audioModel("1000000000000001, 0, 1, 0"),
		"UPDATE price_version SET valid_to = now(), pricing_unit = 'per_image' WHERE valid_to IS NULL",
		"UPDATE revision SET revision = 0", "DELETE FROM revision", "INSERT INTO revision VALUES (false, 0, 0, 0)",
		"ALTER TABLE price_version DISABLE TRIGGER ALL",
		audit("'alice', 'put_model', 'old', '{}'"), audit("'operator:<b>', 'put_model', 'old', '{}'"),
		audit("'operator', 'steal', 'old', '{}'"),
		audit("'operator', 'put_model', '', '{}'"), audit("'operator', 'put_model', 'old', '[]'"),
		audit("'operator', 'put_model', 'old', jsonb_build_object('x', repeat('x', 4096))"),
		"INSERT INTO operator_action (at, actor, action, model_id, detail) " +
			"VALUES (now(), 'operator', 'put_model', 'old', '{}')",
		"UPDATE operator_action SET actor = 'operator:eve'", "DELETE FROM operator_action", "TRUNCATE operator_action",
	} {
		if err := r.try(t, r.app, statement); err == nil {
			t.Errorf("the application role may: %s", statement)
		}
	}
}

func TestEvenTheOwnerCannotChangeAPriceVersionOrAnAuditEntry(t *testing.T) {
	r := setup(t)
	for _, statement := range []string{
		"UPDATE price_version SET input_pico_usd = 30, payout_input_pico_usd = 1",
		"UPDATE price_version SET payout_output_pico_usd = 0, valid_to = now() WHERE valid_to IS NULL",
		"UPDATE price_version SET valid_from = valid_from - interval '1 day'",
		"UPDATE price_version SET valid_to = valid_to + interval '1 day' WHERE valid_to IS NOT NULL",
		"UPDATE price_version SET valid_to = NULL WHERE valid_to IS NOT NULL",
		"UPDATE price_version SET model_id = 'old', price_version_id = gen_random_uuid()",
		"UPDATE model SET kind = CASE kind WHEN 'open' THEN 'gateway' ELSE 'open' END",
		"UPDATE price_version SET pricing_unit = 'per_minute'",
		"UPDATE price_version SET payout_cached_input_pico_usd = 1",
		"UPDATE operator_action SET at = now()", "DELETE FROM operator_action", "TRUNCATE operator_action",
		"DELETE FROM price_version WHERE valid_to IS NOT NULL", "DELETE FROM price_version", "TRUNCATE price_version",
		"DELETE FROM model",
		// over the others
		"INSERT INTO price_version SELECT gen_random_uuid(), 'old', 0, 0, 0, 0, '2020-01-01', '2030-01-01'",
		// of a model without a vendor
		"WITH over AS (UPDATE price_version SET valid_to = now() + interval '1 s' WHERE valid_to IS NULL) " +
			"INSERT INTO price_version SELECT gen_random_uuid(), 'old', 9, 9, 9, 9, now() + interval '1 s', NULL, " +
			"'per_1m_tokens', 1",
		// without a price
		"INSERT INTO model SELECT 'bare', 'bare', name, category, kind, tier, active, 1, 1, '{}', '{}', now(), NULL " +
			"FROM model",
	} {
		if err := r.try(t, r.owner, statement); err == nil {
			t.Errorf("the owner may: %s", statement)
		}
	}
}

// try runs one statement to the end of its transaction and takes it back if it
// passes all that is looked at before the commit.
func (r *rig) try(t *testing.T, pool *pgxpool.Pool, statement string) error {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), statement); err != nil {
		return err
	}
	_, err = tx.Exec(t.Context(), "SET CONSTRAINTS ALL IMMEDIATE")
	return err
}

func TestAFullCatalogRefusesOneMore(t *testing.T) {
	for name, statement := range map[string]string{
		"models": `INSERT INTO model SELECT 'm' || n, 'm' || n, 'm', 'llm', 'open', 'free', true, 1, 1, '{}', '{}',
				now(), NULL
			FROM generate_series(2, 10000) AS n`,
		"text": `INSERT INTO model SELECT 'm' || n, 'm' || n, 'm', 'llm', 'open', 'free', true, 1, 1, '{}',
				array_fill(repeat('x', 48), ARRAY[64]), now(), NULL
			FROM generate_series(1, 1923) AS n`,
	} {
		r := setup(t)
		prices := `INSERT INTO price_version SELECT gen_random_uuid(), model_id, 0, 0, 0, 0, now(), NULL ` +
			`FROM model WHERE model_id <> 'old'`
		if _, err := r.owner.Exec(t.Context(), "BEGIN; "+statement+"; "+prices+"; COMMIT"); err != nil {
			t.Fatalf("fill up with %s: %v", name, err)
		}
		d, err := entry.Draft{ID: "one/more", Name: strings.Repeat("ü", 128), ContextTokens: 1}.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		for range 64 {
			d.Parameters = append(d.Parameters, strings.Repeat("x", 48))
		}
		_, err = r.store.Put(t.Context(), d.ID, noon, func(*entry.Model) (entry.Model, error) {
			return d.Replace(nil, money.Rates{}, noon, ids.PriceVersionID{9})
		})
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("a catalog full of %s: got the error %v, want a fault", name, err)
		case f.Kind != fault.Exhausted:
			t.Errorf("a catalog full of %s: f.Kind: got %d, want %d", name, f.Kind, fault.Exhausted)
		case f.Reason != CatalogFull:
			t.Errorf("a catalog full of %s: f.Reason: got %q, want %q", name, f.Reason, CatalogFull)
		}
		r.put(t, "old", money.Rates{}, ids.PriceVersionID{8}) // models that stand can still be changed
	}
}

func TestListenersHearEveryChangeWhoeverMakesIt(t *testing.T) {
	r := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	heard := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() { ended <- r.store.Listen(ctx, func() { heard <- struct{}{} }) }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-ctx.Done():
			t.Fatalf("never heard of %s", what)
		}
	}
	wait("the beginning")
	r.put(t, "new", money.Rates{}, ids.PriceVersionID{7})
	wait("a model")
	r.put(t, "new", money.Rates{Input: 2, PayoutInput: 1}, ids.PriceVersionID{6})
	wait("a price")
	if _, err := r.owner.Exec(ctx, "UPDATE model SET deprecated_at = now() + interval '30 days'"); err != nil {
		t.Fatal(err)
	}
	wait("a change by hand")
	r.put(t, "new", money.Rates{Input: 2, PayoutInput: 1}, ids.PriceVersionID{5})
	if err := r.store.PutWeights(ctx, "new", files("a")); err != nil {
		t.Fatal(err)
	}
	wait("weights")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the listener ended: got the error %v, want %v", err, context.Canceled)
	}
	if len(heard) != 0 {
		t.Errorf("changes heard where there were none: got %d, want 0", len(heard))
	}
}
