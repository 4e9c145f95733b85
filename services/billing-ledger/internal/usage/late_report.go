package usage

import (
	"context"
	"fmt"
	"log/slog"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// LateReport is a request that was settled by its hub's count before its gateway reported
// that the answer had broken off. An earlier report would have had what arrived charged,
// and not the prompt (see Snapshot.Truncated).
type LateReport struct {
	Request ids.RequestID
	Account ids.AccountID
	Rates   money.Rates
	Charged money.NanoUSD
	// Discount is the account's, as admission pinned it.
	Discount money.Discount
	// Completion is the charged count, and Relayed what arrived.
	Completion int64
	Relayed    Relayed
}

// Entry returns the entry that gives the difference back. It belongs to the request
// alone, so it has the request's id.
func (l LateReport) Entry() (ledger.Entry, error) {
	due, err := l.Rates.Charge(money.Tokens{Completion: max(min(l.Relayed.Tokens, l.Relayed.Bytes, l.Completion), 0)})
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("price what arrived: %w", err)
	}
	fact := ledger.Fact{ID: ids.EntryID(l.Request), BusinessID: l.Request.String(), Memo: "the answer broke off"}
	return ledger.BrokenAnswer(fact, l.Account, l.Charged-(due-l.Discount.Of(due)))
}

// LateReportStore finds late reports and posts entries.
type LateReportStore interface {
	// LateReports returns up to limit requests that were charged more than arrived, that
	// were reported lately, and of which nothing has been given back.
	LateReports(ctx context.Context, limit int) ([]LateReport, error)
	Post(ctx context.Context, entries ...ledger.Entry) ([]ids.EntryID, error)
}

// CorrectLateReports gives back what up to limit requests were charged too much, and
// returns how many. Repeating it changes nothing. A request that cannot be corrected now,
// because it is being refunded or its account is full, is logged and delays no other.
func CorrectLateReports(
	ctx context.Context, store LateReportStore, log *slog.Logger, limit int,
) (corrected int, err error) {
	late, err := store.LateReports(ctx, limit)
	if err != nil {
		return 0, err
	}
	for _, l := range late {
		entry, err := l.Entry()
		if err == nil {
			_, err = store.Post(ctx, entry)
		}
		if err != nil {
			log.WarnContext(ctx, "what a request was charged too much cannot be given back now", "request_id",
				l.Request.String(), "error", err)
			continue
		}
		corrected++
	}
	return corrected, nil
}
