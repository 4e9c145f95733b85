package adopt_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

var (
	hot  = chain.Address{0: 0xaa}
	usdc = chain.Asset{Chain: chain.Base, Kind: chain.USDC, Contract: chain.Address{0: 0xbb}, Decimals: 6, Symbol: "USDC"}
	home = func(n byte) chain.Address { return chain.Address{0: 0x77, 19: n} }
)

// lost is a payout of $100 of a provider, the nth in time.
func lost(n, provider byte, end adopt.End) adopt.Lost {
	b := adopt.Booked{ID: payout.ID{0: 1, 6: 0x70, 8: 0x80, 15: n}, Provider: ids.ProviderID{0: 1, 15: provider},
		Gross: 100 * money.USD, At: time.Unix(int64(n)*3600, 0), End: end}
	if end == adopt.Confirmed {
		b.Token, b.Units = chain.Base.Token(chain.USDC), 99_000_000
	}
	return adopt.Lost{Booked: b, Address: home(provider)}
}

// paid is a nonce that pays micro-dollars to an address, as a final block has it and the signer signed it.
func paid(nonce uint64, to chain.Address, micro uint64, change ...func(*adopt.Nonce)) adopt.Nonce {
	data := sending.Transfer(to, chain.NewAmount(micro))
	sent := chain.Found{Hash: chain.Hash{31: byte(nonce + 1)}, From: hot, Nonce: nonce, To: usdc.Contract, Data: data,
		Gas: 90_000, Fees: chain.Fees{Max: chain.NewAmount(1)}, Raw: []byte{1}}
	call := sending.Prepared{Request: sending.Request{Chain: chain.Base, To: sent.To, Data: data}, Sender: hot}.At(nonce)
	n := adopt.Nonce{Place: sending.Place{Chain: chain.Base, Sender: hot, Nonce: nonce}, Key: sending.Payout,
		Promised: &adopt.Promised{Content: call.Hash, Asset: usdc.Contract, Amount: chain.NewAmount(micro)}, Sent: &sent,
		Receipt: &chain.Receipt{Succeeded: true, Final: true}}
	for _, f := range change {
		f(&n)
	}
	return n
}

func unmined(n *adopt.Nonce)  { n.Sent, n.Receipt = nil, nil }
func reverted(n *adopt.Nonce) { n.Receipt.Succeeded = false }
func unsigned(n *adopt.Nonce) { n.Promised = nil }
func cancelled(n *adopt.Nonce) {
	n.Sent.To, n.Sent.Data, n.Promised.Cancelled = hot, nil, true
}

// otherwise has the signer sign another content, and secretly has it sign no cancel.
func otherwise(n *adopt.Nonce) { n.Promised.Content[0]++ }
func secretly(n *adopt.Nonce)  { n.Promised.Cancelled = false }

func facts(nonces []adopt.Nonce, payouts ...adopt.Lost) adopt.Facts {
	return adopt.Facts{Chain: chain.Base, Asset: usdc, USDC: usdc.Contract, Nonces: nonces, Payouts: payouts}
}

// said is a plan in short: of each nonce what and action, with the number of its payout; then of each payout.
func said(p adopt.Plan) string {
	var all []string
	for _, c := range p.Calls {
		text := string(c.What) + " " + string(c.Action)
		if c.Payout >= 0 {
			text += fmt.Sprint(" ", p.Payouts[c.Payout].Lost.ID[15])
		}
		all = append(all, text)
	}
	for _, l := range p.Payouts {
		all = append(all, fmt.Sprint(l.Lost.ID[15], " ", l.Action))
	}
	return strings.Join(all, "; ")
}

const usd99 = 99_000_000

type story struct {
	f    adopt.Facts
	w    adopt.Words
	want string
}

func list(n ...adopt.Nonce) []adopt.Nonce { return n }

// which says that the first transaction is the nth payout.
func which(n byte) adopt.Words {
	return adopt.Words{Match: map[chain.Hash]payout.ID{{31: 1}: {0: 1, 6: 0x70, 8: 0x80, 15: n}}}
}

// mined are stories in which blocks have all nonces.
func mined() map[string]story {
	return map[string]story{
		"two payouts of a provider, in their order": {f: facts(list(paid(0, home(1), usd99), paid(1, home(1), usd99)),
			lost(1, 1, adopt.Confirmed), lost(2, 1, adopt.InFlight)),
			want: "payout record 1; payout record 2; 1 follow; 2 follow"},
		"the books have paid the first, and the second was not sent": {
			f:    facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.Confirmed), lost(2, 1, adopt.InFlight)),
			want: "payout record 1; 1 follow; 2 give_back"},
		"the first was cancelled before it was sent": {
			f:    facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.Failed), lost(2, 1, adopt.InFlight)),
			want: "payout record 2; 1 give_back; 2 follow"},
		"one reverted, one succeeded": {
			f: facts(list(paid(0, home(1), usd99, reverted), paid(1, home(1), usd99)), lost(1, 1, adopt.Failed),
				lost(2, 1, adopt.InFlight)), want: "payout record 1; payout record 2; 1 follow; 2 follow"},
		"two of a provider that either may be": {
			f:    facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight), lost(2, 1, adopt.InFlight)),
			want: "unknown ask; 1 wait; 2 wait"},
		"two providers of one address": {f: func() adopt.Facts {
			second := lost(2, 2, adopt.InFlight)
			second.Address = home(1)
			return facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight), second)
		}(), want: "unknown ask; 1 wait; 2 wait"},
		"accepting does not say which of two it is": {
			f: facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight), lost(2, 1, adopt.InFlight)),
			w: adopt.Words{Accept: map[chain.Hash]bool{{31: 1}: true}}, want: "unknown ask; 1 wait; 2 wait"},
		"an operator says which": {
			f:    facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight), lost(2, 1, adopt.InFlight)),
			w:    which(2),
			want: "payout record 2; 1 give_back; 2 follow"},
		"an operator says it of an address that is another now": {
			f:    facts(list(paid(0, home(9), usd99)), lost(1, 1, adopt.InFlight)),
			w:    which(1),
			want: "payout record 1; 1 follow"},
		"an operator says it of another amount": {
			f:    facts(list(paid(0, home(1), 5)), lost(1, 1, adopt.InFlight)),
			w:    which(1),
			want: "unknown ask; 1 wait"},
	}
}

