// Package auditor judges the marketplace's money from the outside. It knows what
// clients received, what engines sent, the rows of billing-ledger and settlement, and, where
// payouts go out, what chains say by themselves, and nothing else. Every amount is computed
// anew here, from the published rules. No code of the judged services is used, so that an
// error of theirs is not repeated.
//
// It finds five kinds of wrong:
//
//	lost       a whole answer that the ledger did not settle, or for less
//	doubled    a request charged or paid twice, or above what the table of
//	           stream endings allows for what its client got (endings.go)
//	unpaid     content that reached a client and is not credited to its provider
//	overdrawn  an account that spent more than it had, or ran above a limit
//	drift      a balance, counter or accrual that is not the sum of its rows
//
// Of settlement it computes anew, from the ledger's rows, each day's list of what
// providers earned, their shares, the root of each batch and the proof in each statement
// (shares.go), and the division of each closed month of plans (months.go). A share that is
// posted twice is doubled, and one whose posting is lost is unpaid. Every payout has the
// entries of its state and one transaction (paid.go), and is received on its chain once if
// it is confirmed, and else never (chainside.go). Positions of collateral are what the
// books have in custody (positions.go), nothing of a provider is ever below nothing
// (standing.go), and wallets hold what the books say (reserves.go).
//
// One wrong fact may show as several of them. The input must be of an idle fleet: a
// request that is still open is not judged, and makes the audit undecided.
//
// Inputs are streamed, one line at a time of at most 4 MiB. About 1.2 KiB are kept for
// each request, whose number is bounded by Options.MaxRequests. With room for the garbage
// collector a million requests need about 3 GiB. A malformed, truncated or contradictory
// input is refused with its line.
//
// These inputs cannot tell:
//
//   - The order of transactions whose times lie within Options.Skew. A row has the
//     time at which its transaction began, not that of its commit, so rows may
//     stand in another order than they took effect in. The replay of balances
//     takes every credit as early and every debit as late as its row allows. So the
//     replay never invents an overdraft, and misses an overdraft within that leeway.
//   - What a gateway wrote to a connection that was lost, or whose client left:
//     there, bounds are judged (endings.go says which).
//   - What an account may do that no row records: the rate and the concurrency of
//     keys are judged only by limits that the setup names, because a rate leaves no
//     count behind.
//   - Whether a shortfall was unavoidable: whether the wallet had no more at that
//     moment depends on an order that rows do not have. Only that the whole hold
//     was taken first is judged.
//   - A request that is neither in a client's record by its id nor in an engine's
//     by its nonce, of an account that no client used.
//   - Whose a signature on a statement is, whether a CSV has the digest in its statement, and
//     whether a beneficiary is the one that the hub has: batches are bound to it by their roots.
//   - What became of payouts on chains that Inputs.Chains does not have.
//   - How many images or how much audio a call was for, because the records of
//     clients and engines count tokens. Settled requests are judged by their holds.
//   - Tokens of engines whose tokens are not counted alike by everybody. Clients,
//     engines and hubs agree on the count when each token is one word in one
//     piece of content.
package auditor

import (
	"fmt"
	"io"
	"time"
)

// Inputs are the files of an audit. Setup may be nil, and so may Chains, which is what chains say by themselves.
type Inputs struct {
	Export, Earnings, Clients, Engines, Setup, Chains io.Reader
}

// Options of an audit. Zero takes the default.
type Options struct {
	// Skew is the longest time of a transaction from its first statement to its commit; 2
	// s by default.
	Skew time.Duration
	// MaxRequests bounds the requests, the entries and the client calls that are kept,
	// each; 4,194,304 by default.
	MaxRequests int
}

const (
	defaultSkew        = 2 * time.Second
	defaultMaxRequests = 4 << 20
)

func (o Options) withDefaults() Options {
	if o.Skew == 0 {
		o.Skew = defaultSkew
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = defaultMaxRequests
	}
	return o
}

// Audit reads the inputs and judges them. An error means that nothing could be judged.
func Audit(in Inputs, opts Options) (*Report, error) {
	opts = opts.withDefaults()
	w := newWorld(opts.MaxRequests)
	for _, f := range []struct {
		name string
		from io.Reader
		read func(io.Reader) error
	}{
		{"setup", in.Setup, w.readSetup},
		{"export", in.Export, w.readExport},
		{"earnings", in.Earnings, w.readEarnings},
		{"engines", in.Engines, w.readEngines},
		{"clients", in.Clients, w.readClients},
		{"chains", in.Chains, w.readChains},
	} {
		if f.from == nil {
			if f.name == "setup" || f.name == "chains" {
				continue
			}
			return nil, fmt.Errorf("%s: there is none", f.name)
		}
		if err := f.read(f.from); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	a := &audit{world: w, skew: opts.Skew.Microseconds(), r: newReport()}
	a.tie()
	for _, check := range []func(){
		a.checkEntries, a.checkRefunds, a.checkHolds, a.checkReceipts, a.checkWallets, a.checkSlices, a.checkCounters,
		a.checkTrialBalance, a.checkDays,
		a.checkEarnings, a.checkLists, a.checkBatches, a.checkMonths, a.checkStanding, a.checkPayouts, a.checkAdopted,
		a.checkChains, a.checkPositions, a.checkBacks, a.checkReserves, a.checkSetup, a.replay,
		a.checkLimits, a.checkPlans, a.judgeClients,
	} {
		check()
	}
	a.summarize()
	return a.r, nil
}
