//go:build rehearsal

package worst

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/proving/internal/chaos/record"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }

const model = "test/worst"

// soon has holds end soon whose usage is lost.
func soon(c *fleet.Config) {
	c.Settings = map[string]map[string]any{fleet.Billing: {"billing": map[string]any{
		"hold_lease": "15s", "orphan_after": "20s", "expire_grace": "15s",
	}}}
}

// lines are the settled requests, with what was charged in nano-USD.
func (d *disk) lines(t *testing.T) map[string]int64 {
	t.Helper()
	return d.rows(t, `SELECT request_id::text, charged FROM billing.usage_settlement`)
}

// holds are the requests that were admitted.
func (d *disk) holds(t *testing.T) map[string]int64 {
	t.Helper()
	return d.rows(t, `SELECT request_id::text, 0::bigint FROM billing.hold`)
}

func (d *disk) rows(t *testing.T, sql string) map[string]int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.fleet.DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	all := map[string]int64{}
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { all[id] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// rewind has the streams deliver again what they have stored since a time.
func rewind(t *testing.T, f *fleet.Fleet, service string, since time.Time) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(trial.Programs(t, ""), service), "rewind",
		"-since", since.UTC().Format(time.RFC3339Nano),
		"-config", f.Path("config", f.Replicas(service)[0]+".yaml")) //nolint:gosec // our own program
	cmd.Dir = f.Path()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s rewind: %v\n%s", service, err, out)
	}
	t.Logf("%s rewind: %s", service, out)
}

// verified fails the test unless a service's own books have no drift.
func verified(t *testing.T, d *disk, service string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(trial.Programs(t, ""), service), "verify")
	cmd.Env = append(os.Environ(), "DATABASE_URL="+d.fleet.DatabaseURL())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s verify: %v\n%s", service, err, out)
	}
}

