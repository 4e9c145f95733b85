//go:build watch

package watch

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg/devclock"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/intruder"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/store"
	"svc.internal/services/proving/internal/trial"
)

// earning is a fleet with a provider that earns, which a Prometheus watches. The time of the fleet's database can be
// moved.
type earning struct {
	*trial.Town
	*server
	peers peers.Services
	db    *pgx.Conn
	owner *trial.Owner
	// payg and plan are keys of consumers who pay so.
	payg, plan string
	// asked is how many requests were made.
	asked int
}

// earners are the alerts of this file.
var earners = []string{"EarningLinesDiffer", "EarningLinesFilled", "EarningLinesHeldOut", "PenaltiesOverdue",
	"BatchesBehind", "ProvidersBlocked", "SharesUnposted", "PlanMonthWaiting", "RefundsWaiting", "ConversionsStuck"}

// soon has days sealed at once and batched sooner than lines are filled in, which no day waits for.
func soon(c *fleet.Config) {
	c.Clock, c.FsyncOff = true, true
	for _, service := range fleet.Services() {
		c.Replicas[service] = 1
	}
	c.Settings = map[string]map[string]any{
		fleet.Billing: {"billing": map[string]any{"seal_interval": "500ms"}},
		fleet.Settlement: {"settlement": map[string]any{"reconcile_interval": "4s", "fill_after": "4s",
			"batch":      map[string]any{"interval": "500ms", "patience": "0s"},
			"payouts":    map[string]any{"recheck_interval": "1s"},
			"collateral": map[string]any{"card": true}}},
	}
}

func newEarning(t *testing.T) *earning {
	t.Helper()
	m := trial.StartFleet(t, soon)
	e := &earning{Town: &trial.Town{Market: m, DatabaseURL: m.Fleet().DatabaseURL()},
		peers: peers.Services{Fleet: m.Fleet()}, server: startPrometheus(t, m.Fleet())}
	var err error
	if e.db, err = pgx.Connect(t.Context(), e.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.db.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	e.owner = e.NewOwner(t, "ann", 0xa1)
	e.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+e.owner.ID+"/qualification",
		`{"collateral":true,"gpu_waived":true,"reason":"test"}`)
	e.owner.Serve(t)
	var account string
	account, e.payg = e.Consumer(t, "10000")
	e.Unlimit(t, account)
	account, e.plan = e.Consumer(t, "")
	e.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/plan", `{"plan":"pro"}`)
	return e
}

// earn makes requests with keys, and waits until the ledger has settled them.
func (e *earning) earn(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		e.Wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, key, trial.Chat(trial.Dear, ""))
		e.asked++
	}
	e.until(t, "the requests are settled", `count(*) = $1 FROM billing.usage_settlement`, e.asked)
}

// until waits until an expression of SQL is true.
func (e *earning) until(t *testing.T, what, expression string, args ...any) {
	t.Helper()
	trial.Until(t, what, func() (so bool) {
		if err := e.db.QueryRow(t.Context(), `SELECT `+expression, args...).Scan(&so); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return so
	})
}

// now is the database's time.
func (e *earning) now(t *testing.T) (now time.Time) {
	t.Helper()
	if err := e.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now.UTC()
}

// nextDay ends the day.
func (e *earning) nextDay(t *testing.T) {
	t.Helper()
	e.Pass(t, devclock.NextDay(e.now(t)))
}

// batched waits until the day before the database's is batched, and all of it posted.
func (e *earning) batched(t *testing.T) {
	t.Helper()
	e.until(t, "the days before are batched", `EXISTS (
		SELECT FROM settlement.batch_day WHERE committed_at IS NOT NULL AND day = (now() AT TIME ZONE 'UTC')::date - 1)
		AND NOT EXISTS (SELECT FROM settlement.batch_share WHERE posted IS NULL)`)
}

