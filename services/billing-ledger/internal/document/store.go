package document

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/passbook"
)

// Store reads documents.
type Store interface {
	// Documents reads documents of an account, of one series. Their places are time and number.
	Documents(ctx context.Context, account ids.AccountID, of Series, w passbook.Walk) ([]Document, error)
	// Document reads one; found is false where the account has none of this number.
	Document(ctx context.Context, account ids.AccountID, n Number) (d Document, found bool, err error)
}

// NotFound is the error for a document that the account does not have.
func NotFound() error {
	return fault.New(fault.NotFound, fault.DocumentNotFound, "there is no such document")
}
