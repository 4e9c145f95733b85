package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/provider/providertest"
	"svc.internal/services/provider-hub/internal/uptime"
)

var began = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// watched is a provider whose probation began with the hub that watches it.
func watched(t *testing.T) (*Store, *provider.Directory, *clock.Manual, provider.Account) {
	t.Helper()
	at := clock.NewManual(began)
	s := New(pgtest.Pool(t, Schema, Role, Migrations))
	d := provider.NewDirectory(s, provider.SecretsOf(apikey.Pepper{1}), site, at, rand.Reader)
	a := create(t, d, "Farm")
	a = providertest.Activate(t, d, a.ID, began)
	tell(t, s, at.Now(), 1)
	return s, d, at, a
}

// tell has a hub say that it is there.
func tell(t *testing.T, s *Store, at time.Time, incarnation int64, connections ...presence.Connection) {
	t.Helper()
	run := presence.Run{HubID: "hub-a", Incarnation: incarnation, Started: began}
	page := presence.Page{At: at, Connections: connections, Live: func() []int64 { return nil }}
	if err := s.Record(context.Background(), run, page); err != nil {
		t.Fatal(err)
	}
}

// churn keeps connections of a node that touch each other.
func churn(
	t *testing.T, s *Store, a provider.Account, node string, first, count int, from time.Time, each, gap time.Duration,
) {
	t.Helper()
	prepare(t, s, `
		INSERT INTO presence_interval (epoch, provider_id, node_id, hub_id, incarnation, started, ended, ended_by)
		SELECT $1 + n, $2, $3, 'hub-a', 1, $4::timestamptz + n * $6::interval,
			$4::timestamptz + n * $6::interval + $5::interval, 'provider'
		FROM generate_series(0, $7 - 1) n`, first, a.ID, node, from, each, each+gap, count)
}

// prepare is what a test needs of the tables, and may take longer than the service
// gives a statement.
func prepare(t *testing.T, s *Store, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReconnectingHidesNoAbsence(t *testing.T) {
	t.Parallel()
	for name, gap := range map[string]time.Duration{"apart": 40 * time.Millisecond, "touching": 0} {
		s, d, at, a := watched(t)
		at.Advance(provider.Probation)
		tell(t, s, at.Now(), 1)
		const count = 20_001
		churn(t, s, a, "node-0001", 1, count, began.Add(23*time.Hour+30*time.Minute), 89*time.Millisecond-gap, gap)
		if _, err := d.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := d.Detail(t.Context(), a.ID)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if got.Status != provider.Pending {
			t.Errorf("%s: away for 23.5 of 24 hours: got %q, want %q", name, got.Status, provider.Pending)
		}
		history, err := d.History(t.Context(), a.ID, 1, 2)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if history.List[0].What != string(provider.FailProbation) {
			t.Errorf("%s: history.List[0].What: got %q, want %q", name, history.List[0].What, string(provider.FailProbation))
		}
	}
}

func TestReconnectingCostsNothing(t *testing.T) {
	t.Parallel()
	s, d, at, a := watched(t)
	at.Advance(provider.Probation)
	tell(t, s, at.Now(), 1)
	const each = 720 * time.Millisecond // 120,000 in a day; the first 20,000 are not read
	churn(t, s, a, "node-0001", 1, 120_000, began, each, 0)
	got, err := d.Detail(t.Context(), a.ID)
	// Before the first that is read there was no hub, after which it has its grace.
	want := (20 * time.Hour).Seconds() / (24*time.Hour - uptime.Grace).Seconds()
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.Uptime24h == nil:
		t.Error("Uptime24h: got nil, want a value")
	case math.Abs(*got.Uptime24h-want) > 1e-6:
		t.Errorf("math.Abs(*got.Uptime24h-want): got %v, want at most 1e-6", math.Abs(*got.Uptime24h-want))
	}
	// With as many as are read, nothing is lost.
	prepare(t, s, `DELETE FROM presence_interval`)
	churn(t, s, a, "node-0001", 1, maxConnections, began, provider.Probation/maxConnections, 0)
	switch got, err = d.Detail(t.Context(), a.ID); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.Uptime24h == nil:
		t.Error("Uptime24h: got nil, want a value")
	case *got.Uptime24h != 1:
		t.Errorf("up: got %v, want 1", *got.Uptime24h)
	}
	read, err := s.Presences(t.Context(), idsOf(a), began, at.Now())
	switch p := read[a.ID]; {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(p.Connections) != 1:
		t.Errorf("len(p.Connections): got %d, want 1", len(p.Connections))
	case !p.First.Equal(began):
		t.Errorf("p.First: got %v, want %v", p.First, began)
	}
}

