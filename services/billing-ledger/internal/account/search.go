package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Bounds of a search.
const (
	MaxPage        = 200
	defaultPage    = 50
	maxEmailPrefix = 254
	keyPrefix      = 12
)

// Filter says which accounts are looked for. Its texts are no patterns.
type Filter struct {
	// EmailPrefix begins the e-mail address of the account's user; empty for any.
	EmailPrefix string
	// KeyPrefix is all that is shown of a key; empty for any.
	KeyPrefix string
	// Wallet is an address that the owner of the account is known by; empty for any. See package
	// kin.
	Wallet string
	// State is empty for any.
	State State
}

func (f Filter) validate() error {
	switch {
	case f.EmailPrefix != "" && f.KeyPrefix != "":
		return invalid("key_prefix", "and email_prefix cannot both be given")
	case f.Wallet != "" && f.EmailPrefix+f.KeyPrefix != "":
		return invalid("wallet", "cannot be given with email_prefix or key_prefix")
	case f.State != "" && f.State != Open && f.State != Frozen:
		return invalid("state", "must be %s or %s", Open, Frozen)
	case len(f.EmailPrefix) > maxEmailPrefix || strings.Trim(f.EmailPrefix, printable) != "":
		return invalid("email_prefix", "must be the beginning of an e-mail address")
	case f.KeyPrefix != "" && (len(f.KeyPrefix) != keyPrefix || strings.Trim(f.KeyPrefix, printable) != ""):
		return invalid("key_prefix", "must be the %d characters that are shown of a key", keyPrefix)
	case f.Wallet != "":
		if _, err := kin.OfAddress(f.Wallet); err != nil {
			return invalid("wallet", "must be the address of a wallet: %v", err)
		}
	}
	return nil
}

// printable has the characters of e-mail addresses as they are stored, and of keys.
var printable = func() string {
	var b strings.Builder
	for c := '!'; c <= '~'; c++ {
		b.WriteRune(c)
	}
	return b.String()
}()

// Listed is an account in a list.
type Listed struct {
	Account
	// Email is that of the account's user; empty for none.
	Email string
	// WalletIs says what the wallet that was searched for is to the account, in the order of the
	// alphabet; empty in other searches.
	WalletIs []WalletIs
}

// WalletIs is what a wallet is to an account. Only Proven shows that the holder of the wallet is the
// account's user: anybody can pay into the deposit address of another.
type WalletIs string

// What a wallet can be.
const (
	// Proven is a wallet that the account's user has proven, be it unlinked since.
	Proven WalletIs = "proven"
	// Deposit is an address from which a deposit was credited.
	Deposit WalletIs = "deposit"
	// ProviderOwner is a wallet that owns the account's provider.
	ProviderOwner WalletIs = "provider_owner"
	// Payout is an address at which the account's provider is or was paid.
	Payout WalletIs = "payout"
)

// Entry is what an entry moved of an account's credit.
type Entry struct {
	ID     ids.EntryID
	Kind   string
	Amount money.NanoUSD
	Memo   string
	At     time.Time
}

// Action is what an operator did to an account; Detail is a JSON object.
type Action struct {
	Actor, Action, Detail string
	At                    time.Time
}

// Details are what an operator sees of one account beside the account itself.
type Details struct {
	Email    string
	Provider ids.ProviderID
	Limits   SpendLimits
	Entries  []Entry
	Actions  []Action
}

// SearchStore finds accounts.
type SearchStore interface {
	// FindAccounts returns up to limit accounts behind a place: the e-mail address of the last
	// account where that is searched for, else its id.
	FindAccounts(ctx context.Context, f Filter, after string, limit int) ([]Listed, error)
	// AccountDetails returns up to limit entries and as many actions, the newest first.
	AccountDetails(ctx context.Context, id ids.AccountID, limit int) (Details, error)
	// RefundOf refunds a request of an account; see usage.RefundEntry.
	RefundOf(ctx context.Context, r Refund) (ids.EntryID, money.NanoUSD, error)
}