// What a lost disk costs is what was committed since the last archived segment. A request that was
// admitted before, and settled after, is settled again. The auditor finds nothing else lost.
func TestNothingSettledIsLostBeyondTheLastArchivedSegment(t *testing.T) {
	m := trial.StartFleet(t, soon)
	f := m.Fleet()
	d := archiving(t, f)
	if err := f.WaitReady(t.Context(), f.Names()...); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	a := audit(t, m, m.WSURLs()...)
	a.disk = d
	settled := func(n int) func() bool { return func() bool { return len(d.lines(t)) >= n } }
	trial.Until(t, "a request is settled", settled(1))
	d.backUp(t)
	trial.Until(t, "requests are settled", settled(100))
	kept, admitted := d.lines(t), d.holds(t)
	d.point(t)
	trial.Until(t, "more requests are settled, of which the archive has nothing", settled(len(kept)+100))
	all := d.lines(t)
	for _, name := range f.Names() {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	a.load.Stop()

	a.comeBack(t, began)
	back := time.Now()
	a.ask(t, 17)
	a.answersMore(t, "the market serves", 20, back)
	a.load.Stop()
	trial.UntilWithin(t, 2*trial.Patience, "nothing is held any more", func() bool {
		_, held := m.Balance(t, a.account)
		return held == "0.00"
	})
	d.compare(t, books{kept: kept, admitted: admitted, all: all})
	verified(t, d, fleet.Billing)
	verified(t, d, fleet.Settlement)
	d.paid(t)
	d.charged(t, a.account)
	a.export(t)
	known := d.holds(t)
	maps.Copy(known, admitted)
	a.forget(t, known, back)
	a.exclude(t, d.holds(t))
	agrees(t, a.report(t), d.rows(t, `SELECT request_id::text, 0::bigint FROM billing.quarantine q
		WHERE reason = 'unknown_request' AND NOT EXISTS (SELECT FROM billing.hold h WHERE h.request_id = q.request_id)`))
}

// comeBack restores the database and starts everything, in the order of the runbook.
func (a *audited) comeBack(t *testing.T, since time.Time) {
	t.Helper()
	f := a.fleet
	a.disk.restore(t)
	a.disk.must(t, `SELECT setval('hub.session_epoch', nextval('hub.session_epoch') + 1000000)`)
	for _, name := range f.Replicas(fleet.NATS) {
		if err := f.Start(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	rewind(t, f, fleet.Billing, since)
	rewind(t, f, fleet.Settlement, since)
	a.start(t, slices.DeleteFunc(f.Names(), func(name string) bool { return f.Pid(name) != 0 })...)
}

// forget takes the calls out of the records whose requests were admitted between the point and the loss of the disk.
// The books know nothing of them, which is what a lost disk costs. Calls that were sent once the market was back stay.
func (a *audited) forget(t *testing.T, known map[string]int64, back time.Time) {
	t.Helper()
	served := lines[record.Engine](t, a.path(record.EnginesFile))
	calls := lines[record.Client](t, a.path(record.ClientsFile))
	lost, after := map[string]bool{}, map[string]bool{}
	for _, c := range calls {
		after[c.Nonce] = !c.SentAt.Before(back)
	}
	for _, e := range served {
		if _, there := known[e.RequestID]; !there && !after[e.Nonce] {
			lost[e.Nonce] = true
		}
	}
	for _, c := range calls {
		if _, there := known[c.RequestID]; c.RequestID != "" && !there && !after[c.Nonce] {
			lost[c.Nonce] = true
		}
	}
	t.Logf("the books have no trace of %d of %d calls", len(lost), len(calls))
	keep(t, a.path(record.EnginesFile), served, func(e record.Engine) bool { return !lost[e.Nonce] })
	keep(t, a.path(record.ClientsFile), calls, func(c record.Client) bool { return !lost[c.Nonce] })
}

// exclude removes from settlement's export the lines whose requests the ledger does not have, as settlement itself does
// once their day is over by the machine's clock, which a test does not move. The function paid has already checked that
// settlement has no other line beyond the ledger's.
func (a *audited) exclude(t *testing.T, known map[string]int64) {
	t.Helper()
	type row struct {
		Export int    `json:"export,omitempty"`
		Table  string `json:"table,omitempty"`
		Row    object `json:"row,omitempty"`
		End    bool   `json:"end,omitempty"`
		Rows   int    `json:"rows,omitempty"`
	}
	all, out := lines[row](t, a.path(record.SettlementFile)), 0
	gone := func(r row) bool {
		request, _ := r.Row["request_id"].(string)
		_, there := known[request]
		return r.Table == "earning_line" && !there
	}
	for _, r := range all {
		if gone(r) {
			out++
		}
	}
	all[len(all)-1].Rows -= out
	keep(t, a.path(record.SettlementFile), all, func(r row) bool { return !gone(r) })
	t.Logf("%d lines of settlement are out", out)
}

// lines reads a record.
func lines[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in := json.NewDecoder(file)
	in.UseNumber()
	for {
		var line T
		switch err := in.Decode(&line); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, line)
	}
}

// keep writes those lines of a record that are wanted.
func keep[T any](t *testing.T, path string, all []T, wanted func(T) bool) {
	t.Helper()
	file, err := record.Create[T](path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range all {
		if wanted(line) {
			file.Add(line)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// books are what the ledger had: the lines at the point, the requests that were admitted by then, and
// the lines when the disk was lost.
type books struct{ kept, admitted, all map[string]int64 }

// compare finds what was lost, and what was charged otherwise.
func (d *disk) compare(t *testing.T, had books) {
	t.Helper()
	now := d.lines(t)
	lost := 0
	for id, charged := range had.all {
		got, there := now[id]
		_, before := had.admitted[id]
		switch {
		case there && got != charged:
			t.Errorf("%s: charged: got %d, want %d", id, got, charged)
		case !there && before:
			t.Errorf("%s: was admitted before the point, and is not settled", id)
		case !there:
			lost++
		}
	}
	again := len(slices.Collect(maps.Keys(now))) - len(had.kept)
	t.Logf("at the point %d requests were settled, %d when the disk was lost; %d were settled again or anew, %d are lost",
		len(had.kept), len(had.all), again, lost)
	if lost > len(had.all)-len(had.kept) {
		t.Errorf("lost: got %d requests, want at most the %d that were settled after the point", lost,
			len(had.all)-len(had.kept))
	}
}

// paid waits until settlement has the ledger's payout for each request that the ledger has settled.
// Lines of requests whose hold is lost are more: settlement excludes them when their day is over, and
// nothing of the day is batched before.
func (d *disk) paid(t *testing.T) {
	t.Helper()
	payouts := d.rows(t, `SELECT request_id::text, payout FROM billing.usage_settlement`)
	trial.Until(t, "settlement has the ledger's lines", func() bool {
		earned := d.rows(t, `SELECT request_id::text, payout_nano_usd FROM settlement.earning_line`)
		for id, payout := range payouts {
			if got, there := earned[id]; !there || got != payout {
				return false
			}
			delete(earned, id)
		}
		quarantined := d.rows(t, `SELECT request_id::text, 0::bigint FROM billing.quarantine
			WHERE reason = 'unknown_request'`)
		for id := range earned {
			if _, known := quarantined[id]; !known {
				t.Fatalf("%s: settlement has a line of a request that the ledger has neither settled nor quarantined", id)
			}
		}
		t.Logf("settlement has %d lines that it will exclude", len(earned))
		return true
	})
}

// charged fails the test unless the account has paid for its lines once.
func (d *disk) charged(t *testing.T, account string) {
	t.Helper()
	var posted, sum int64
	d.must(t, fmt.Sprintf(`SELECT posted, (SELECT sum(charged)::bigint FROM billing.usage_settlement)
		FROM billing.wallet WHERE account_id = '%s'`, account), &posted, &sum)
	if posted != granted-sum {
		t.Errorf("posted: got %d, want %d", posted, granted-sum)
	}
}
