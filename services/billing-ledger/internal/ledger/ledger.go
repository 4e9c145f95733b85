// Package ledger has the chart of accounts and every kind of entry of the double-entry
// ledger: everything that moves money except settled requests.
//
// An entry is a balanced set of postings. An amount above zero credits an account, and an
// amount below zero debits it. The postings of an entry sum to zero in each asset:
// nano-USD, or units of a token. Tokens are counted beside their value in USD. Each kind
// of entry has one constructor, which checks its arguments; the number in its comment is
// the line in the table of postings in the service's README. Lines 4 to 10 and 12 have no
// constructor: they are holds and settled requests, whose rows are whole balanced entries
// by themselves (the views hold_leg, usage_leg and ledger_leg show their legs). Line 8 is a
// request that a vendor of a gateway model served. Line 9, reference nodes, does not exist.
//
// The database checks the same again: the sums when a transaction commits, and by
// posting_rule which accounts an entry of a kind may debit and credit. A provider earns
// by settled requests and by orphan work, and by nothing else.
//
// An entry is never changed. One reversal undoes a wrong entry: it has the same legs with
// negated amounts. The right entry is then posted under another business id. A reversal
// is not reversed, because posting the first entry again has the same effect and leaves
// only one way to read the books.
//
// Each kind of entry has its case in postings_test.go and, against the database, in the
// store's entry_test.go.
package ledger

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf8"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Bounds of an entry. MaxLegs times MaxAmount fits an int64, so no sum of legs can
// overflow, in whatever order they are added.
const (
	MaxAmount     = 500_000_000 * money.USD
	MaxLegs       = 16
	MaxBusinessID = 255
	MaxMemo       = 200
)

// EntryKind is the business fact behind an entry.
type EntryKind string

// Account is one account of the ledger: its kind, its owner where it has one, and its
// book where an owner has several.
type Account struct {
	Kind  AccountKind
	Owner [16]byte
	Book  string
}

// Posting is one leg of an entry: nano-USD or units of a token.
type Posting struct {
	Account Account
	Asset   Asset
	Amount  money.NanoUSD
}

// Fact identifies an entry: its own id, and the business id by which a repeat of the same
// fact is recognised among the entries of its kind.
type Fact struct {
	ID         ids.EntryID
	BusinessID string
	Memo       string
}

// Entry is a balanced set of postings. Kind and BusinessID together are unique.
type Entry struct {
	ID         ids.EntryID
	Kind       EntryKind
	BusinessID string
	Memo       string
	Postings   []Posting
	// Reverses is the entry that this one undoes.
	Reverses ids.EntryID
	// Quote is the price at which tokens entered the books.
	Quote *Quote
}

// The reasons for which an entry is not posted.
var (
	// ErrReused: the business id stands for another entry.
	ErrReused = errors.New("the business id stands for another entry")
	// ErrNoEntry: the entry does not exist. ErrNoWallet: the consumer account does not.
	ErrNoEntry  = errors.New("no such entry")
	ErrNoWallet = errors.New("no such consumer account")
	// ErrShort: the entry takes more than a consumer has beside its held credit.
	ErrShort = errors.New("the consumer has less credit than that")
	// ErrHeld: the entry takes what is held of a provider's earnings.
	ErrHeld = errors.New("the provider's earnings are held")
	// ErrUnearned: the entry takes more than a provider has. ErrOverpaid: it pays more of a
	// debt than is owed.
	ErrUnearned = errors.New("the provider has less than that")
	ErrOverpaid = errors.New("less than that is owed")
	// ErrNoPayout: no payout of the provider and the amount was requested. ErrNoRefund: no
	// refund of collateral was, or the card payment says otherwise. ErrEnded: the payout, the
	// slash or the refund has ended otherwise.
	ErrNoPayout = errors.New("no such payout was requested")
	ErrNoRefund = errors.New("no refund of collateral ends so")
	ErrEnded    = errors.New("it has ended otherwise")
	// ErrMonthClosed: the month of plans whose pool the entry moves is closed.
	ErrMonthClosed = errors.New("the month is closed")
	// ErrCeiling: a balance would grow beyond what the ledger counts.
	ErrCeiling = errors.New("the balance would exceed its bound")
)

// Validate checks what the database checks too: two to MaxLegs legs, each on an account
// of the chart, not zero and within MaxAmount, and a sum of zero in each asset.
func (e Entry) Validate() error {
	switch {
	case e.BusinessID == "" || utf8.RuneCountInString(e.BusinessID) > MaxBusinessID:
		return fmt.Errorf("a business id must have 1 to %d characters", MaxBusinessID)
	case utf8.RuneCountInString(e.Memo) > MaxMemo:
		return fmt.Errorf("a memo must have at most %d characters", MaxMemo)
	case len(e.Postings) < 2:
		return errors.New("an entry needs two legs")
	case len(e.Postings) > MaxLegs:
		return fmt.Errorf("an entry has at most %d legs", MaxLegs)
	case (e.Kind == Reversal) != !e.Reverses.IsZero():
		return errors.New("a reversal, and nothing else, names what it reverses")
	}
	sums := map[Asset]money.NanoUSD{}
	for _, p := range e.Postings {
		if err := p.validate(); err != nil {
			return err
		}
		sums[p.Asset] += p.Amount
	}
	for asset, sum := range sums {
		if sum != 0 {
			return fmt.Errorf("postings in %s sum to %d", asset, sum)
		}
	}
	return nil
}

