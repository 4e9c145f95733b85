package auditor

// collateral are the rows of what is paid back of collateral, and of what must have ended before.
type collateral struct {
	backs     map[id]*back
	backParts map[id]backPart
	// spans are the times in which a provider had an open payout or penalty, by its id.
	spans map[id]*open
}

func newCollateral() collateral {
	return collateral{map[id]*back{}, map[id]backPart{}, map[id]*open{}}
}

// back is a row of collateral_refund. Times are in microseconds since 1970; 0 is none.
type back struct {
	provider           id
	state              string
	due, paying, ended int64
}

// backPart is a row of collateral_refund_part; its chain is 0 by card.
type backPart struct {
	refund    id
	chain     int64
	depositor [20]byte
	state     string
}

// open is the time in which a payout or a penalty of a provider was open; until is 0 for one that still is.
type open struct {
	what        string
	provider    id
	from, until int64
}
