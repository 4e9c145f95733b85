package payout

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// maxSteps bounds the steps of one look.
const maxSteps = 8

// What keeps a payout, for people: see Payout.Waiting.
const (
	WaitsForBooks     = "books"
	WaitsForApproval  = "approval"
	WaitsForScreening = "screening"
	Denied            = "denied"
	WaitsForChain     = "chain"
	Halted            = "chain_halted"
	ReservesShort     = "reserves_short"
	WalletLow         = "hot_wallet_low"
	GasLow            = "gas_low"
	WaitsForQuote     = "quote"
	WaitsForTurn      = "turn"
	BooksDiffer       = "books_differ"
)

// Waits returns every such word.
func Waits() []string {
	return []string{WaitsForBooks, WaitsForApproval, WaitsForScreening, Denied, WaitsForChain, Halted, ReservesShort,
		WalletLow, GasLow, WaitsForQuote, WaitsForTurn, BooksDiffer}
}

// kept is an error that keeps a payout where it is until a later look.
type kept struct {
	waiting string
	cause   error
}

func (k *kept) Error() string {
	if k.cause == nil {
		return "the payout waits: " + k.waiting
	}
	return "the payout waits: " + k.waiting + ": " + k.cause.Error()
}

func (k *kept) Unwrap() error { return k.cause }

// keep returns the error that keeps a payout.
func keep(waiting string, cause error) error { return &kept{waiting, cause} }

// Advance moves a payout on as far as it goes now. Twice, or by two processes at once, is harmless. What keeps it is
// stored and is no error.
func (k *Keeper) Advance(ctx context.Context, id ID) (Payout, error) {
	p, err := k.deps.Store.Get(ctx, id)
	if err != nil {
		return Payout{}, err
	}
	for range maxSteps {
		revision := p.Revision
		next, err := k.step(ctx, p)
		var waits *kept
		switch {
		case errors.As(err, &waits):
			return k.note(ctx, p, waits)
		case err != nil:
			return p, err
		case next.Revision == revision:
			return k.note(ctx, next, &kept{})
		}
		p = next
	}
	return p, nil
}

// note stores what a look found.
func (k *Keeper) note(ctx context.Context, p Payout, waits *kept) (Payout, error) {
	if p.State.Final() {
		return p, nil
	}
	if waits.cause != nil && k.deps.Kept != nil {
		k.deps.Kept(ctx, p, waits)
	}
	if err := k.deps.Store.Note(ctx, p.ID, waits.waiting, p.Screened); err != nil {
		return p, err
	}
	p.Waiting = waits.waiting
	return p, nil
}

// step takes the next step of a payout by its state. It returns the same revision where there is nothing to do.
func (k *Keeper) step(ctx context.Context, p Payout) (Payout, error) {
	switch {
	case p.State.Final():
		return p, nil
	case p.Reserved.IsZero():
		return k.reserve(ctx, p)
	case p.EndsAs != "":
		return k.giveBack(ctx, p)
	case p.State == Requested:
		return k.approveAlone(ctx, p)
	case p.State == Approved:
		return k.send(ctx, p)
	case p.State == Signing:
		return k.submit(ctx, p)
	default:
		return k.conclude(ctx, p)
	}
}

// change takes a cause under the lock of the row, unless another process was first.
func (k *Keeper) change(
	ctx context.Context, p Payout, c Cause, reason string, set func(*Payout, *Step),
) (Payout, error) {
	return k.deps.Store.Change(ctx, p.ID, func(now *Payout) (Step, error) {
		if now.Revision != p.Revision {
			return Step{}, nil
		}
		step, err := now.take(c, platform, reason)
		if err == nil {
			set(now, &step)
		}
		return step, err
	})
}

// reserve has the books set the money aside.
func (k *Keeper) reserve(ctx context.Context, p Payout) (Payout, error) {
	entry, err := k.deps.Ledger.Reserve(ctx, p)
	crash.At("settlement.payout.reserved")
	switch {
	case fault.Is(err, fault.InsufficientEarnings):
		return k.change(ctx, p, Refuse, "the books have less than that", func(now *Payout, _ *Step) {
			now.EndsAs, now.Reason = "", "insufficient_earnings"
		})
	case err != nil:
		return p, keep(WaitsForBooks, err)
	}
	return k.change(ctx, p, Reserve, "", func(now *Payout, _ *Step) { now.Reserved = entry })
}

