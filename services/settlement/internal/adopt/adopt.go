// Package adopt takes into the database what it lost of a chain: after it was restored from an older copy, chain
// and signer know nonces that it does not, and the books know payouts that it does not. Until an operator has them
// adopted the chain is halted (package sending).
//
// A plan is made of four witnesses, and of nothing else: the final blocks of the chain, the signer's record of each
// nonce, the books, and the beneficiary that the hub has. Each lost nonce becomes a call with the content that the
// chain shows, or that the signer's hash proves; a payout's nonce is found by its address and amount, in the order
// in which a provider's payouts follow one another. What the witnesses do not explain, and what they contradict one
// another about, is named, and waits for an operator's word. A word chooses among what the witnesses allow.
//
// A nonce that was signed and that no block has is signed again, where the payout that it pays is proven by the
// signer's hash. Another one is cancelled on the chain first, and adopted once a final block says which of the two
// was mined: a lost transaction may still be on its way. A payout that is in flight in the books and has no nonce
// is given back, once no chain has a nonce that might have paid it.
//
// What is adopted is written in one transaction, sender by sender up to the first nonce that waits. So an adoption
// is made again until its plan is empty, and made twice it does nothing the second time.
//
// It implements settlement.md, section 6 ("a restored database") and section 14.
package adopt

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

const (
	// MaxCalls bounds the nonces of one plan.
	MaxCalls = 200
	// MaxPayouts bounds the payouts that are read of the books.
	MaxPayouts = 50_000
	// Since is how far back the books are read without another word.
	Since = 7 * 24 * time.Hour
	// Purpose is that of adopted calls that no domain waits for.
	Purpose = "adopted"
	// defaultGas is allowed for a call that no block has; what is not used is not paid.
	defaultGas = 150_000
	// maxWords bounds an operator's words of one kind.
	maxWords = 1_000
)

// What a nonce does.
type What string

// The kinds.
const (
	Payout     What = "payout"
	Sweep      What = "sweep"
	Collateral What = "collateral"
	Cancel     What = "cancel"
	Unknown    What = "unknown"
)

// Action is what is done.
type Action string

// The actions on nonces.
const (
	// Record stores what the chain has.
	Record Action = "record"
	// SignAgain stores a content that the chain does not have, so that it is signed again.
	SignAgain Action = "sign_again"
	// SignCancel cancels the nonce on the chain.
	SignCancel Action = "cancel"
)

// The actions on payouts.
const (
	// Follow lets a payout end as its transaction did.
	Follow Action = "follow"
	// GiveBack cancels a payout that was not sent.
	GiveBack Action = "give_back"
)

// The actions that do nothing yet.
const (
	// Wait needs a later block, or the end of another payout.
	Wait Action = "wait"
	// Ask needs an operator's word.
	Ask Action = "ask"
)

// Sender is an address that sends, with the nonce of its next call.
type Sender struct {
	Key     sending.Key
	Address chain.Address
	Next    uint64
}

// Promised is what the signer has on record of a nonce.
type Promised struct {
	// Content is zero where only the cancel was signed.
	Content   chain.Hash
	Cancelled bool
	// Amount of the asset is what the content moves; the asset is zero for the coin.
	Asset  chain.Address
	Amount chain.Amount
}

// Nonce is a nonce that the database does not have, or whose transaction it does not have.
type Nonce struct {
	sending.Place
	Key sending.Key
	// Known is the call that the database has; nil for none.
	Known *sending.Status
	// Promised is nil where the signer has no record.
	Promised *Promised
	// Sent and Receipt are what final blocks have; nil for nothing.
	Sent    *chain.Found
	Receipt *chain.Receipt
	// Mined reports that a block has the nonce that is not final.
	Mined bool
}

// Cancels reports whether the transaction is the cancel of its nonce.
func (n Nonce) Cancels() bool {
	return n.Sent != nil && n.Sent.To == n.Sender && n.Sent.Value.IsZero() && len(n.Sent.Data) == 0
}

