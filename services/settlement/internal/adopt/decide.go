package adopt

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

const (
	// cancelGas is what a cancel takes.
	cancelGas = 21_000
	// sweepPurpose is that of sweeps' calls.
	sweepPurpose = "sweep"
	// maxGas and maxRaw bound what the database keeps of a transaction.
	maxGas, maxRaw = 10_000_000, 8_192
)

// Decide makes a plan of facts and of an operator's words.
func Decide(f Facts, w Words) Plan {
	p := Plan{Chain: f.Chain, More: f.More, Deposits: f.Deposits, Sweeps: f.Sweeps}
	pairs := f.matches(w)
	paying := map[int]int{} // payouts by the lines of their nonces
	taken := map[int]bool{}
	for _, j := range pairs {
		taken[j] = true
	}
	for i, n := range f.Nonces {
		j, paired := pairs[i]
		if !paired {
			p.Calls = append(p.Calls, f.doubtful(f.other(n, w), taken))
			continue
		}
		paying[j] = i
		p.Calls = append(p.Calls, f.paying(n, j, w))
	}
	for j := range f.Payouts {
		line := PayoutLine{Lost: f.Payouts[j]}
		if i, ok := paying[j]; ok {
			f.follow(&line, &p.Calls[i])
		} else if !f.unpaid(&line, p.Calls, w) {
			continue
		}
		if i, ok := paying[j]; ok {
			p.Calls[i].Payout = len(p.Payouts)
		}
		p.Payouts = append(p.Payouts, line)
	}
	p.claim()
	p.queue()
	return p
}

// paying is the line of a nonce that pays a payout.
func (f Facts) paying(n Nonce, j int, w Words) CallLine {
	l := &f.Payouts[j]
	c, _, _, _ := f.payment(n, l)
	line := CallLine{Nonce: n, What: Payout, Action: Record, Payout: j, Call: c,
		Detail: fmt.Sprintf("$%s to %s", l.Net(), l.Address)}
	switch {
	case n.Sent == nil:
		line.Action = SignAgain
	case n.Cancels():
		line.What = Cancel
		line.Detail = "the cancel of a payout of " + line.Detail
	case !n.Receipt.Succeeded:
		line.Detail += ", reverted"
	}
	if _, said := w.Match[hashOf(n)]; n.Sent != nil && !said && !w.Accept[hashOf(n)] && n.disputed(c.Hash) {
		line.Action = Ask
		line.Detail += "; the signer has signed something else with this nonce: who has its key?"
	}
	return line.bounded()
}

// disputed reports whether the signer's record of the nonce is another one than what the chain has. A signer that lost
// its record disputes nothing.
func (n Nonce) disputed(content chain.Hash) bool {
	switch {
	case n.Promised == nil:
		return false
	case n.Cancels():
		return !n.Promised.Cancelled
	default:
		return n.Promised.Content != content
	}
}

func hashOf(n Nonce) chain.Hash {
	if n.Sent == nil {
		return chain.Hash{}
	}
	return n.Sent.Hash
}

// doubtful asks of which payout an unexplained transaction is, where it may be one that is not paid otherwise: that it
// is accepted as unknown does not say. A nonce that no block has is cancelled all the same: it has no transaction that
// a word could name, and a final block then has it or its cancel.
func (f Facts) doubtful(line CallLine, taken map[int]bool) CallLine {
	if line.Nonce.Key != sending.Payout || line.What != Unknown || line.Nonce.Known != nil || line.Nonce.Sent == nil {
		return line
	}
	for j := range f.Payouts {
		if !taken[j] && f.pays(line.Nonce, &f.Payouts[j]) {
			line.Action = Ask
			line.Detail += "; it may be payout " + f.Payouts[j].ID.String() + ": say which it is"
			return line
		}
	}
	return line
}