// giveBack ends a payout that was not sent. A database that lost commits may have forgotten that it was sent, so
// nothing is given back before nonces are compared.
func (k *Keeper) giveBack(ctx context.Context, p Payout) (Payout, error) {
	if _, _, err := k.deps.Sender.Check(ctx, p.Chain, sending.Payout); err != nil {
		return p, ofSending(err)
	}
	entry, err := k.deps.Ledger.GiveBack(ctx, p)
	if err != nil {
		return p, keep(ofBooks(err), err)
	}
	crash.At("settlement.payout.given_back")
	return k.change(ctx, p, End, p.Reason, func(now *Payout, step *Step) { now.Final, step.Unpaid = entry, true })
}

// ofBooks tells books that say otherwise from books that do not answer.
func ofBooks(err error) string {
	if f, ok := fault.As(err); ok && (f.Kind == fault.Precondition || f.Kind == fault.Invalid) {
		return BooksDiffer
	}
	return WaitsForBooks
}

// ofSending says what keeps a payout that the pipeline does not take.
func ofSending(err error) error {
	switch {
	case errors.Is(err, sending.ErrHalted):
		return keep(Halted, nil)
	case errors.Is(err, sending.ErrReserves):
		return keep(ReservesShort, nil)
	case errors.Is(err, sending.ErrUnfunded):
		return keep(GasLow, nil)
	case errors.Is(err, sending.ErrBusy):
		return keep(WaitsForTurn, nil)
	default:
		return keep(WaitsForChain, err)
	}
}

// screen asks whether the platform deals with a payout's address, and notes by what version.
func (k *Keeper) screen(ctx context.Context, p *Payout) error {
	denied, version, err := k.deps.Screener.Screen(ctx, p.Address)
	switch {
	case err != nil:
		return keep(WaitsForScreening, err)
	case denied:
		p.Screened = "denied " + version
		return keep(Denied, nil)
	}
	p.Screened = "passed " + version
	return nil
}

// approveAlone approves a small payout of an address with which the platform deals.
func (k *Keeper) approveAlone(ctx context.Context, p Payout) (Payout, error) {
	if err := k.screen(ctx, &p); err != nil {
		return k.noted(ctx, p, err)
	}
	if p.Gross > k.alone() {
		return k.noted(ctx, p, keep(WaitsForApproval, nil))
	}
	next, err := k.change(ctx, p, Approve, "", func(_ *Payout, step *Step) { step.DayCap = k.cfg.AloneDaily })
	if errors.Is(err, ErrDayFull) {
		return k.noted(ctx, p, keep(WaitsForApproval, nil))
	}
	return next, err
}

// noted stores what screening said, and passes on what keeps the payout.
func (k *Keeper) noted(ctx context.Context, p Payout, err error) (Payout, error) {
	var waits *kept
	if errors.As(err, &waits) {
		if err := k.deps.Store.Note(ctx, p.ID, waits.waiting, p.Screened); err != nil {
			return p, err
		}
	}
	return p, err
}

// send fixes nonce and content of an approved payout, once nothing speaks against it.
func (k *Keeper) send(ctx context.Context, p Payout) (Payout, error) {
	if err := k.screen(ctx, &p); err != nil {
		return k.noted(ctx, p, err)
	}
	// A provider has one payout at a time, so what is in flight is this one. In a database that lost commits it may have
	// ended.
	switch _, inFlight, err := k.deps.Ledger.Balances(ctx, p.ProviderID); {
	case err != nil:
		return p, keep(WaitsForBooks, err)
	case inFlight != p.Gross:
		return p, keep(BooksDiffer, fmt.Errorf("$%s is in flight, and the payout is $%s", inFlight, p.Gross))
	}
	amount, quote, err := k.amount(ctx, p)
	if err != nil {
		return p, keep(WaitsForQuote, err)
	}
	wallet, err := k.covered(ctx, p.Chain, amount)
	switch {
	case err != nil:
		return p, err
	case wallet == p.Address:
		return k.reject(ctx, p, "the beneficiary address is the platform's own")
	}
	prepared, err := k.deps.Sender.Prepare(ctx, k.request(p, amount))
	var revert *chain.Revert
	switch {
	case errors.As(err, &revert):
		return k.reject(ctx, p, clip(revert.Error()))
	case err != nil:
		return p, ofSending(err)
	}
	crash.At("settlement.payout.prepared")
	next, err := k.change(ctx, p, Send, "", func(now *Payout, step *Step) {
		now.Amount, now.Quote, step.Call = amount, quote, &prepared
	})
	if errors.Is(err, sending.ErrHalted) || errors.Is(err, sending.ErrReserves) || errors.Is(err, sending.ErrBusy) {
		return p, ofSending(err)
	}
	return next, err
}

// reject has a payout fail that nothing was sent of.
func (k *Keeper) reject(ctx context.Context, p Payout, reason string) (Payout, error) {
	return k.change(ctx, p, Reject, reason, func(now *Payout, _ *Step) { now.EndsAs, now.Reason = Failed, reason })
}

