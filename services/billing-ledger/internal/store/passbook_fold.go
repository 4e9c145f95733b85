package store

import (
	"time"

	"svc.internal/services/billing-ledger/internal/document"
)

// Passbook makes and reads passbooks, sums of usage and documents; see passbook.FoldStore,
// passbook.Store and document.Store.
type Passbook struct {
	*Store
	// Maker makes the documents.
	Maker document.Maker
}

// folding is how far the fold is.
type folding struct {
	until, month time.Time
	invoiced     *[16]byte
}

// end is the end of the month whose invoices are next.
func (f folding) end() time.Time { return f.month.AddDate(0, 1, 0) }