// bounded asks where the database cannot keep a transaction.
func (l CallLine) bounded() CallLine {
	s := l.Nonce.Sent
	if s != nil && (s.Gas > maxGas || len(s.Raw) > maxRaw || len(s.Data) > sending.MaxData || s.Fees.Max.IsZero() ||
		s.Creates) {
		l.Action, l.Detail = Ask, "the database cannot keep it: "+l.Detail
	}
	if l.Call.Gas < cancelGas {
		l.Call.Gas = cancelGas
	}
	return l
}

// other is the line of a nonce that pays no payout.
func (f Facts) other(n Nonce, w Words) CallLine {
	line := CallLine{Nonce: n, Payout: -1}
	switch {
	case n.Known != nil:
		return f.forgotten(line)
	case n.Key == "deposit":
		line.What, line.Action, line.Detail = Unknown, Ask, "no account has this deposit address"
		return line
	case n.Mined:
		line.What, line.Action, line.Detail = Unknown, Wait, "its block is not final"
		if n.Promised != nil && n.Promised.Cancelled {
			line.What = Cancel
		}
		return line
	case n.Sent == nil:
		return f.unsent(line)
	}
	line.Call = f.sent(n)
	line.What, line.Detail = f.explain(n, &line)
	line.Action = Record
	promised := n.Promised != nil && (n.Promised.Content == line.Call.Hash || n.Cancels() && n.Promised.Cancelled)
	if line.What == Payout || !promised {
		line.What = Unknown
	}
	if line.What == Unknown && !w.Accept[n.Sent.Hash] {
		line.Action = Ask
		if !promised {
			line.Detail += "; the signer has not signed it"
		}
	}
	return line.bounded()
}

// sent is the call that a transaction is.
func (f Facts) sent(n Nonce) sending.Call {
	r := sending.Request{Chain: f.Chain, Key: n.Key, Purpose: Purpose, Ref: refOf(n), To: n.Sent.To,
		Value: n.Sent.Value, Data: n.Sent.Data}
	return sending.Prepared{Request: r, Sender: n.Sender, Gas: n.Sent.Gas}.At(n.Nonce)
}

// refOf names a nonce for ever.
func refOf(n Nonce) string { return fmt.Sprintf("%s/%s/%d", n.Chain, n.Sender, n.Nonce) }

// unsent is the line of a nonce that no block has, and that pays no payout that is known.
func (f Facts) unsent(line CallLine) CallLine {
	n := line.Nonce
	line.What = Cancel
	if n.Promised != nil && !n.Promised.Content.IsZero() {
		line.What, line.Action = Unknown, SignCancel
		line.Detail = fmt.Sprintf("signed, in no block; it moves %s of %s", n.Promised.Amount, f.assetName(n.Promised.Asset))
		return line
	}
	line.Action, line.Cancel, line.Detail = SignAgain, true, "it never had a content, and is cancelled"
	r := sending.Request{Chain: f.Chain, Key: n.Key, Purpose: Purpose, Ref: refOf(n), To: n.Sender}
	line.Call = sending.Prepared{Request: r, Sender: n.Sender, Gas: cancelGas}.At(n.Nonce)
	return line
}

func (f Facts) assetName(a chain.Address) string {
	switch a {
	case chain.Address{}:
		return "the coin"
	case f.USDC:
		return "usdc"
	default:
		return a.String()
	}
}

// forgotten is the line of a call whose final transaction the database does not have.
func (f Facts) forgotten(line CallLine) CallLine {
	n := line.Nonce
	line.Call, line.Action, line.What = n.Known.Call, Record, Collateral
	line.Detail = "the transaction of " + n.Known.Call.Purpose + " " + n.Known.Call.Ref
	switch n.Known.Call.Purpose {
	case payout.Purpose:
		line.What = Payout
	case sweepPurpose:
		line.What = Sweep
	case Purpose:
		line.What = Unknown
	}
	switch {
	case n.Cancels():
		line.What = Cancel
	case f.sent(n).Hash != n.Known.Call.Hash:
		line.What, line.Action = Unknown, Ask
		line.Detail = "another content than that of " + n.Known.Call.Purpose + " " + n.Known.Call.Ref
	}
	return line.bounded()
}