// request is the call that pays a payout.
func (k *Keeper) request(p Payout, amount chain.Amount) sending.Request {
	r := sending.Request{Chain: p.Chain, Key: sending.Payout, Purpose: Purpose, Ref: p.ID.String()}
	asset := k.cfg.Assets[p.Chain]
	if asset.Kind == chain.Coin {
		r.To, r.Value = p.Address, amount
		return r
	}
	r.To, r.Data = asset.Contract, sending.Transfer(p.Address, amount)
	return r
}

// amount returns what a payout sends, in the smallest units of its token: of USDC its net amount, and of a coin what
// that buys at the quote of now, rounded down.
func (k *Keeper) amount(ctx context.Context, p Payout) (chain.Amount, sending.Quote, error) {
	asset, ok := k.cfg.Assets[p.Chain]
	if !ok {
		return chain.Amount{}, sending.Quote{}, fmt.Errorf("nothing is paid on chain %s", p.Chain)
	}
	if asset.Kind != chain.Coin {
		return chain.NewAmount(uint64(p.Net() / nanoPerMicro)), sending.Quote{}, nil
	}
	quote, err := k.deps.Quotes.Quote(ctx, p.Chain)
	if err != nil {
		return chain.Amount{}, sending.Quote{}, err
	}
	// The books count 10^9 units of a coin.
	const units = 1_000_000_000
	hi, lo := bits.Mul64(uint64(p.Net()), units)
	if quote.Rate <= 0 || hi >= uint64(quote.Rate) {
		return chain.Amount{}, sending.Quote{}, fmt.Errorf("a rate of %d is out of range", quote.Rate)
	}
	whole, _ := bits.Div64(hi, lo, uint64(quote.Rate))
	amount, ok := chain.AmountOfUnits(int64(whole), asset.Decimals)
	if !ok || amount.IsZero() {
		return chain.Amount{}, sending.Quote{}, fmt.Errorf("$%s buys nothing at a rate of %d", p.Net(), quote.Rate)
	}
	return amount, quote, nil
}

// covered returns the hot wallet. It fails unless the wallet holds an amount beside all that is on its way.
func (k *Keeper) covered(ctx context.Context, id chain.ID, amount chain.Amount) (chain.Address, error) {
	wallet, _, err := k.deps.Sender.Check(ctx, id, sending.Payout)
	if err != nil {
		return wallet, ofSending(err)
	}
	holds, err := k.deps.Wallet.Holds(ctx, id, wallet)
	if err != nil {
		return wallet, keep(WaitsForChain, err)
	}
	// Read last: what ends meanwhile is counted twice, and never not at all.
	flying, err := k.deps.Store.InFlight(ctx, id)
	if err != nil {
		return wallet, err
	}
	need, ok := flying.Add(amount)
	if !ok || holds.Cmp(need) < 0 {
		return wallet, keep(WalletLow, nil)
	}
	return wallet, nil
}

// submit notes that bytes are stored, which may be sent from then on.
func (k *Keeper) submit(ctx context.Context, p Payout) (Payout, error) {
	status, ok, err := k.deps.Store.Call(ctx, p.ID)
	switch {
	case err != nil:
		return p, err
	case !ok:
		return p, fmt.Errorf("payout %s is %s and has no call", p.ID, p.State)
	case len(status.Signed) == 0:
		return p, nil
	}
	return k.change(ctx, p, Submit, "", func(*Payout, *Step) {})
}

// conclude ends a payout by what became of its transaction.
func (k *Keeper) conclude(ctx context.Context, p Payout) (Payout, error) {
	status, ok, err := k.deps.Store.Call(ctx, p.ID)
	switch {
	case err != nil:
		return p, err
	case !ok:
		return p, fmt.Errorf("payout %s is %s and has no call", p.ID, p.State)
	case status.End == nil:
		return p, nil
	case status.End.Outcome == sending.Succeeded:
		entry, err := k.deps.Ledger.Confirm(ctx, p)
		if err != nil {
			return p, keep(ofBooks(err), err)
		}
		crash.At("settlement.payout.confirmed")
		return k.change(ctx, p, Confirm, "", func(now *Payout, _ *Step) { now.Final = entry })
	}
	entry, err := k.deps.Ledger.GiveBack(ctx, p)
	if err != nil {
		return p, keep(ofBooks(err), err)
	}
	crash.At("settlement.payout.failed")
	reason := "the transaction was " + string(status.End.Outcome)
	return k.change(ctx, p, Fail, reason, func(now *Payout, step *Step) {
		now.Final, now.Reason, step.Unpaid = entry, reason, true
	})
}