// locked keeps a table from being written until the returned function is called, as somebody does who locks it to
// copy it and goes home.
func (e *earning) locked(t *testing.T, table string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), e.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE `+table+` IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// TestAlertsOfEarningsFireByTheirFaults brings the faults about in one fleet, one after the other: the time of its
// database only goes on.
func TestAlertsOfEarningsFireByTheirFaults(t *testing.T) {
	e := newEarning(t)
	trial.Until(t, "settlement has measured", func() bool {
		return len(e.query(t, `svc_settlement_differences_persistent == 0 and svc_settlement_batch_days_behind == 0`)) > 0
	})
	for _, alert := range earners {
		e.quiet(t, alert)
	}
	for _, f := range []struct {
		name  string
		bring func(*earning, *testing.T)
	}{
		{"the ledger is away when the first day ends", (*earning).firstDayEnds},
		{"a hub makes a request up", (*earning).makesUp},
		{"usage is lost when a month ends", (*earning).losesUsage},
		{"the ledger takes nothing for days, and no penalty can be written", (*earning).standsStill},
		{"a payment by card is too old to be given back", (*earning).refundsLate},
	} {
		if !t.Run(f.name, func(t *testing.T) { f.bring(e, t) }) {
			t.FailNow() // what follows builds on it
		}
	}
}

func (e *earning) firstDayEnds(t *testing.T) {
	e.earn(t, e.payg, e.payg, e.plan)
	e.until(t, "settlement has the lines", `count(*) = $1 FROM settlement.earning_line`, e.asked)
	if _, err := e.peers.PayByCard(t.Context(), e.owner.ID, "card", 4_000); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the payment stands behind the provider", `count(*) = 1 FROM settlement.card_collateral`)
	again := kill(t, e.Market, fleet.Billing)
	e.nextDay(t)
	e.fires(t, "BatchesBehind", `,severity="page"`)
	again()
	e.batched(t)
	e.quiet(t, "BatchesBehind")
}