// End is how a payout ended in the books.
type End string

// The ends.
const (
	InFlight  End = "in_flight"
	Confirmed End = "confirmed"
	Failed    End = "failed"
)

// Booked is a payout as the books have it.
type Booked struct {
	ID       payout.ID
	Provider ids.ProviderID
	Gross    money.NanoUSD
	// Entry is that of line 16, posted at At.
	Entry ids.EntryID
	At    time.Time
	End   End
	// Token, Units and Quote are what a confirmed one sent.
	Token string
	Units int64
	Quote chain.Quote
}

// Lost is a payout of the books that the database does not have, or not as far.
type Lost struct {
	Booked
	// Row is the payout that the database has; nil for none.
	Row *payout.Payout
	// Address is that of the row, else the address that the hub has now; zero for none.
	Address chain.Address
	// Open is another payout of the provider that has not ended in the database; zero for none.
	Open payout.ID
}

// Net returns what the provider is paid.
func (l *Lost) Net() money.NanoUSD { return l.Gross - payout.Fee }

// OpenSweep is a sweep that has not been sent, as far as the database knows.
type OpenSweep struct {
	ID    string
	Index uint32
}

// Facts are all that a plan rests on.
type Facts struct {
	Chain chain.ID
	// Asset is what payouts of the chain send; its zero value where there are none.
	Asset                chain.Asset
	USDC                 chain.Address
	Treasury, Collateral chain.Address
	// Nonces are by sender and nonce.
	Nonces []Nonce
	// More reports that there are further ones.
	More bool
	// Payouts are in the order of their time.
	Payouts []Lost
	// Elsewhere names another chain that has nonces of payouts that were not adopted; zero for none.
	Elsewhere chain.ID
	// Unexplained reports that a transaction of a payout key was adopted before that nothing explains.
	Unexplained bool
	// Deposits has the indexes of deposit addresses that sent or were swept, and Sweeps their open sweeps.
	Deposits map[chain.Address]uint32
	Sweeps   map[chain.Address]OpenSweep
}

// Words are what an operator says about single transactions.
type Words struct {
	// Accept are transactions that nothing explains.
	Accept map[chain.Hash]bool
	// Match says of which payout a transaction is.
	Match map[chain.Hash]payout.ID
	// GiveBack are payouts that were not sent.
	GiveBack map[payout.ID]bool
}

// CallLine is what is done about a nonce.
type CallLine struct {
	Nonce  Nonce
	What   What
	Action Action
	Detail string
	// Payout is the place of its payout in the plan; -1 for none.
	Payout int
	// SweepOf is the deposit address of a sweep; zero for none.
	SweepOf chain.Address
	// Swept is what left it.
	Swept chain.Amount
	// Call is what is stored.
	Call sending.Call
	// Cancel reports that its nonce is cancelled by the pipeline, because it never had a content.
	Cancel bool
}

// PayoutLine is what is done about a payout.
type PayoutLine struct {
	Lost   Lost
	Action Action
	Detail string
	// Amount and Quote are what its transaction sends.
	Amount chain.Amount
	Quote  chain.Quote
}

// Plan is what an adoption does.
type Plan struct {
	Chain   chain.ID
	Calls   []CallLine
	Payouts []PayoutLine
	More    bool
	// Deposits and Sweeps are as in the facts.
	Deposits map[chain.Address]uint32
	Sweeps   map[chain.Address]OpenSweep
}

// Complete reports whether nothing is left once the plan is done.
func (p Plan) Complete() bool {
	for _, l := range p.Calls {
		if l.Action != Record && l.Action != SignAgain {
			return false
		}
	}
	for _, l := range p.Payouts {
		if l.Action == Wait || l.Action == Ask {
			return false
		}
	}
	return !p.More
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Calls) == 0 && len(p.Payouts) == 0 && !p.More }