func TestWhatIsReadOfAProviderIsBoundedToTheLongest(t *testing.T) {
	t.Parallel()
	s, _, at, a := watched(t)
	at.Advance(provider.Probation)
	tell(t, s, at.Now(), 1)
	churn(t, s, a, "node-0001", 1, maxSpans, began.Add(time.Hour), time.Second, time.Second)
	churn(t, s, a, "node-0002", 50_000, 1, began, time.Hour, 0)
	read, err := s.Presences(t.Context(), idsOf(a), began, at.Now())
	p := read[a.ID]
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(p.Connections) != maxSpans:
		t.Errorf("len(p.Connections): got %d, want %d", len(p.Connections), maxSpans)
	case p.Connections[0].Node != "node-0002":
		t.Errorf(`p.Connections[0].Node: got %q, want "node-0002"`, p.Connections[0].Node)
	case !p.First.Equal(began):
		t.Errorf("p.First: got %v, want %v", p.First, began)
	}
}

func TestOnlyAnEndThatTheNodeFeltIsExcused(t *testing.T) {
	t.Parallel()
	s, _, at, a := watched(t)
	connection := func(epoch int64, node string, from, to time.Duration, by presence.EndedBy) presence.Connection {
		return presence.Connection{Epoch: epoch, Provider: a.ID, Node: node, Started: began.Add(from), Ended: began.Add(to),
			EndedBy: by}
	}
	at.Advance(time.Hour)
	tell(t, s, at.Now(), 1,
		connection(1, "node-0001", 0, 10*time.Minute, presence.ByPlatform),
		connection(2, "node-0001", 9*time.Minute, 20*time.Minute, presence.ByProvider),
		connection(3, "node-0001", 30*time.Minute, 40*time.Minute, presence.ByPlatform),
		connection(4, "node-0002", 40*time.Minute, 50*time.Minute, presence.ByProvider),
	)
	read, err := s.Presences(t.Context(), idsOf(a), began, at.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, c := range read[a.ID].Connections {
		got[fmt.Sprintf("%s %v-%v", c.Node, c.From.Sub(began), c.To.Sub(began))] = c.Excused
	}
	want := map[string]bool{"node-0001 0s-20m0s": false, "node-0001 30m0s-40m0s": true, "node-0002 40m0s-50m0s": false}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestHubsWhoseClocksDifferDeclareNobodyDead(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, Schema, Role, Migrations)
	s := New(pool)
	behind, ahead := clock.NewManual(began), clock.NewManual(began.Add(40*time.Second))
	of := func(c clock.Clock) *provider.Directory {
		return provider.NewDirectory(s, provider.SecretsOf(apikey.Pepper{1}), site, c, rand.Reader)
	}
	a := create(t, of(behind), "Farm")
	run := presence.Run{HubID: "hub-a", Incarnation: 1, Started: began}
	page := presence.Page{
		At: behind.Now(),
		Nodes: []presence.Seen{{Machine: presence.Machine{Provider: a.ID, Node: "node-0001"}, Dialect: "v2",
			LastSeen: behind.Now()}},
		Connections: []presence.Connection{{Epoch: 1, Provider: a.ID, Node: "node-0001", Started: behind.Now()}},
		Live:        func() []int64 { return []int64{1} },
	}
	for range 3 {
		if err := s.Record(t.Context(), run, page); err != nil {
			t.Fatal(err)
		}
		if _, err := of(ahead).Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var standing int
		if err := pool.QueryRow(t.Context(), `
			SELECT count(*) FROM presence_interval i JOIN hub_run r USING (hub_id, incarnation)
			WHERE i.ended IS NULL AND r.ended IS NULL`).Scan(&standing); err != nil || standing != 1 {
			t.Fatalf("a hub whose clock is behind was declared dead: %d, %v", standing, err)
		}
		d, err := of(ahead).Detail(t.Context(), a.ID)
		online, more := of(ahead).Online(t.Context(), idsOf(a))
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case more != nil:
			t.Errorf("more: got the error %v, want none", more)
		case !d.Online:
			t.Error("d.Online: got false, want true")
		case !d.Nodes[0].Online:
			t.Error("d.Nodes[0].Online: got false, want true")
		case !online[a.ID]:
			t.Error("online[a.ID]: got false, want true")
		case d.Uptime24h != nil && *d.Uptime24h != 1:
			t.Errorf("*d.Uptime24h: got %v, want 1", *d.Uptime24h)
		}
		behind.Advance(10 * time.Second)
		ahead.Advance(10 * time.Second)
		page.At, page.Nodes, page.Connections = behind.Now(), nil, nil
	}
	// Silence by the database's clock is what counts.
	if _, err := pool.Exec(t.Context(), `UPDATE hub_run SET heard = heard - $1::interval`,
		provider.HubSilence+time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := of(behind).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var end time.Time
	if err := pool.QueryRow(t.Context(), `SELECT ended FROM presence_interval`).Scan(&end); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !end.Equal(began.Add(20 * time.Second)) {
		t.Errorf("ended at: got %v, want %v", end, began.Add(20*time.Second))
	}
}

func TestMachinesThatAreConnectedStayBeforeThoseSeenLately(t *testing.T) {
	t.Parallel()
	s, _, at, a := watched(t)
	seen := func(node string) presence.Seen {
		return presence.Seen{Machine: presence.Machine{Provider: a.ID, Node: node}, Dialect: "v2", LastSeen: at.Now()}
	}
	write := func(page presence.Page) {
		t.Helper()
		page.At, page.Live = at.Now(), func() []int64 { return nil }
		if err := s.Record(t.Context(), presence.Run{HubID: "hub-a", Incarnation: 1, Started: began}, page); err != nil {
			t.Fatal(err)
		}
	}
	write(presence.Page{
		Nodes:       []presence.Seen{seen("steady")},
		Connections: []presence.Connection{{Epoch: 1, Provider: a.ID, Node: "steady", Started: at.Now()}},
	})
	at.Advance(time.Hour)
	var page presence.Page
	for n := range 200 {
		page.Nodes = append(page.Nodes, seen(fmt.Sprintf("passing-%03d", n)))
	}
	write(page)
	var kept int
	var steady bool
	err := s.pool.QueryRow(t.Context(), `SELECT count(*), bool_or(node_id = 'steady') FROM provider_node`).Scan(&kept,
		&steady)
	switch {
	case err != nil:
		t.Errorf("%d machines kept, the connected one among them: %v: got the error %v, want none", kept, steady, err)
	case kept != maxNodes:
		t.Errorf("%d machines kept, the connected one among them: %v, %v: kept: got %d, want %d", kept, steady, err, kept,
			maxNodes)
	case !steady:
		t.Errorf("%d machines kept, the connected one among them: %v, %v: steady: got false, want true", kept, steady, err)
	}
}

func TestMuchToForgetIsForgottenInBatches(t *testing.T) {
	t.Parallel()
	s, d, at, a := watched(t)
	churn(t, s, a, "node-0001", 1, 2*forgetBatch+1, began, time.Second, 0)
	at.Advance(provider.PresenceKept + 4*time.Hour)
	if _, err := d.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM presence_interval`).Scan(&left); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if left != 0 {
		t.Errorf("left: got %d, want 0", left)
	}
	// One call has a bound.
	churn(t, s, a, "node-0001", 1, forgetBatch*forgetRounds+1, began, time.Second, 0)
	if err := s.Forget(t.Context(), began.Add(90*24*time.Hour), began, began); err != nil {
		t.Fatal(err)
	}
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM presence_interval`).Scan(&left); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if left != 1 {
		t.Errorf("left: got %d, want 1", left)
	}
}