// makesUp has a hub tell of a request of yesterday that nobody made. The day is over, so no usage of it is under way.
func (e *earning) makesUp(t *testing.T) {
	f := e.Fleet()
	name := f.Replicas(fleet.Hub)[0]
	hub := fleet.HubID(name)
	reader, err := intruder.As(f, fleet.Settlement)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	heard, err := reader.Overhear(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	usage := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(heard.Raw, usage); err != nil {
		t.Fatal(err)
	}
	id, err := ids.NewRequest(time.Now().AddDate(0, 0, -1), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	usage.RequestId, usage.Seal, usage.LedgerMac = id.String(), nil, nil
	text, err := proto.Marshal(usage)
	if err != nil {
		t.Fatal(err)
	}
	e.publish(t, name, text)
	e.fires(t, "EarningLinesDiffer", `,severity="page"`)
	e.fires(t, "EarningLinesHeldOut", `,severity="ticket"`)
	e.quiet(t, "EarningLinesDiffer")
}

// publish publishes usage as a hub, under the hub's own key.
func (e *earning) publish(t *testing.T, hub string, usage []byte) {
	t.Helper()
	books, err := store.Open(t.Context(), e.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	key, err := books.UsageKey(t.Context(), fleet.HubID(hub))
	if err != nil {
		t.Fatal(err)
	}
	client, err := intruder.As(e.Fleet(), hub)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Store(t.Context(), bus.SubjectUsage(fleet.HubID(hub)), rand.Text(), key.Seal(usage))
	if err != nil {
		t.Fatal(err)
	}
}

// losesUsage wipes NATS before settlement has read usage of the second day of a month. So a provider is blocked when
// the month before is to be closed.
func (e *earning) losesUsage(t *testing.T) {
	var first time.Time // of the month that is to be closed: that of the machine's time, as the requests are
	if err := e.db.QueryRow(t.Context(), `SELECT date_trunc('month', min(day)) FROM billing.usage_settlement`).Scan(
		&first); err != nil {
		t.Fatal(err)
	}
	second := first.UTC().AddDate(0, 1, 1).Add(16 * time.Minute) // the day before is sealed then
	e.Pass(t, max(0, second.Sub(e.now(t))))
	e.batched(t)
	again := kill(t, e.Market, fleet.Settlement)
	e.earn(t, e.payg)
	trial.Until(t, "the hub has forgotten the usage", func() bool { return !e.remembers(t) })
	startNATS := kill(t, e.Market, fleet.NATS)
	if err := e.Fleet().WipeNATS(); err != nil {
		t.Fatal(err)
	}
	startNATS()
	e.nextDay(t)
	e.until(t, "the day is sealed",
		`EXISTS (SELECT FROM billing.seal WHERE day = (now() AT TIME ZONE 'UTC')::date - 1)`)
	again()
	e.fires(t, "ProvidersBlocked", `,severity="page"`)
	e.fires(t, "EarningLinesFilled", `,severity="ticket"`)
	e.fires(t, "PlanMonthWaiting", `,severity="page"`)
	e.Admin(t, http.MethodPost, "/api/v1/admin/earnings/blocks/"+e.owner.ID+"/lift", `{"reason":"NATS was wiped"}`)
	e.quiet(t, "ProvidersBlocked")
	e.quiet(t, "PlanMonthWaiting")
}

// remembers reports whether the hub keeps usage that the ledger may not have settled.
func (e *earning) remembers(t *testing.T) bool {
	t.Helper()
	hub := e.Fleet().Replicas(fleet.Hub)[0]
	resp, err := http.Get(e.Fleet().AdminURL(hub) + "/metrics") //nolint:noctx // it answers at once
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("svc_provider_hub_unsettled")) {
			return !bytes.HasSuffix(line, []byte(" 0\n"))
		}
	}
	t.Fatal("svc_provider_hub_unsettled: got no such metric, want one")
	return false
}

// standsStill keeps the books from being written when a day is batched and a conversion is asked for. Then the ledger
// is away for days.
func (e *earning) standsStill(t *testing.T) {
	if err := e.peers.OpenPenalty(t.Context(), e.owner.ID, trial.Dear, 1_000); err != nil {
		t.Fatal(err)
	}
	e.until(t, "the penalty is in escrow", `count(*) = 1 FROM settlement.penalty_part WHERE state = 'escrowed'`)
	e.earn(t, e.payg)
	e.until(t, "settlement has the lines", `count(*) = $1 FROM settlement.earning WHERE settled`, e.asked)
	e.owner.Login(t)
	books, penalties := e.locked(t, "billing.entry"), e.locked(t, "settlement.penalty")
	status, _, answer := e.Call(t, http.MethodPost, "/api/v1/provider/convert", e.owner.Token, `{"amount_usd":"0.5"}`,
		"Idempotency-Key", "convert")
	if status < http.StatusInternalServerError {
		t.Fatalf("a conversion that the books do not take: got %d %s, want 500 or more", status, answer)
	}
	e.nextDay(t)
	e.until(t, "the day is batched, and not posted",
		`EXISTS (SELECT FROM settlement.batch_share WHERE posted IS NULL)`)
	again := kill(t, e.Market, fleet.Billing)
	books()
	e.Pass(t, 3*24*time.Hour)
	e.fires(t, "SharesUnposted", `,severity="ticket"`)
	e.fires(t, "BatchesBehind", `,severity="page"`)
	e.fires(t, "PenaltiesOverdue", `,severity="ticket"`)
	// A conversion is tried again after longer and longer pauses.
	trial.Until(t, "the conversion is stuck", func() bool {
		var pauses bool
		if err := e.db.QueryRow(t.Context(), `SELECT due_at > clock_timestamp() FROM settlement.conversion`).Scan(
			&pauses); err != nil {
			t.Fatal(err)
		}
		if pauses {
			e.Pass(t, time.Hour)
		}
		return len(e.query(t, `svc_settlement_conversions_stuck > 0`)) > 0
	})
	e.fires(t, "ConversionsStuck", `,severity="ticket"`)
	penalties()
	e.quiet(t, "PenaltiesOverdue")
	again()
	e.Pass(t, time.Hour)
	e.quiet(t, "SharesUnposted")
	e.quiet(t, "ConversionsStuck")
	e.quiet(t, "BatchesBehind")
}

// refundsLate has a card's owner ask for collateral that its card does not take back any more.
func (e *earning) refundsLate(t *testing.T) {
	e.until(t, "the penalty has ended", `NOT EXISTS (SELECT FROM settlement.penalty_part WHERE state <> 'executed')`)
	e.Pass(t, 181*24*time.Hour)
	if err := e.peers.RequestRefund(t.Context(), e.owner.ID); err != nil {
		t.Fatal(err)
	}
	e.Pass(t, 7*24*time.Hour+time.Minute)
	e.fires(t, "RefundsWaiting", `,severity="ticket"`)
	refund := trial.Text(t, e.Admin(t, http.MethodGet, "/api/v1/admin/collateral/refunds", ""), "list", 0, "refund_id")
	e.Admin(t, http.MethodPost, "/api/v1/admin/collateral/refunds/"+refund+"/paid", `{"reference":"bank 1"}`)
	e.quiet(t, "RefundsWaiting")
}
