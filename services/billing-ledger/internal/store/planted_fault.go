package store

import (
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// forgetSettled is the planted fault crash.SkipPrimaryKey: a settled request looks as if
// its hold had been given back, so that its usage is settled once more.
func forgetSettled(snapshot usage.Snapshot) usage.Snapshot {
	for request, h := range snapshot.Holds {
		if h.State == hold.Settled {
			h.State = hold.Released
			snapshot.Holds[request] = h
		}
	}
	return snapshot
}
