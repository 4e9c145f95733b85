package usage

import (
	"context"
	"fmt"
	"log/slog"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// LateReport is a request that was settled by its hub's count before its gateway told
// that the answer had broken off. Had the word come in time, what came would
// have been charged, and not the prompt (see Snapshot.Truncated).
type LateReport struct {
	Request ids.RequestID
	Account ids.AccountID
	Rates   money.Rates
	Charged money.NanoUSD
	// Completion is what was charged for, Relayed what came.
	Completion int64
	Relayed    Relayed
}

// Entry gives back the difference. It belongs to the request alone, so it has
// its id.
func (l LateReport) Entry() (ledger.Entry, error) {
	due, err := l.Rates.Charge(money.Tokens{Completion: max(min(l.Relayed.Tokens, l.Relayed.Bytes, l.Completion), 0)})
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("price what came: %w", err)
	}
	fact := ledger.Fact{ID: ids.EntryID(l.Request), BusinessID: l.Request.String(), Memo: "the answer broke off"}
	return ledger.BrokenAnswer(fact, l.Account, l.Charged-due)
}

// LateReportStore finds late words and posts entries.
type LateReportStore interface {
	// LateReports are up to limit requests that were charged more than came, of
	// which the word came of late and nothing has been given back.
	LateReports(ctx context.Context, limit int) ([]LateReport, error)
	Post(ctx context.Context, entries ...ledger.Entry) ([]ids.EntryID, error)
}

// CorrectLateReports gives back what up to limit requests were charged too much, and
// returns how many. Repeating it changes nothing. One that cannot be corrected
// now, because somebody refunds it at the same time or its account is full, is
// logged and stands in nobody's way.
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
