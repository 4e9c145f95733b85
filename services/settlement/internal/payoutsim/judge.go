package payoutsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/sending"
)

var errUnfinished = errors.New("it has not ended")

// judge says what is wrong in the end.
func (w *world) judge() error {
	halts := w.db.Halts(chain.Base)
	w.result.Halted = len(halts) > 0
	w.countTakenBack()
	list, _, err := (memory.Payouts{DB: w.db}).InState(context.Background(), "", 0, 10_000)
	faults := []error{err}
	verified, err := w.verify(list)
	faults = append(faults, err)
	for id, a := range w.accounts {
		faults = append(faults, w.judgeOne(id, a, verified))
	}
	for _, p := range list {
		w.count(p)
		if _, reserved := w.accounts[p.ID]; !reserved && p.State != payout.Failed && !w.result.Restored {
			faults = append(faults, fmt.Errorf("payout %s is %s, and the books have none", p.ID, p.State))
		}
	}
	if !w.result.Restored {
		faults = append(faults, w.judgeWhole(list, halts))
		if verified.Drift > 0 && !w.deep {
			faults = append(faults, fmt.Errorf("verify finds %q", verified.Examples))
		}
	} else {
		faults = append(faults, w.judgeRestored(halts))
	}
	return errors.Join(faults...)
}

// judgeOne compares a payout in the books with the chain.
func (w *world) judgeOne(id payout.ID, a *account, verified audit.Invariant) error {
	times, sum := w.chain.payments(a.Address)
	denied := !a.ended.IsZero() && a.confirmed != (times == 1)
	switch {
	case times > 1:
		return fmt.Errorf("payout %s was received %d times", id, times)
	case times == 1 && sum != uint64(a.Net()/1_000):
		return fmt.Errorf("payout %s: %d units were received", id, sum)
	case denied && !w.deep:
		return fmt.Errorf("payout %s: the books say %t, and it was received %d times", id, a.confirmed, times)
	case w.deep:
		return w.judgeDeep(id, a, denied, verified)
	}
	return nil
}

// judgeDeep judges a payout of a chain that took final blocks back. Another transaction
// of a nonce may be mined then than the transaction that the books rest on. No sender can prevent that, so a halt and
// verify name the payout.
func (w *world) judgeDeep(id payout.ID, a *account, denied bool, verified audit.Invariant) error {
	halted := slices.ContainsFunc(w.db.AllHalts(chain.Base), func(h sending.Halt) bool { return denies(h.Detail, id) })
	named := slices.ContainsFunc(verified.Examples, func(fault string) bool { return denies(fault, id) })
	if denied {
		w.result.Denied++
	}
	switch {
	case denied != named:
		return fmt.Errorf("payout %s: the books say %t; the chain denies it: %t; verify says so: %t (%d faults)", id,
			a.confirmed, denied, named, verified.Drift)
	case denied && !halted:
		return fmt.Errorf("payout %s: the books say %t, the chain denies it, and no halt has named it", id, a.confirmed)
	}
	return nil
}

// denies reports whether a text says of a payout that the chain denies how it ended.
func denies(text string, id payout.ID) bool {
	return strings.Contains(text, id.String()) && strings.Contains(text, "it is stored as")
}

// judgeWhole judges a history in which the database never went back.
func (w *world) judgeWhole(list []payout.Payout, halts []sending.Halt) error {
	var faults []error
	for _, h := range halts {
		if !w.deep || h.Cause != sending.FinalReorged {
			faults = append(faults, fmt.Errorf("the chain is halted: %s: %s", h.Cause, h.Detail))
		}
	}
	for _, p := range list {
		if !p.State.Final() {
			faults = append(faults, fmt.Errorf("payout %s is %s (%s): %w", p.ID, p.State, p.Waiting, errUnfinished))
		}
	}
	cost := 0
	for _, b := range w.chain.blocks {
		for _, m := range b.txs {
			if _, posted := w.gas[m.hash]; !posted && !w.deep {
				faults = append(faults, fmt.Errorf("the books do not have the gas of %s", m.hash))
			}
			cost++
		}
	}
	if len(w.gas) > cost && !w.deep {
		faults = append(faults, fmt.Errorf("the books have the gas of %d transactions, and there are %d", len(w.gas), cost))
	}
	return errors.Join(faults...)
}

// judgeRestored judges a history in which the database went back.
func (w *world) judgeRestored(halts []sending.Halt) error {
	own, err := w.db.Next(context.Background(), chain.Base, wallet, sending.Payout)
	_, latest := w.chain.nonces(wallet)
	if known := max(w.disk.next, latest); err == nil && known > own && len(halts) == 0 {
		return fmt.Errorf("the database has nonce %d, the world %d, and the chain is not halted", own, known)
	}
	return err
}

// countTakenBack counts the ended calls whose final block is gone.
func (w *world) countTakenBack() {
	late, _ := w.db.Late(context.Background(), chain.Base, sending.Place{}, 10_000)
	for _, s := range late {
		if r, mined := w.chain.receipt(s.End.Transaction); !mined || r.BlockHash != s.End.BlockHash {
			w.result.TakenBack++
		}
	}
}

func (w *world) count(p payout.Payout) {
	w.result.Payouts++
	switch p.State {
	case payout.Confirmed:
		w.result.Confirmed++
	case payout.Failed:
		w.result.Failed++
	case payout.Cancelled:
		w.result.Cancelled++
	case payout.Requested, payout.Approved, payout.Signing, payout.Submitted: // it has not ended
	}
	if s, ok, _ := w.db.Call(context.Background(), payout.Purpose, p.ID.String()); ok {
		w.result.Bumps += max(len(s.Signed)-1, 0)
	}
}