// calls are the functions of the collateral contract, for people.
var calls = func() map[[4]byte]string {
	all := map[[4]byte]string{}
	for name, data := range map[string][]byte{
		"requests a refund":    contract.RequestRefund(contract.Word{}, chain.Address{}),
		"cancels a refund":     contract.CancelRefund(contract.Word{}, chain.Address{}),
		"executes a refund":    contract.ExecuteRefund(contract.Word{}, chain.Address{}),
		"proposes a slash":     contract.ProposeSlash(contract.Word{}, contract.Word{}, chain.Address{}, chain.Amount{}),
		"appeals a slash":      contract.Appeal(contract.Word{}),
		"executes a slash":     contract.ExecuteSlash(contract.Word{}),
		"decides on an appeal": contract.Resolve(contract.Word{}, false),
		"has a slash lapse":    contract.Lapse(contract.Word{}),
	} {
		all[[4]byte(data)] = name
	}
	return all
}()

// authorized is the selector of transferWithAuthorization.
var authorized = []byte{0xe3, 0xee, 0x16, 0x0e}

// explain says what a transaction does.
func (f Facts) explain(n Nonce, line *CallLine) (What, string) {
	s := n.Sent
	switch {
	case n.Cancels():
		return Cancel, "it does nothing"
	case len(s.Data) >= 4 && s.To == f.Collateral && calls[[4]byte(s.Data)] != "":
		return Collateral, calls[[4]byte(s.Data)]
	case len(s.Data) == 4+9*32 && s.To == f.USDC && bytes.HasPrefix(s.Data, authorized):
		copy(line.SweepOf[:], s.Data[4+12:])
		line.Swept, _ = chain.AmountOf(s.Data[4+64 : 4+96])
		f.sweep(line, [32]byte(s.Data[4+5*32:]))
		return Sweep, fmt.Sprintf("%s of usdc from %s", line.Swept, line.SweepOf)
	case len(s.Data) == 0 && s.To == f.Treasury && n.Key != sending.Payout:
		line.SweepOf, line.Swept = n.Sender, s.Value
		f.sweep(line, [32]byte{})
		return Sweep, fmt.Sprintf("%s wei from %s", s.Value, n.Sender)
	case n.Key == sending.Payout && s.To == f.Asset.Contract && len(s.Data) == 4+64:
		amount, _ := chain.AmountOf(s.Data[36:])
		return Payout, fmt.Sprintf("%s of %s to %s, which is no payout of the books", amount, f.Asset.Symbol,
			paid(s, f.Asset))
	default:
		return Unknown, fmt.Sprintf("%s wei and %d bytes to %s", s.Value, len(s.Data), s.To)
	}
}

// sweep makes a call that of the open sweep whose authorization it used. A sweep of tokens that failed took nothing,
// and one of coins its gas.
func (f Facts) sweep(line *CallLine, nonce [32]byte) {
	open, ok := f.Sweeps[line.SweepOf]
	if ok && nonce == sha256.Sum256([]byte("sweep "+open.ID)) {
		line.sweeps(open)
		return
	}
	_, ours := f.Deposits[line.SweepOf]
	if !ours || !line.Nonce.Receipt.Succeeded && nonce != [32]byte{} {
		line.SweepOf = chain.Address{}
	}
}

func (l *CallLine) sweeps(open OpenSweep) { l.Call.Purpose, l.Call.Ref = sweepPurpose, open.ID }

