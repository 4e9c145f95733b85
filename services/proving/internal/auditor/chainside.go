package auditor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
)

// chainSide is what chains say by themselves: rows that the harness reads from their nodes and not from the services.
type chainSide struct {
	// looked are the chains that were read, with the last block that is final.
	looked    map[int64]int64
	mined     map[hash32]*mined
	transfers []transfer
	holdings  map[walletKey]*big.Int
	cards     map[string]cardPayment
	positions
}

func newChainSide() chainSide {
	return chainSide{looked: map[int64]int64{}, mined: map[hash32]*mined{}, holdings: map[walletKey]*big.Int{},
		cards:     map[string]cardPayment{},
		positions: newPositions()}
}

// mined is a transaction that its chain has.
type mined struct {
	nonce
	to        address
	value     *big.Int
	succeeded bool
	block     int64
}

// transfer is an event of a token, of a transaction that succeeded.
type transfer struct {
	chain    int64
	hash     hash32
	from, to address
	amount   *big.Int
}

// walletKey names what an address of the platform holds of an asset, in the ledger's words: 8453:usdc. Its role is hot,
// treasury, deposit or contract.
type walletKey struct {
	asset, role string
	at          address
}

// readChains reads what chains say: rows of the tables chain, transaction, transfer and wallet.
func (w *world) readChains(from io.Reader) error {
	l := newLines(from)
	tables := map[string]func(*record){
		"chain":       func(r *record) { put(w, r, w.looked, r.integer("chain_id"), r.count("final_block")) },
		"transaction": w.takeMined, "transfer": w.takeTransfer, "wallet": w.takeWalletOf,
		"card": w.takeCard,
	}
	return l.each(true, func(rec *record) error {
		table := rec.text("table")
		row := rec.object(l, "row")
		if rec.err != nil {
			return nil
		}
		take, ok := tables[table]
		if !ok {
			return fmt.Errorf("table %q is not known", table)
		}
		if take(&row); row.err != nil {
			return errors.Join(fmt.Errorf("table %s", table), row.err)
		}
		return nil
	})
}

func (w *world) takeMined(r *record) {
	put(w, r, w.mined, r.hash("hash"), &mined{r.nonce(), r.address("recipient"), r.large("value"), r.flag("succeeded"),
		r.count("block")})
}

func (w *world) takeTransfer(r *record) {
	if len(w.transfers) >= w.max {
		r.err = errTooMany
		return
	}
	w.transfers = append(w.transfers, transfer{r.integer("chain_id"), r.hash("hash"), r.address("sender"),
		r.address("recipient"), r.large("amount")})
}

func (w *world) takeWalletOf(r *record) {
	put(w, r, w.holdings, walletKey{w.once(r.text("asset")), w.once(r.text("role")), r.address("address")},
		r.large("amount"))
}

// checkChains compares payouts with what their chains say: each is received once if it is confirmed, and else never.
func (a *audit) checkChains() {
	if len(a.looked) == 0 {
		if len(a.sends) > 0 {
			a.r.note("transactions whose chains were not read, of all kinds")
		}
		return
	}
	ofPayout := a.payoutHashes()
	received := map[id]int{}
	for _, t := range a.sent() {
		from, known := a.senders[account20{t.chain, t.from}]
		if !known || from.key != "payout" {
			continue
		}
		u, ok := ofPayout[t.hash]
		p := a.paid[u]
		switch {
		case !ok:
			a.r.found(Doubled, account20{t.chain, t.from}.subject(), "%v went to %x by %x, which is no payout",
				t.amount, t.to, t.hash)
		case t.to != p.at || p.amount == nil || t.amount.Cmp(p.amount) != 0:
			a.r.found(Drift, about("payout", u), "%v went to %x, and %v is due to %x", t.amount, t.to, p.amount, p.at)
		default:
			received[u]++
		}
	}
	for _, u := range sortedIDs(a.paid) {
		a.checkReceived(u, a.paid[u], received[u])
	}
	a.checkMined()
}

// sent is what went from one address to another: tokens by their events, and coins by transactions.
func (a *audit) sent() []transfer {
	all := slices.Clone(a.transfers)
	for hash, m := range a.mined {
		if m.succeeded && m.value.Sign() > 0 {
			all = append(all, transfer{m.chain, hash, m.at, m.to, m.value})
		}
	}
	slices.SortStableFunc(all, func(x, y transfer) int { return slices.Compare(x.hash[:], y.hash[:]) })
	return all
}

// payoutHashes are the payouts by the transactions that were signed for them.
func (a *audit) payoutHashes() map[hash32]id {
	all := map[hash32]id{}
	for hash, s := range a.signed {
		c := a.sends[s.nonce]
		if c == nil || c.purpose != "payout" || s.cancels {
			continue
		}
		if u, ok := parseID(c.ref); ok && a.paid[u] != nil {
			all[hash] = u
		}
	}
	return all
}

func (a *audit) checkReceived(u id, p *payout, times int) {
	subject := about("payout", u)
	if _, looked := a.looked[p.chain]; !looked {
		a.r.doubt(subject, "chain %d was not read", p.chain)
		return
	}
	switch {
	case times > 1:
		a.r.found(Doubled, subject, "it is received %d times", times)
	case times == 1 && (p.state == payoutFailed || p.state == payoutCancelled):
		a.r.found(Doubled, subject, "it is received on its chain, and %s in the books", p.state)
	case times == 0 && p.state == payoutConfirmed:
		a.r.found(Unpaid, subject, "it is confirmed in the books, and not received on its chain")
	case times == 1:
		a.r.count("payouts that were received once")
		if p.chain == coinChain {
			a.r.count("payouts that were received in coins")
		}
	default:
		a.r.count("payouts that were never received")
	}
}

// checkMined checks that each transaction of a sender is one that settlement had signed, that a sender's nonces on its
// chain have no gap, and that each end is the chain's own word.
func (a *audit) checkMined() {
	nonces := map[account20][]int64{}
	for _, hash := range slices.SortedFunc(maps.Keys(a.mined), func(x, y hash32) int {
		return cmp.Or(compareNonces(a.mined[x].nonce, a.mined[y].nonce), slices.Compare(x[:], y[:]))
	}) {
		m := a.mined[hash]
		if _, ours := a.senders[m.account20]; !ours {
			continue
		}
		nonces[m.account20] = append(nonces[m.account20], m.n)
		if s, ok := a.signed[hash]; !ok || s.nonce != m.nonce {
			a.r.found(Drift, m.subject(), "nonce %d was taken by %x, which settlement has not", m.n, hash)
		}
	}
	for at, all := range nonces {
		if n := int64(len(all)); all[n-1]-all[0] != n-1 {
			a.r.found(Drift, at.subject(), "its %d transactions have the nonces %d to %d", n, all[0], all[n-1])
		}
	}
	for at, end := range a.ends {
		if _, looked := a.looked[at.chain]; !looked {
			continue
		}
		m := a.mined[end.hash]
		if m == nil || m.nonce != at || m.succeeded == (end.outcome == "reverted") {
			a.r.found(Drift, at.subject(), "nonce %d %s by %x, and its chain says otherwise", at.n, end.outcome, end.hash)
		}
	}
}
