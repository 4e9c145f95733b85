package store_test

import (
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/store"
)

// seller is who sells in tests.
var seller = document.Seller{Name: "Seller <Ltd>", Address: []string{"1 Street", "City"}, TaxID: "X1"}

func (e *env) passbook() store.Passbook {
	return store.Passbook{Store: e.store, Maker: document.Maker{Seller: seller}}
}

// fold folds all that was recorded.
func (e *env) fold(t testing.TB) {
	t.Helper()
	e.foldBy(t, 1_000)
}

// foldBy folds all that was recorded in steps of some rows.
func (e *env) foldBy(t testing.TB, rows int) {
	t.Helper()
	e.foldUpTo(t, scan[time.Time](t, e, `SELECT now()`), rows)
}

func (e *env) foldUpTo(t testing.TB, upTo time.Time, rows int) {
	t.Helper()
	for {
		p, err := e.passbook().Fold(t.Context(), upTo, rows)
		if err != nil {
			t.Fatal(err)
		}
		if !p.More {
			return
		}
	}
}

// folder makes passbooks as the service does, without a lag.
func (e *env) folder() *passbook.Folder {
	return &passbook.Folder{Store: e.passbook(), Log: slog.New(slog.DiscardHandler)}
}

// always is all time.
var always = passbook.Period{From: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	To: time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC)}

// lines reads all lines of an account page by page, newest first.
func (e *env) lines(t testing.TB, id ids.AccountID, f passbook.Filter, size int) []passbook.Line {
	t.Helper()
	var all []passbook.Line
	w := passbook.Walk{Limit: size}
	for {
		page, err := e.passbook().Lines(t.Context(), id, f, w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < size {
			return all
		}
		w.Behind = &page[len(page)-1].Place
	}
}

// servedPages reads all requests of an account page by page, newest first.
func (e *env) servedPages(t testing.TB, id ids.AccountID, f passbook.UsageFilter, size int) []passbook.Served {
	t.Helper()
	var all []passbook.Served
	w := passbook.Walk{Limit: size}
	for {
		page, err := e.passbook().Served(t.Context(), id, f, w)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < size {
			return all
		}
		w.Behind = &page[len(page)-1].Place
	}
}

// past moves everything that is recorded back by so long, and the fold to before it.
func (e *env) past(t testing.TB, by time.Duration) {
	t.Helper()
	e.exec(t, `UPDATE usage_settlement SET settled_at = settled_at - $1::interval`, by)
	e.exec(t, `UPDATE entry SET at = at - $1::interval`, by)
	e.exec(t, `UPDATE passbook_fold SET until_at = until_at - $1::interval, begun_at = begun_at - $1::interval,
		invoice_month = date_trunc('month', (until_at - $1::interval) AT TIME ZONE 'UTC')::date`, by)
}