// Refund is what an operator gives back of a request.
type Refund struct {
	Entry   ids.EntryID
	Account ids.AccountID
	Request ids.RequestID
	Cause   usage.RefundCause
	Note    string
}

// Overview answers operators who look for accounts.
type Overview struct {
	Store SearchStore
	// NewEntry makes the ids of entries.
	NewEntry func() (ids.EntryID, error)
}

// Find returns a page of the accounts that match, and the cursor of the next page, which is
// empty after the last. A page of no size has the default size.
func (o *Overview) Find(
	ctx context.Context, f Filter, cursor string, size int,
) (page []Listed, next string, err error) {
	f.EmailPrefix = strings.ToLower(f.EmailPrefix)
	if err := f.validate(); err != nil {
		return nil, "", err
	}
	if size == 0 {
		size = defaultPage
	}
	if size < 1 || size > MaxPage {
		return nil, "", invalid("page_size", "must be between 1 and %d", MaxPage)
	}
	if cursor != "" && !f.place(cursor) {
		return nil, "", invalid("cursor", "must be the next_cursor of a page with the same filters")
	}
	page, err = o.Store.FindAccounts(ctx, f, cursor, size+1)
	if err != nil {
		return nil, "", fmt.Errorf("find accounts: %w", err)
	}
	if len(page) <= size {
		return page, "", nil
	}
	page = page[:size]
	if last := page[size-1]; f.EmailPrefix != "" {
		next = last.Email
	} else {
		next = last.ID.String()
	}
	return page, next, nil
}

// place reports whether a cursor is a place in the list.
func (f Filter) place(cursor string) bool {
	if f.EmailPrefix != "" {
		return strings.HasPrefix(cursor, f.EmailPrefix) && len(cursor) <= maxEmailPrefix &&
			strings.Trim(cursor, printable) == ""
	}
	_, err := ids.ParseAccount(cursor)
	return err == nil
}

// maxRecent bounds the entries and the actions of an account that are shown.
const maxRecent = 20

// Details reads what an operator sees of one account.
func (o *Overview) Details(ctx context.Context, id ids.AccountID) (Details, error) {
	found, err := o.Store.AccountDetails(ctx, id, maxRecent)
	if err != nil {
		return Details{}, explain(err, "read an account's details")
	}
	return found, nil
}

// Refund gives an account back all that a request was charged, once.
func (o *Overview) Refund(ctx context.Context, r Refund) (ids.EntryID, money.NanoUSD, error) {
	switch {
	case r.Cause != usage.ProviderFault && r.Cause != usage.Goodwill:
		return ids.EntryID{}, 0, invalid("cause", "must be %s or %s", usage.ProviderFault, usage.Goodwill)
	case !ValidLabel(r.Note, 1, MaxMemo):
		return ids.EntryID{}, 0, invalid("note", "must have 1 to %d printable characters", MaxMemo)
	}
	var err error
	if r.Entry, err = o.NewEntry(); err != nil {
		return ids.EntryID{}, 0, fmt.Errorf("make an entry id: %w", err)
	}
	entry, amount, err := o.Store.RefundOf(ctx, r)
	switch {
	case errors.Is(err, usage.ErrNothingCharged):
		return ids.EntryID{}, 0, NoRequest()
	case errors.Is(err, usage.ErrRefunded), errors.Is(err, usage.ErrPaidInPart), errors.Is(err, usage.ErrVendorServed):
		return ids.EntryID{}, 0, fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed,
			"the request was refunded before; or its consumer paid less than its provider earned, or a vendor served it, "+
				"and then the cause must be goodwill").On("cause")
	case err != nil:
		return ids.EntryID{}, 0, fmt.Errorf("refund a request: %w", err)
	}
	return entry, amount, nil
}

// NoRequest is the error for a request of which an account was charged nothing.
func NoRequest() error {
	return fault.New(fault.NotFound, fault.RequestNotFound, "nothing was charged for such a request of the account").On(
		"request_id")
}