func (p Posting) validate() error {
	line, known := lineOf(p.Account.Kind)
	_, token := Token(p.Asset).decimals()
	switch {
	case !known:
		return fmt.Errorf("account kind %q is not in the chart", p.Account.Kind)
	case line.Owned != (p.Account.Owner != [16]byte{}):
		return fmt.Errorf("%s lacks its owner, or has one that it cannot have", p.Account.Kind)
	case !line.Book.matches(p.Account.Book):
		return fmt.Errorf("%q is not a book of %s", p.Account.Book, p.Account.Kind)
	case p.Asset != USD && !token:
		return fmt.Errorf("asset %q is not in the books", p.Asset)
	case p.Amount == 0 || p.Amount > MaxAmount || p.Amount < -MaxAmount:
		return fmt.Errorf("posting of %d to %s is zero or out of range", p.Amount, p.Account.Kind)
	}
	return nil
}

// Reversal undoes an entry. Business id: the id of the entry undone, in its
// canonical form.
const Reversal EntryKind = "reversal"

// Reverse returns the entry that undoes another.
func Reverse(id ids.EntryID, of Entry, memo string) (Entry, error) {
	switch {
	case of.Kind == Reversal:
		return Entry{}, errors.New("a reversal is not reversed; post the first entry anew")
	case of.ID.IsZero() || id.IsZero() || id == of.ID:
		return Entry{}, errors.New("a reversal needs an id of its own and that of what it reverses")
	}
	legs := slices.Clone(of.Postings)
	for i := range legs {
		legs[i].Amount = -legs[i].Amount
	}
	e := Entry{ID: id, Kind: Reversal, BusinessID: of.ID.String(), Memo: memo, Postings: legs, Reverses: of.ID}
	return e, e.Validate()
}

// compose makes an entry of the legs that are not zero.
func compose(kind EntryKind, fact Fact, legs ...Posting) (Entry, error) {
	legs = slices.DeleteFunc(legs, func(p Posting) bool { return p.Amount == 0 })
	e := Entry{ID: fact.ID, Kind: kind, BusinessID: fact.BusinessID, Memo: fact.Memo, Postings: legs}
	if fact.ID.IsZero() {
		return Entry{}, fmt.Errorf("%s: the entry has no id", kind)
	}
	if err := e.Validate(); err != nil {
		return Entry{}, fmt.Errorf("%s: %w", kind, err)
	}
	return e, nil
}

// move makes the entry of two legs in USD.
func move(kind EntryKind, fact Fact, amount money.NanoUSD, from, to Account) (Entry, error) {
	if err := positive("amount", amount); err != nil {
		return Entry{}, fmt.Errorf("%s: %w", kind, err)
	}
	return compose(kind, fact, Posting{from, USD, -amount}, Posting{to, USD, amount})
}

// debit and credit are legs in USD.
func debit(kind AccountKind, owner [16]byte, amount money.NanoUSD) Posting {
	return credit(kind, owner, -amount)
}

func credit(kind AccountKind, owner [16]byte, amount money.NanoUSD) Posting {
	return Posting{Account: Account{Kind: kind, Owner: owner}, Asset: USD, Amount: amount}
}

// in returns the leg in a book.
func (p Posting) in(book string) Posting {
	p.Account.Book = book
	return p
}

// tokens returns the leg counted in a token.
func (p Posting) tokens(token Token) Posting {
	p.Asset = Asset(token)
	return p
}

// nobody is the owner of accounts of which there is one.
var nobody [16]byte

// positive refuses amounts that are not above zero and within MaxAmount.
func positive(what string, amount money.NanoUSD) error {
	if amount <= 0 || amount > MaxAmount {
		return fmt.Errorf("%s of %d is out of range", what, amount)
	}
	return nil
}

// notNegative refuses amounts below zero or above MaxAmount.
func notNegative(what string, amount money.NanoUSD) error {
	if amount < 0 || amount > MaxAmount {
		return fmt.Errorf("%s of %d is out of range", what, amount)
	}
	return nil
}

// percent returns a share of an amount that is not negative, rounded down.
func percent(amount money.NanoUSD, share uint64) money.NanoUSD {
	hi, lo := bits.Mul64(uint64(amount), share)
	quotient, _ := bits.Div64(hi, lo, 100)
	return money.NanoUSD(quotient)
}