// others are the other stories.
func others() map[string]story {
	approved := lost(1, 1, adopt.InFlight)
	approved.Row = &payout.Payout{Draft: payout.Draft{ID: approved.ID, Chain: chain.Base}, State: payout.Approved}
	behind := lost(2, 1, adopt.InFlight)
	behind.Open = payout.ID{15: 1}
	return map[string]story{
		"signed, in no block, proven by its hash": {
			f:    facts(list(paid(0, home(1), usd99, unmined)), lost(1, 1, adopt.InFlight)),
			want: "payout sign_again 1; 1 follow"},
		"signed, in no block, of nobody": {
			f:    facts(list(paid(0, home(9), usd99, unmined)), lost(1, 1, adopt.InFlight)),
			want: "unknown cancel; 1 wait"},
		"cancelled on the chain, proven by its hash": {
			f:    facts(list(paid(0, home(1), usd99, cancelled)), lost(1, 1, adopt.InFlight)),
			want: "cancel record 1; 1 follow"},
		"a nonce without any content": {
			f:    facts(list(paid(0, home(1), usd99, unmined, unsigned), paid(1, home(1), usd99)), lost(1, 1, adopt.InFlight)),
			want: "cancel sign_again; payout record 1; 1 follow"},
		"a row that goes on by itself": {f: facts(nil, approved), want: ""},
		"a row whose transaction is there": {f: facts(list(paid(0, home(1), usd99)), approved),
			want: "payout record 1; 1 follow"},
		"what stands behind a nonce that waits": {
			f:    facts(list(paid(0, home(9), 5), paid(1, home(1), usd99)), lost(1, 1, adopt.InFlight)),
			want: "unknown ask; payout wait 1; 1 wait"},
		"another payout of the provider has not ended": {f: facts(list(paid(0, home(1), usd99)), behind),
			want: "payout wait 2; 2 wait"},
		"paid in the books, and nowhere": {f: facts(nil, lost(1, 1, adopt.Confirmed)), want: "1 ask"},
		"another chain has lost nonces": {f: func() adopt.Facts {
			f := facts(nil, lost(1, 1, adopt.InFlight))
			f.Elsewhere = chain.SVC
			return f
		}(), want: "1 wait"},
	}
}

// attacks are stories in which a witness or an operator says something that is not so.
func attacks() map[string]story {
	second := lost(2, 2, adopt.InFlight)
	other := second
	other.Gross = 200 * money.USD
	accepted := adopt.Words{Accept: map[chain.Hash]bool{{31: 1}: true}}
	givenBack := adopt.Words{GiveBack: map[payout.ID]bool{lost(1, 1, adopt.InFlight).ID: true}}
	return map[string]story{
		"an operator says that another provider was paid": {
			f: facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight), second),
			w: which(2), want: "payout record 1; 1 follow; 2 give_back"},
		"an operator says it of another's address": {
			f: facts(list(paid(0, home(2), usd99)), lost(1, 1, adopt.InFlight), other),
			w: which(1), want: "unknown ask; 1 wait; 2 wait"},
		"an operator says it of a payout that the books gave back": {
			f: facts(list(paid(0, home(9), usd99)), lost(1, 1, adopt.Failed)),
			w: which(1), want: "unknown ask; 1 give_back"},
		"an operator says it of a payout that there is not": {
			f: facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight)),
			w: which(7), want: "payout record 1; 1 follow"},
		"an operator says that a payout was not sent, and it was": {
			f: facts(list(paid(0, home(1), usd99)), lost(1, 1, adopt.InFlight)),
			w: givenBack, want: "payout record 1; 1 follow"},
		"an operator says it while its nonce is in no block": {
			f: facts(list(paid(0, home(9), usd99, unmined)), lost(1, 1, adopt.InFlight)),
			w: givenBack, want: "unknown cancel; 1 wait"},
		"the signer has signed something else": {
			f:    facts(list(paid(0, home(1), usd99, otherwise)), lost(1, 1, adopt.InFlight)),
			want: "payout ask 1; 1 ask"},
		"the signer has signed something else, and an operator accepts it": {
			f: facts(list(paid(0, home(1), usd99, otherwise)), lost(1, 1, adopt.InFlight)),
			w: accepted, want: "payout record 1; 1 follow"},
		"the signer has signed something else that no block has": {
			f:    facts(list(paid(0, home(1), usd99, unmined, otherwise)), lost(1, 1, adopt.InFlight)),
			want: "unknown cancel; 1 wait"},
		"the signer has signed no cancel": {
			f:    facts(list(paid(0, home(1), usd99, cancelled, secretly)), lost(1, 1, adopt.InFlight)),
			want: "cancel ask 1; 1 ask"},
		"the signer has lost its record": {f: facts(list(paid(0, home(1), usd99, unsigned)), lost(1, 1, adopt.InFlight)),
			want: "payout record 1; 1 follow"},
	}
}

func TestAPlanFollowsTheWitnessesAndGuessesNothing(t *testing.T) {
	t.Parallel()
	all := mined()
	maps.Copy(all, others())
	maps.Copy(all, attacks())
	for name, tc := range all {
		if got := said(adopt.Decide(tc.f, tc.w)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
