package events

import (
	"context"

	"svc.internal/services/billing-ledger/internal/usage"
)

// tellHeld logs a warning for each line of a committed transaction whose earnings are
// held, for operators. Nothing depends on the log: what is held is in the database.
func (c *Consumer) tellHeld(ctx context.Context, lines []usage.Line) {
	for _, l := range lines {
		if l.Held == "" {
			continue
		}
		c.ObserveHeld(l.Held)
		c.Log.WarnContext(ctx, "a provider's earnings by its own owner's request are held", "request_id",
			l.Event.Request.String(),
			"account_id", l.Account.String(), "provider_id", l.Event.Provider.String(), "rule", string(l.Held))
	}
}
