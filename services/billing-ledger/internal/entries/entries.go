// Package entries shows operators the ledger: its trial balance, its entries with their legs, and
// what its comparisons with itself found.
//
// A settled request is shown as an entry of the kind Usage, whose id and business id are the
// request's. Entries are in the order of the time at which they were recorded, then of their ids, the
// newest first, and a cursor is the place of an entry in that order. So pages show every entry once,
// if no entry is recorded with a time before the page that is read.
package entries

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Bounds of a list.
const (
	MaxPage     = 100
	defaultPage = 50
	MaxSpan     = 31 * 24 * time.Hour
)

// Usage is the kind of settled requests.
const Usage ledger.EntryKind = "usage"

// Entry is an entry as operators see it.
type Entry struct {
	ID         ids.EntryID
	Kind       ledger.EntryKind
	BusinessID string
	Memo       string
	Reverses   ids.EntryID
	At         time.Time
	Legs       []ledger.Posting
}

// Filter says which entries are looked for.
type Filter struct {
	// Request finds what was recorded of a request; BusinessID finds entries by that.
	Request    ids.RequestID
	BusinessID string
	// Account and Owner find the entries that move an account.
	Account ledger.AccountKind
	Owner   [16]byte
	// Since and Until are both zero or both given.
	Since, Until time.Time
}

// Timed reports whether the filter has a time.
func (f Filter) Timed() bool { return !f.Until.IsZero() }

// validate checks that the filter is one that an index answers.
func (f Filter) validate() error {
	given := 0
	for _, is := range []bool{!f.Request.IsZero(), f.BusinessID != "", f.Account != ""} {
		if is {
			given++
		}
	}
	known := slices.ContainsFunc(ledger.Chart(), func(l ledger.Line) bool { return l.Kind == f.Account })
	switch {
	case given > 1:
		return invalid("business_id", "request_id, business_id and account_kind cannot be given together")
	case given == 0 && !f.Timed():
		return invalid("since", "request_id, business_id, account_kind or since and until must be given")
	case f.Account != "" && !known:
		return invalid("account_kind", "account_kind must be a kind of account such as %s", ledger.Payable)
	case (f.Account == "") != (f.Owner == [16]byte{}):
		return invalid("owner_id", "owner_id and account_kind must be given together")
	case utf8.RuneCountInString(f.BusinessID) > ledger.MaxBusinessID || strings.ContainsRune(f.BusinessID, 0):
		return invalid("business_id", "business_id must have at most %d characters, none of them zero",
			ledger.MaxBusinessID)
	case f.Timed() && f.Account == "" && given > 0:
		return invalid("since", "since and until cannot be given with request_id or business_id")
	case f.Since.IsZero() == f.Timed():
		return invalid("until", "since and until must be given together")
	case f.Timed() && !f.Since.Before(f.Until), f.Timed() && f.Until.Sub(f.Since) > MaxSpan:
		return invalid("until", "until must be after since, by at most 31 days")
	}
	return nil
}

// Store reads the ledger.
type Store interface {
	// Entries returns up to limit entries that fit a valid filter, behind a place; the zero place is
	// the beginning.
	Entries(ctx context.Context, f Filter, after Place, limit int) ([]Entry, error)
}

// Page returns a page of the entries that fit, and the cursor of the next page, which is empty after
// the last. A page of no size has the default size.
func Page(ctx context.Context, s Store, f Filter, cursor string, size int) (page []Entry, next string, err error) {
	if err := f.validate(); err != nil {
		return nil, "", err
	}
	switch {
	case size == 0:
		size = defaultPage
	case size < 0 || size > MaxPage:
		return nil, "", invalid("page_size", "page_size must be 1 to %d", MaxPage)
	}
	after, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	page, err = s.Entries(ctx, f, after, size+1)
	if err != nil {
		return nil, "", fmt.Errorf("read entries: %w", err)
	}
	if len(page) > size {
		page = page[:size]
		last := page[size-1]
		next = writeCursor(Place{last.At, last.ID})
	}
	return page, next, nil
}

// Amount is an amount of an asset in words: US dollars, or the units of a token.
func Amount(asset ledger.Asset, amount money.NanoUSD) string {
	if asset == ledger.USD {
		return amount.String()
	}
	return fmt.Sprint(int64(amount))
}
