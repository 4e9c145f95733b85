package position

import (
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/collateral"
)

// View is what a provider, or an operator, sees of what stands behind a provider.
type View struct {
	Holdings
	Assessment
	// CardEscrow is what penalties have set aside of what was paid by card.
	CardEscrow money.NanoUSD
	// CardLeaving is what a refund is paying back for payments by card.
	CardLeaving money.NanoUSD
	// Told is what the hub is told.
	Told collateral.Fact
	// Paid is the settlement chain.
	Paid chain.ID
}

// Backlog counts what should not last.
type Backlog struct {
	// Unposted events are not in the books for a quarter of an hour.
	Unposted int64
	// StuckParts of penalties have a call that was refused several times.
	StuckParts int64
	// OverdueRefunds are being paid for more than a day.
	OverdueRefunds int64
	// ByBank are payments by card that an operator must give back, and TakenBack those whose card's owner was first and
	// that the books have not ended, of refunds that are paid for a quarter of an hour.
	ByBank, TakenBack int64
	// Lapsed parts are of executed penalties.
	Lapsed int64
	// Missed parts were given up within the last seven days, and their penalty is not reversed. The penalty takes
	// less than it should.
	Missed int64
	// Vanished parts are of penalties whose last event is gone from their chain.
	Vanished int64
}
