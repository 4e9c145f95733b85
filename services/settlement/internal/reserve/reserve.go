// Package reserve checks that the platform holds what it owes.
//
// On each chain, as of a final block: hot wallets, treasury and the deposit addresses that are not swept hold of each
// token at least what the books have of it (a:crypto), and the collateral contract holds at least all positions. Of the
// books as a whole: a:crypto, a:card_clearing and a:bank cover what consumers, providers and others may claim, but for
// what the platform's owner stands for with money of its own (Terms.OwnFunds): credit that was given away, probes,
// orphan work and other losses are paid from that.
//
// Tokens that left by a transaction which the books do not have yet, payouts and gas, are no shortfall: they count as
// owed no more. What else moves between a reading of the books and one of the chain is seen by one reading and not by
// the next. So one reading alone decides nothing: a shortfall, and likewise the end of one, is confirmed by a second
// reading at another final block (Finding).
//
// While a shortfall is confirmed no payout is sent (sending.Reserves), because who is paid first would be paid from
// what the others are owed. Everything else goes on: batches, conversions, deposits, sweeps, which bring money
// together, and refunds of collateral, which are the depositors' own money in a contract. A shortfall on one chain
// halts the payouts of that chain, and one of the books as a whole those of all chains. A chain that cannot be read
// is neither halted nor lifted. The halt ends by itself once two readings find no shortfall: they are what the halt
// was made of, and nobody knows more. An operator cannot lift it before, and need not lift it after.
//
// It implements settlement.md, section 13. What it rests on: the operators of a chain's RPCs do not lie together. RPCs
// that disagree make a chain unknown. RPCs that agree on a lie are believed here, and settlement verify --chain may ask
// others.
package reserve

import (
	"strings"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

// Subject is what a reserve stands for: a token of a chain as the books name it ("8453:usdc"), the collateral contract
// of a chain ("8453:collateral"), or Books.
type Subject string

// Books is the subject of the books as a whole.
const Books Subject = "books"

// Contract returns the subject of a chain's collateral contract.
func Contract(id chain.ID) Subject { return Subject(id.String() + ":collateral") }

// Reading is what one look found of one subject. Held and Owed are in the smallest units of the token, and of Books in
// nano-USD.
type Reading struct {
	Subject Subject
	// Chain is 0 of Books.
	Chain chain.ID
	// At orders readings of a subject: the number of the final block, and of Books the second of the ledger's clock.
	At         uint64
	Held, Owed chain.Amount
}

// Short reports whether less is held than owed.
func (r Reading) Short() bool { return r.Held.Cmp(r.Owed) < 0 }

// String says what was found, for people.
func (r Reading) String() string {
	unit := "units"
	if r.Subject == Books {
		unit = "nano-USD"
	}
	return strings.Join([]string{string(r.Subject), "holds", r.Held.String(), unit, "and owes", r.Owed.String()}, " ")
}

// Confirmations is how many readings in a row make a shortfall, or end one.
const Confirmations = 2

// Finding is what the last readings of a subject say together.
type Finding struct {
	Reading
	// Row counts the readings in a row, at different places, of which each is short, or each is not.
	Row int
	// Confirmed reports whether a shortfall is confirmed, and its end is not.
	Confirmed bool
	// Since is when Confirmed last changed; ReadAt is when the last reading was.
	Since, ReadAt time.Time
	// Age is how long ago the last reading was.
	Age time.Duration
}

// After returns the finding with one more reading. A reading that is at no later place is no new one: what it found
// stands, and confirms nothing.
func (s Finding) After(r Reading) Finding {
	next := s
	next.Reading = r
	switch {
	case s.Row == 0 || r.Short() != s.Short():
		next.Row = 1
	case r.At > s.At:
		next.Row = s.Row + 1
	}
	next.At = max(r.At, s.At)
	if next.Row >= Confirmations {
		next.Confirmed = r.Short()
	}
	return next
}

// Halts reports whether a finding halts the payouts of a chain.
func (s Finding) Halts(id chain.ID) bool {
	return s.Confirmed && (s.Chain == id || s.Subject == Books)
}

// Sheet is the ledger's books as far as reserves need them.
type Sheet struct {
	// Tokens are the units of a:crypto by token. Below zero: more gas was paid than was ever booked in.
	Tokens map[string]int64
	// Crypto, Card and Bank are what a:crypto, a:card_clearing and a:bank are worth.
	Crypto, Card, Bank money.NanoUSD
	// Consumers and Providers are what they may claim. Others are claims of vendors, money that waits for its owner, and
	// the pools of plans less what providers have of them already.
	Consumers, Providers, Others money.NanoUSD
	// At is the time of the books.
	At time.Time
}

// Terms are what an installation sets.
type Terms struct {
	// OwnFunds is what the owner stands for beside the books.
	OwnFunds money.NanoUSD
}

// reading is what the books say of themselves.
func (t Terms) reading(s Sheet) Reading {
	r := Reading{Subject: Books, At: uint64(max(s.At.Unix(), 0))}
	var held, owed money.NanoUSD
	// What an asset lacks is owed, so that both sides stay above zero.
	for _, asset := range []money.NanoUSD{s.Crypto, s.Card, s.Bank, t.OwnFunds} {
		held, owed = held+max(asset, 0), owed+max(-asset, 0)
	}
	for _, claim := range []money.NanoUSD{s.Consumers, s.Providers, s.Others} {
		held, owed = held+max(-claim, 0), owed+max(claim, 0)
	}
	r.Held, r.Owed = chain.NewAmount(uint64(held)), chain.NewAmount(uint64(owed))
	return r
}
