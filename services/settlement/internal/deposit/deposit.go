// Package deposit credits consumers for tokens that arrived at their deposit addresses.
//
// Every account has one address, the same on all chains, at m/44'/60'/0'/0/index of an extended public key. A watcher
// (package watch) stores what arrives there. Of a final transfer this package decides once, and the decision stays:
//
//   - deny: its sender is screened out. The tokens are the platform's, and wait for an operator. What would be credited
//     is screened once it is enough.
//   - stray: the token is credited to nobody: coins of chains 1 and 8453, and coins that no transaction brought.
//   - credit: the account is credited. It needs a price of a coin, a balance of the address that covers all that is
//     recorded there (so a log that lies credits nothing), and an open sum of the address of at least $1, before any
//     bonus. The ledger adds the bonus.
//
// Until then it waits, and says what for. A decision is committed before it is posted, and a posting is idempotent by
// chain, transaction and place, so a crash between the two credits nobody twice and forgets nobody. An operator ends
// what is stray or denied: matched to an account, or returned. What a chain no longer has, after an operator accepted
// its changed history, is taken back by a posting of its own.
package deposit

import (
	"context"
	"errors"
	"math/bits"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/screen"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/watch"
)

// Minimum is the open sum of an address from which on it is credited.
const Minimum = money.NanoUSD(1_000_000_000)

// BonusPercent is the bonus on coins, which the ledger adds.
const BonusPercent = 20

// Bonus is what the ledger adds to coins that are worth value, rounded down.
func Bonus(value money.NanoUSD) money.NanoUSD {
	return value/100*BonusPercent + value%100*BonusPercent/100
}

// State is where a transfer stands.
type State string

// The states.
const (
	Seen      State = "seen"
	Final     State = "final"
	Credited  State = "credited"
	Unmatched State = "unmatched"
	Denied    State = "denied"
	Returned  State = "returned"
	Dropped   State = "dropped"
)

// States returns all states.
func States() []State { return []State{Seen, Final, Credited, Unmatched, Denied, Returned, Dropped} }

// next has the states that follow each. The database has the same (transfer_transition).
var next = map[State][]State{
	Seen:      {Final, Dropped},
	Final:     {Credited, Unmatched, Denied, Dropped},
	Credited:  {Dropped},
	Unmatched: {Credited, Returned, Dropped},
	Denied:    {Returned, Credited, Dropped},
	Returned:  nil,
	Dropped:   {Seen, Final},
}

// May reports whether a transfer may go from one state to another.
func (s State) May(to State) bool {
	for _, one := range next[s] {
		if one == to {
			return true
		}
	}
	return false
}

// Decision is what is to become of a final transfer.
type Decision string

// The decisions.
const (
	Credit Decision = "credit"
	Stray  Decision = "stray"
	Deny   Decision = "deny"
)

// End is what an operator, or a changed history, made of a transfer after all.
type End string

// The ends.
const (
	Matched    End = "matched"
	SentBack   End = "returned"
	GoneForBad End = "gone"
)

// Waits is why a final transfer is not decided.
type Waits string

// The reasons.
const (
	ForMinimum   Waits = "minimum"
	ForQuote     Waits = "quote"
	ForBalance   Waits = "balance"
	ForScreening Waits = "screening"
)

// Transfer is a transfer with what is decided of it.
type Transfer struct {
	watch.Transfer
	State    State
	Decision Decision
	// Account is the owner of the address. After a match it is the account that the transfer was matched to.
	Account ids.AccountID
	Quote   *sending.Quote
	Waits   Waits
	End     End
	// Entry and EndEntry are those of the ledger; empty: not posted.
	Entry, EndEntry string
	ReturnTx        chain.Hash
	// Other is the token where it is one that is credited to nobody. The contract is zero of all that may be credited.
	Other chain.Other
}

// IsOther reports whether the token is credited to nobody and is not in the books.
func (t Transfer) IsOther() bool { return !t.Other.Contract.IsZero() }

// kind returns what the token of a transfer is.
func (t Transfer) kind() chain.Kind {
	if t.Token == t.Chain.Token(chain.USDC) {
		return chain.USDC
	}
	return chain.Coin
}

// creditable reports whether the token is credited at all, and a transaction says from whom it came.
func (t Transfer) creditable() bool {
	return t.kind() == t.Chain.PaysOut() && !t.Sender.IsZero()
}

