package earning

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// payoutPage bounds the payouts of one page.
const payoutPage = 1000

// Payout is a payout as the books have it.
type Payout struct {
	// Entry is that of line 16.
	Entry    ids.EntryID
	ID       string
	Provider ids.ProviderID
	Amount   money.NanoUSD
	At       time.Time
	// End is the kind of the entry that ended it; empty for one that is in flight.
	End ledger.EntryKind
	// Sum is what a confirmed one sent.
	Sum ledger.Sum
}

// PayoutStore lists payouts.
type PayoutStore interface {
	// Payouts lists up to limit payouts that were asked for since a time, or have not ended, behind an entry, in the
	// order of entries.
	Payouts(ctx context.Context, since time.Time, after ids.EntryID, limit int) ([]Payout, error)
}

// ListPayouts is one page of payouts; next is empty behind the last one.
func ListPayouts(
	ctx context.Context, s PayoutStore, since time.Time, token string,
) (page []Payout, next string, err error) {
	var after ids.EntryID
	if token != "" {
		if after, err = ids.ParseEntry(token); err != nil {
			return nil, "", fault.New(fault.Invalid, fault.InvalidValue, "page_token is not one of this list").On("page_token")
		}
	}
	page, err = s.Payouts(ctx, since, after, payoutPage+1)
	if err != nil {
		return nil, "", err
	}
	if len(page) > payoutPage {
		page = page[:payoutPage]
		next = page[payoutPage-1].Entry.String()
	}
	return page, next, nil
}