// By is who has a plan done, and why.
type By struct{ Actor, Reason string }

// Store keeps what is adopted.
type Store interface {
	// Senders lists the senders of a chain.
	Senders(ctx context.Context, id chain.ID) ([]Sender, error)
	// Waiting lists calls of a chain that have not ended.
	Waiting(ctx context.Context, id chain.ID, limit int) ([]sending.Status, error)
	// EndBefore returns the block of the last call of a sender that ended with a lower nonce than that of a place; 0 for
	// none. No earlier block can have the nonce of the place.
	EndBefore(ctx context.Context, p sending.Place) (block uint64, err error)
	// Rows returns those payouts that there are, each with whether it has a call.
	Rows(ctx context.Context, of []payout.ID) (rows map[payout.ID]payout.Payout, called map[payout.ID]bool, err error)
	// OpenOf returns the payouts of providers that have not ended.
	OpenOf(ctx context.Context, of []ids.ProviderID) (map[ids.ProviderID]payout.ID, error)
	// Deposits returns the indexes of those addresses that are deposit addresses, and their open sweeps on a chain.
	Deposits(ctx context.Context, id chain.ID, of []chain.Address) (map[chain.Address]uint32, map[chain.Address]OpenSweep,
		error)
	// Unexplained reports whether an unexplained transaction of a payout key was adopted.
	Unexplained(ctx context.Context) (bool, error)
	// Halted reports whether the reading of a chain is halted.
	Halted(ctx context.Context, id chain.ID) (bool, error)
	// Now is the time of the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// Adopt writes a plan in one transaction: of each sender the calls up to the first that is not Record or SignAgain,
	// and the payouts of Follow whose calls are written, and of GiveBack. It lifts the halts of lost nonces, and halts
	// again where the plan is not complete.
	Adopt(ctx context.Context, p Plan, by By) error
}

// Node is a chain: *evm.Chain.
type Node interface {
	Nonce(ctx context.Context, sender chain.Address) (final, latest uint64, err error)
	Sent(ctx context.Context, sender chain.Address, nonce, from uint64) (s chain.Found, found bool, err error)
	Receipt(ctx context.Context, hash chain.Hash) (r chain.Receipt, found bool, err error)
	SuggestFees(ctx context.Context) (chain.Fees, error)
	Broadcast(ctx context.Context, raw []byte) (chain.Outcome, error)
}

// Signer is the chain-signer.
type Signer interface {
	// Senders lists whose transactions were signed for a chain. Of a deposit address the key is deposit.
	Senders(ctx context.Context, id chain.ID) ([]Sender, error)
	// Signed returns what is on record of a sender's nonces, from one on, as far as one page goes.
	Signed(ctx context.Context, id chain.ID, sender chain.Address, from uint64) (map[uint64]Promised, error)
	Sign(ctx context.Context, c sending.Call, cancel bool, fees chain.Fees) (sending.Signature, error)
}

// Books is billing-ledger.
type Books interface {
	// Payouts lists payouts that were asked for since a time, and those that have not ended, at most a number.
	Payouts(ctx context.Context, since time.Time, limit int) ([]Booked, error)
}

// Payees is the hub.
type Payees interface {
	Payee(ctx context.Context, id ids.ProviderID) (payout.Payee, error)
}

// Chain is a chain on which settlement sends.
type Chain struct {
	ID   chain.ID
	Node Node
	// Asset is what payouts send; its zero value where the chain pays nobody.
	Asset                      chain.Asset
	USDC, Treasury, Collateral chain.Address
	MaxGasPrice                chain.Amount
}

// Deps are the parts that an adopter works with.
type Deps struct {
	Store  Store
	Signer Signer
	Books  Books
	Payees Payees
	// Chains are all chains on which settlement sends.
	Chains []Chain
}

// Adopter plans adoptions, and makes them.
type Adopter struct{ deps Deps }
