// Package ledger has the chart of accounts and every entry of the double-entry
// ledger: what happens to money other than by a settled request.
//
// An entry is a balanced set of postings. An amount above zero credits an
// account, one below zero debits it; the postings of an entry sum to zero in
// each asset, nano-USD or units of a token. Each kind of entry has one
// constructor, which checks its arguments; the number in its comment is the
// line of the table of postings in the service's README. Lines 4 to 10 and 12
// have none: they are holds and settled requests, whose rows are whole balanced
// entries by themselves.
//
// The database checks the same again: the sums when a transaction commits, and
// by posting_rule which accounts an entry of a kind may debit and credit. A
// provider earns by settled requests and by orphan work, and by nothing else.
//
// An entry is never changed. What was wrong is undone by one reversal, which
// has the same legs with the amounts negated, and posted anew under another
// business id. A reversal is not reversed: posting the first again says the
// same, and leaves one way to read the books.
package ledger

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Bounds of an entry. MaxLegs times MaxAmount fits an int64, so that no sum of
// legs can wrap, in whatever order they are added.
const (
	MaxAmount     = 500_000_000 * money.USD
	MaxLegs       = 16
	MaxBusinessID = 255
	MaxMemo       = 200
)

// EntryKind is the business fact behind an entry.
type EntryKind string

// Account is one account of the ledger: its kind, whose it is where it is
// owned, and which book of them where there are several.
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

// Fact identifies an entry: its own id, and the business id that makes a repeat
// of the same fact recognisable among the entries of its kind.
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

// What posting can be refused for.
var (
	// ErrReused is a business id that stands for another entry.
	ErrReused = errors.New("the business id stands for another entry")
	// ErrNoEntry is an entry that does not exist, ErrNoWallet a consumer.
	ErrNoEntry  = errors.New("no such entry")
	ErrNoWallet = errors.New("no such consumer account")
	// ErrShort is a debit of more than a consumer has beside what is held.
	ErrShort = errors.New("the consumer does not have as much")
	// ErrHeld is a debit of what is held of a provider's earnings.
	ErrHeld = errors.New("the provider's earnings are held")
	// ErrCeiling is a balance that would grow beyond what the ledger counts.
	ErrCeiling = errors.New("the balance would exceed its bound")
)

// Validate checks what the database checks too: two to MaxLegs legs, each of an
// account of the chart and within MaxAmount, none zero, and a sum of zero in
// each asset.
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
		return fmt.Errorf("%s without its owner, or with one it cannot have", p.Account.Kind)
	case !line.Book.matches(p.Account.Book):
		return fmt.Errorf("%q is not a book of %s", p.Account.Book, p.Account.Kind)
	case p.Asset != USD && !token:
		return fmt.Errorf("asset %q is not in the books", p.Asset)
	case p.Amount == 0 || p.Amount > MaxAmount || p.Amount < -MaxAmount:
		return fmt.Errorf("posting of %d to %s is zero or out of range", p.Amount, p.Account.Kind)
	}
	return nil
}

// Reversal undoes an entry. Business id: that of the entry undone, in its
// canonical form.
const Reversal EntryKind = "reversal"

// Reverse is the entry that undoes another.
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

// debit and credit are legs in USD.
func debit(kind AccountKind, owner [16]byte, amount money.NanoUSD) Posting {
	return credit(kind, owner, -amount)
}

func credit(kind AccountKind, owner [16]byte, amount money.NanoUSD) Posting {
	return Posting{Account: Account{Kind: kind, Owner: owner}, Asset: USD, Amount: amount}
}

// in puts a leg into a book.
func (p Posting) in(book string) Posting {
	p.Account.Book = book
	return p
}

// tokens makes a leg count a token.
func (p Posting) tokens(token Token) Posting {
	p.Asset = Asset(token)
	return p
}

// nobody owns accounts of which there is one.
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
