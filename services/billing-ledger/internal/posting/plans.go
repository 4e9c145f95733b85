package posting

import (
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// PlanSold is line 11: a plan's invoice was paid, and joins the pool of its month.
type PlanSold struct {
	none
	Invoice string
	Month   ledger.Month
	Price   money.NanoUSD
}

func (f PlanSold) businessID() string { return f.Invoice }

func (f PlanSold) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.PlanSale(fact, f.Month, f.Price)
}

// PlanEarnedLate is line 12 after the close of its month: what a provider earned by plans'
// requests that were settled on a day behind the close.
type PlanEarnedLate struct {
	Month    ledger.Month
	Day      time.Time
	Provider ids.ProviderID
	Amount   money.NanoUSD
}

func (f PlanEarnedLate) needs() Needs { return Needs{Provider: f.Provider} }

func (f PlanEarnedLate) businessID() string {
	return fmt.Sprintf("%s/%s/%s", f.Month, f.Provider, f.Day.Format(time.DateOnly))
}

func (f PlanEarnedLate) entry(fact ledger.Fact, has Has) (ledger.Entry, error) {
	return ledger.PlanLateShare(fact, f.Provider, f.Month, f.Amount, has.Owed)
}