func TestAStatusShowsWhatWasMeasuredAndMeasuresOnlyWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	s, d, at, a := watched(t)
	churn(t, s, a, "node-0001", 1, 1, began, time.Hour, 0)
	at.Advance(time.Hour)
	tell(t, s, at.Now(), 1)
	switch got, err := d.Detail(t.Context(), a.ID); {
	case err != nil:
		t.Errorf("not measured yet: got the error %v, want none", err)
	case got.Uptime30d == nil:
		t.Error("not measured yet: Uptime30d: got nil, want a value")
	case *got.Uptime30d != 1:
		t.Errorf("not measured yet: *got.Uptime30d: got %v, want 1", *got.Uptime30d)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE provider SET uptime_24h = 0.25, uptime_30d = 0.5`); err != nil {
		t.Fatal(err)
	}
	switch got, err := d.Detail(t.Context(), a.ID); {
	case err != nil:
		t.Errorf("measured: got the error %v, want none", err)
	case *got.Uptime24h != 0.25:
		t.Errorf("measured: *got.Uptime24h: got %v, want 0.25", *got.Uptime24h)
	case *got.Uptime30d != 0.5:
		t.Errorf("measured: *got.Uptime30d: got %v, want 0.5", *got.Uptime30d)
	}
}

// Machines of other hubs count, those of a hub that is silent do not, a machine with two
// connections is one, and an external endpoint is none.
func TestStandingsCountTheMachinesThatAreConnected(t *testing.T) {
	t.Parallel()
	s, d, at, a := watched(t)
	k, _, err := d.IssueKey(t.Context(), a.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	connected := func(hub string, epochs map[int64]string) {
		t.Helper()
		page := presence.Page{At: at.Now(), Live: func() []int64 { return nil }}
		for epoch, node := range epochs {
			page.Connections = append(page.Connections,
				presence.Connection{Epoch: epoch, Provider: a.ID, Node: node, Started: at.Now()})
		}
		if err := s.Record(t.Context(), presence.Run{HubID: hub, Incarnation: 1, Started: began}, page); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, machines int) {
		t.Helper()
		for name, list := range map[string]struct {
			keys      []ids.KeyID
			providers []ids.ProviderID
		}{"a key": {keys: []ids.KeyID{k.ID}}, "a wallet": {providers: []ids.ProviderID{a.ID}}} {
			got, err := s.Standings(t.Context(), list.keys, list.providers, at.Now())
			if err != nil {
				t.Fatalf("%s, by %s: got the error %v, want none", what, name, err)
			}
			if len(got) != 1 {
				t.Fatalf("%s, by %s: got %d, want 1", what, name, len(got))
			}
			if got[0].Machines != machines {
				t.Errorf("%s, by %s: machines: got %d, want %d", what, name, got[0].Machines, machines)
			}
		}
	}
	e, _, err := s.CreateEndpoint(t.Context(), external.Endpoint{ID: external.ID{1}, Provider: a.ID, Name: "Rack",
		BaseURL: "https://api.example.org", CreatedAt: began, UpdatedAt: began,
		Models: []external.Model{{ID: "acme/one", Local: "one", Capabilities: []string{"chat"}, Capacity: 1}},
	}, "", external.Author{What: "endpoint_added"})
	if err != nil {
		t.Fatal(err)
	}
	want("nothing is connected", 0)
	connected("hub-a", map[int64]string{1: "one", 2: "one", 4: "external-" + e.ID.String()})
	want("one machine", 1)
	connected("hub-b", map[int64]string{3: "two"})
	want("another on another hub", 2)
	prepare(t, s, `UPDATE hub_run SET heard = heard - interval '31 s' WHERE hub_id = 'hub-b'`)
	want("that hub is silent", 1)
}