// claim makes the open sweep of an address that no call used that of the first call that swept the address otherwise:
// what it was planned to take is gone. The process that plans sweeps does not know of those that were lost.
func (p *Plan) claim() {
	used := map[string]bool{}
	for _, l := range p.Calls {
		used[l.Call.Ref] = used[l.Call.Ref] || l.Call.Purpose == sweepPurpose
	}
	for i := range p.Calls {
		l := &p.Calls[i]
		open, ok := p.Sweeps[l.SweepOf]
		if ok && l.What == Sweep && l.Call.Purpose == Purpose && !used[open.ID] {
			l.sweeps(open)
			used[open.ID] = true
		}
	}
}

// follow is a payout whose nonce was found.
func (f Facts) follow(line *PayoutLine, call *CallLine) {
	_, line.Amount, line.Quote, _ = f.payment(call.Nonce, &line.Lost)
	line.Action = Follow
	switch {
	case line.Lost.Open != payout.ID{}:
		line.Action, line.Detail = Wait, "payout "+line.Lost.Open.String()+" of the provider has not ended"
		call.Action, call.Detail = Wait, call.Detail+": another payout of the provider has not ended"
	case call.Action == Ask:
		line.Action, line.Detail = Ask, "its transaction needs a word"
	case call.Nonce.Sent == nil:
		line.Detail = "it is signed again"
	default:
		line.Detail = "transaction " + call.Nonce.Sent.Hash.String()
	}
}

// unpaid is a payout without a nonce. It returns false where there is nothing to do.
func (f Facts) unpaid(line *PayoutLine, calls []CallLine, w Words) bool {
	l := &line.Lost
	said := w.GiveBack[l.ID]
	switch {
	case l.Row != nil && (l.Row.State.Final() || l.Row.EndsAs != "" || l.End == InFlight):
		return false // it goes on by itself
	case l.End == Confirmed:
		line.Action, line.Detail = Ask, "the books have paid it with "+l.Token+", and no transaction was found"
		if l.Token != f.Chain.Token(f.Asset.Kind) {
			line.Action, line.Detail = Wait, "it was paid with "+l.Token
		}
		return l.Token == f.Chain.Token(f.Asset.Kind)
	case l.End == Failed && l.Row == nil && l.Address.IsZero():
		return false // the books are done with it, and nobody knows its address
	case l.Open != payout.ID{}:
		line.Action, line.Detail = Wait, "payout "+l.Open.String()+" of the provider has not ended"
		return true
	case l.Address.IsZero():
		line.Action, line.Detail = Ask, "the provider has no beneficiary address"
		return true
	case l.End == InFlight && !said && f.Unexplained:
		line.Action, line.Detail = Ask, "a transaction that nothing explains may have paid it"
		return true
	case l.End == InFlight && f.Elsewhere != 0:
		line.Action, line.Detail = Wait, "a lost nonce of chain "+f.Elsewhere.String()+" may have paid it"
		return true
	}
	for _, c := range calls {
		if l.End != InFlight || c.Nonce.Key != sending.Payout || c.Payout >= 0 {
			continue
		}
		if c.Action != Record && c.Action != SignAgain || c.What == Unknown && !said {
			line.Action, line.Detail = Wait, fmt.Sprintf("nonce %d may have paid it", c.Nonce.Nonce)
			if c.Action == Record {
				line.Action = Ask
			}
			return true
		}
	}
	line.Action, line.Detail = GiveBack, "no transaction pays it"
	return true
}

// queue lets what stands behind a nonce that waits wait as well: nonces are taken one by one.
func (p *Plan) queue() {
	stopped := map[chain.Address]bool{}
	for i := range p.Calls {
		line := &p.Calls[i]
		if line.Nonce.Known != nil {
			continue
		}
		if stopped[line.Nonce.Sender] && (line.Action == Record || line.Action == SignAgain) {
			line.Action, line.Detail = Wait, line.Detail+"; an earlier nonce waits"
			if line.Payout >= 0 {
				p.Payouts[line.Payout].Action = Wait
			}
		}
		stopped[line.Nonce.Sender] = stopped[line.Nonce.Sender] || line.Action != Record && line.Action != SignAgain
	}
}
