package store

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/external"
)

func TestTheMigrationOfOriginsGivesEachServerToTheFirstProviderThatServesFromIt(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Schema, Role, before(t, "00014"))
	pool := pgtest.Open(t, url, Schema, Role)
	for _, sql := range []string{
		`INSERT INTO provider (provider_id, name, status, region, created_at)
			SELECT ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'Farm', 'pending', '', now()
			FROM generate_series(1, 3) n`,
		`INSERT INTO external_endpoint (endpoint_id, provider_id, place, name, base_url, state, created_at, updated_at,
			disabled_at, disabled_reason)
			SELECT gen_random_uuid(), ('01890000-0000-7000-8000-00000000000' || n)::uuid, 1, 'Rack',
				'https://api.example.org:8443/v' || n, 'healthy', now() - make_interval(hours => n), now(),
				CASE n WHEN 3 THEN now() END, CASE n WHEN 3 THEN 'seen' ELSE '' END
			FROM generate_series(1, 3) n`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := pg.Migrate(t.Context(), url, Schema, Role, Migrations); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), `SELECT right(provider_id::text, 1) || ' ' || origin || ' ' ||
		CASE WHEN disabled_at IS NOT NULL THEN 'disabled: ' || disabled_reason WHEN held_since IS NOT NULL THEN 'held'
			ELSE 'waits' END FROM external_origin ORDER BY provider_id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	const origin = " https://api.example.org:8443 "
	want := []string{"1" + origin + "waits", "2" + origin + "held", "3" + origin + "disabled: seen"}
	if !slices.Equal(got, want) {
		t.Errorf("claims: got %q, want %q", got, want)
	}
}

// What an operator disabled stays so, and keys still open, because the base URL stays as it is.
func TestTheMigrationOfAddressesMakesOneOriginOfTheirForms(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Schema, Role, before(t, "00016"))
	pool := pgtest.Owner(t, pgtest.Open(t, url, Schema, Role))
	for _, sql := range []string{
		`ALTER TABLE external_endpoint DISABLE TRIGGER external_origin_claimed`,
		`INSERT INTO provider (provider_id, name, status, region, created_at)
			SELECT ('01890000-0000-7000-8000-00000000000' || n)::uuid, 'Farm', 'pending', '', now()
			FROM generate_series(1, 3) n`,
		`INSERT INTO external_origin (origin, provider_id, held_since, disabled_at, disabled_reason)
			SELECT origin, ('01890000-0000-7000-8000-00000000000' || n)::uuid, held, disabled, reason
			FROM (VALUES (1, 'https://[2606:4700::1111]', now(), NULL, ''),
				(2, 'https://[2606:4700:0:0:0:0:0:1111]', now(), NULL, ''),
				(3, 'https://[2606:4700:0:0:0:0:0:1111]', NULL, now(), 'seen')) v (n, origin, held, disabled, reason)`,
		`INSERT INTO external_endpoint (endpoint_id, provider_id, place, name, base_url, origin, state, created_at,
				updated_at, disabled_at, disabled_reason)
			SELECT gen_random_uuid(), provider_id, 1, 'Rack', origin || '/v1', origin, 'healthy', now(), now(),
				disabled_at, disabled_reason FROM external_origin`,
		`ALTER TABLE external_endpoint ENABLE TRIGGER external_origin_claimed`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := pg.Migrate(t.Context(), url, Schema, Role, Migrations); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), `SELECT right(provider_id::text, 1) || ' ' || origin || ' ' || base_url || ' ' ||
		e.state || CASE WHEN o.disabled_at IS NOT NULL THEN ' disabled: ' || o.disabled_reason
			WHEN held_since IS NOT NULL THEN ' held' ELSE '' END
		FROM external_origin o FULL JOIN external_endpoint e USING (origin, provider_id) ORDER BY provider_id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	const origin = " https://[2606:4700::1111] "
	const long = "https://[2606:4700:0:0:0:0:0:1111]/v1 "
	want := []string{"1" + origin + "https://[2606:4700::1111]/v1 healthy held", "2" + origin + long + "new",
		"3" + origin + long + "new disabled: seen"}
	if !slices.Equal(got, want) {
		t.Errorf("claims: got %q, want %q", got, want)
	}
}

// The platform is one of many customers of a vendor's server.
func TestAVendorAndAProviderServeFromOneServer(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := bigCo(t, s, d)
	other := create(t, d, "Farm")
	e := external.Endpoint{ID: ids.EndpointID{2}, Provider: other.ID, Name: "Rack", BaseURL: "https://big.test/v1",
		CreatedAt: time.Now(), UpdatedAt: time.Now(), Models: []external.Model{
			{ID: "acme/one", Local: "one", Capabilities: []string{"chat"}, Capacity: 1}}}
	if _, _, err := s.CreateEndpoint(t.Context(), e, "", external.Author{What: "endpoint_added"}); err != nil {
		t.Fatal(err)
	}
	list, _, err := s.Endpoints(t.Context(), ids.ProviderID{}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if want := e.Provider == a.ID; e.OriginShared != want {
			t.Errorf("endpoint of %v: shared: got %v, want %v", e.Provider, e.OriginShared, want)
		}
		f := external.Finding{State: external.Healthy, At: time.Now()}
		if err := s.Found(t.Context(), e.ID, e.Revision, f); err != nil {
			t.Errorf("a good probe of %v: got the error %v, want none", e.Provider, err)
		}
	}
	if len(list) != 2 {
		t.Errorf("endpoints: got %d, want 2", len(list))
	}
}
