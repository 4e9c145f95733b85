//go:build watch

package watch

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// kill kills all replicas of a service, and returns what starts them again.
func kill(t *testing.T, m *trial.Market, service string) (again func()) {
	t.Helper()
	f := m.Fleet()
	for _, name := range f.Replicas(service) {
		if err := f.Kill(name); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		for _, name := range f.Replicas(service) {
			if err := f.Start(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// sound is a Prometheus that has seen the fleet sound: none of the alerts fires yet.
func sound(t *testing.T, m *trial.Market, alerts ...string) *server {
	t.Helper()
	s := startPrometheus(t, m.Fleet())
	trial.Until(t, "Prometheus sees a fleet that settles", func() bool {
		return len(s.query(t, `slo:settlement_late:bool == 0`)) > 0
	})
	for _, alert := range alerts {
		s.quiet(t, alert)
	}
	return s
}

// TestAlertsFireByTheirFaults brings faults about, one after the other, each before a
// Prometheus of its own. deploy/check holds that each alert fires by its fault in this package.
func TestAlertsFireByTheirFaults(t *testing.T) {
	m, s, load := market(t)
	trial.Until(t, "requests are answered", func() bool { return load.Answered() >= 50 })
	t.Run("PostgreSQL has no standby", func(t *testing.T) { s.fires(t, "LedgerWithoutSynchronousStandby", "") })
	t.Run("first tokens are late", func(t *testing.T) {
		s := sound(t, m, "FirstTokenBudgetBurnsFast", "FirstTokenBudgetBurnsSlowly")
		thaw := freeze(t, m, fleet.Billing)
		defer thaw()
		s.fires(t, "FirstTokenBudgetBurnsFast", `,severity="page"`)
		s.fires(t, "FirstTokenBudgetBurnsSlowly", `,severity="ticket"`)
	})
	t.Run("a router is killed", func(t *testing.T) {
		s := sound(t, m, "ReplicaDown", "ServiceDown")
		again := kill(t, m, fleet.Router)
		s.fires(t, "ReplicaDown", `,job="router"`)
		s.fires(t, "ServiceDown", `,job="router"`)
		again()
		s.quiet(t, "ServiceDown")
	})
	t.Run("hubs are killed", func(t *testing.T) {
		s := sound(t, m, "RouterSeesNoHub")
		again := kill(t, m, fleet.Hub)
		s.fires(t, "RouterSeesNoHub", "")
		again()
		s.quiet(t, "RouterSeesNoHub")
	})
	t.Run("billing-ledger is killed", func(t *testing.T) {
		s := sound(t, m, "AdmissionBudgetBurnsFast", "AdmissionBudgetBurnsSlowly", "SettlementBudgetBurnsFast",
			"SettlementBudgetBurnsSlowly")
		again := kill(t, m, fleet.Billing)
		defer again()
		s.fires(t, "AdmissionBudgetBurnsFast", `,severity="page"`)
		s.fires(t, "AdmissionBudgetBurnsSlowly", `,severity="ticket"`)
		s.fires(t, "SettlementBudgetBurnsFast", `,severity="page"`)
		s.fires(t, "SettlementBudgetBurnsSlowly", `,severity="ticket"`)
	})
	t.Run("a row of the ledger is changed", func(t *testing.T) {
		s := sound(t, m, "LedgerDrifts")
		changeAWallet(t, m)
		s.fires(t, "LedgerDrifts", `,severity="page"`)
	})
}

// changeAWallet sets aside a nano-dollar that no hold has.
func changeAWallet(t *testing.T, m *trial.Market) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), m.Fleet().DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	const change = `UPDATE billing.wallet SET held = held + 1 WHERE account_id =
		(SELECT account_id FROM billing.wallet WHERE held < posted ORDER BY account_id LIMIT 1)`
	tag, err := db.Exec(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	if tag.RowsAffected() != 1 {
		t.Fatalf("rows changed: got %d, want 1", tag.RowsAffected())
	}
}

// freeze lets a service stand still for most of the time, so that each call of it is slow,
// until the returned function is called.
func freeze(t *testing.T, m *trial.Market, service string) (thaw func()) {
	t.Helper()
	f := m.Fleet()
	stop, stopped := make(chan struct{}), make(chan struct{})
	signal := func(sig syscall.Signal) {
		for _, name := range f.Replicas(service) {
			if pid := f.Pid(name); pid != 0 {
				_ = syscall.Kill(pid, sig) // one that has ended needs none
			}
		}
	}
	go func() {
		defer close(stopped)
		still, runs := time.NewTicker(700*time.Millisecond), time.NewTicker(50*time.Millisecond)
		defer still.Stop()
		defer runs.Stop()
		for {
			signal(syscall.SIGSTOP)
			still.Reset(700 * time.Millisecond)
			select {
			case <-still.C:
			case <-stop:
				signal(syscall.SIGCONT)
				return
			}
			signal(syscall.SIGCONT)
			runs.Reset(50 * time.Millisecond)
			<-runs.C
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