// errValue says that an amount is worth more than the books can count.
var errValue = errors.New("the value is out of range")

// nanoPerMicro is the nano-USD in a unit of USDC.
const nanoPerMicro = 1_000

// coinUnits is the units of the books in a coin.
const coinUnits = 1_000_000_000

// Value returns what units are worth: down rounded down, which a consumer is credited, and even rounded half to even,
// at which the books hold the tokens. quote is nil of USDC.
func Value(units int64, quote *sending.Quote) (down, even money.NanoUSD, err error) {
	if quote == nil {
		hi, lo := bits.Mul64(uint64(units), nanoPerMicro)
		if hi > 0 || int64(lo) < 0 {
			return 0, 0, errValue
		}
		return money.NanoUSD(lo), money.NanoUSD(lo), nil
	}
	hi, lo := bits.Mul64(uint64(units), uint64(quote.Rate))
	if hi >= coinUnits {
		return 0, 0, errValue
	}
	whole, rest := bits.Div64(hi, lo, coinUnits)
	if int64(whole) < 0 {
		return 0, 0, errValue
	}
	down, even = money.NanoUSD(whole), money.NanoUSD(whole)
	if rest > coinUnits/2 || rest == coinUnits/2 && whole&1 == 1 {
		even++
	}
	return down, even, nil
}

// Screener gives verdicts on addresses: *screen.Screener.
type Screener interface {
	Check(ctx context.Context, address chain.Address) (screen.Verdict, error)
}

// Balances reads what an address has: *evm.Chain.
type Balances interface {
	Final(ctx context.Context) (chain.Block, error)
	Balance(ctx context.Context, account chain.Address, block chain.Block) (chain.Amount, error)
	Balances(ctx context.Context, accounts []chain.Address, block chain.Block) ([]chain.Amount, error)
	TokenBalance(ctx context.Context, token, account chain.Address, block chain.Block) (chain.Amount, error)
}

// Decided is a decision with what it rests on.
type Decided struct {
	watch.Key
	Decision Decision
	Quote    *sending.Quote
	// Screened is the version of the verdict on the sender.
	Screened string
}

// Fact is what is posted: one of Deposited, Stray, Matched, Returned and Gone.
type Fact string

// The facts.
const (
	FactDeposited Fact = "deposited"
	FactStray     Fact = "stray"
	FactMatched   Fact = "matched"
	FactReturned  Fact = "returned"
	FactGone      Fact = "gone"
)

// Ledger posts facts. A fact is posted once: a repeat returns the first entry.
type Ledger interface {
	Post(ctx context.Context, fact Fact, t Transfer) (entry string, err error)
}

// Store keeps transfers and addresses.
type Store interface {
	// Open returns the final transfers that are not decided of up to limit addresses behind an index, by address, with the
	// sums that are recorded and unswept at each.
	Open(ctx context.Context, behind int64, limit int) ([]Open, error)
	// Decide stores decisions, each unless one was made already.
	Decide(ctx context.Context, of []Decided) error
	// Wait notes what transfers wait for.
	Wait(ctx context.Context, of []watch.Key, waits Waits) error
	// Due returns transfers that are to be posted, the oldest of each address first. Those of halted chains are left out.
	Due(ctx context.Context, limit int) ([]Transfer, error)
	// Posted notes the entry of a transfer, which moves to a state. The first one stays.
	Posted(ctx context.Context, of watch.Key, to State, entry string) error
	// Ended notes the entry of a transfer's end.
	Ended(ctx context.Context, of watch.Key, to State, entry string) error
	// Backlog counts what waits, by reason.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog is what is final and not posted.
type Backlog struct {
	// Waiting are those that are not decided, by reason.
	Waiting map[Waits]int
	// Due are decided, or ended, and not posted.
	Due int
}

// Reasons returns all reasons to wait.
func Reasons() []Waits { return []Waits{ForMinimum, ForQuote, ForBalance, ForScreening} }

// Open is what waits at one address.
type Open struct {
	Index     uint32
	Address   chain.Address
	Transfers []Transfer
	// Recorded is what arrived and was not swept, by token.
	Recorded map[string]chain.Amount
}

// Address is a deposit address.
type Address struct {
	Index   uint32
	Account ids.AccountID
	Address chain.Address
	Since   time.Time
}
