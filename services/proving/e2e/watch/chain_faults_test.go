//go:build watch

package watch

import (
	"testing"
	"time"

	"svc.internal/services/proving/internal/paychain"
)

// TestAlertsOfChainsFireByTheirFaults brings faults of chains about.
func TestAlertsOfChainsFireByTheirFaults(t *testing.T) {
	town, s, _ := chained(t)
	o := town.NewOwner(t, "ann", 0xa1)
	o.Deposit(t, paychain.Dollars, 20)
	o.Serve(t)
	o.WaitStatus(t, "active")
	o.Earn(t, 60)
	town.Pass(t, 24*time.Hour)
	o.Payable(t)
	o.Confirmed(t, o.Ask(t, "12.50", "first"))
	s.quiet(t, "SendingHalted")
}
