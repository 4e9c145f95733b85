package auditor

import "math/big"

// payouts are the rows of payouts and of the transactions that settlement sends.
type payouts struct {
	paid    map[id]*payout
	sends   map[nonce]*chainCall
	signed  map[hash32]signedTx
	ends    map[nonce]callEnd
	senders map[account20]sender
	adopted adoptions
}

// adoptions are the rows of what an operator had taken into a database that was set back.
type adoptions struct {
	calls   map[nonce]string
	payouts map[id]bool
}

func newAdoptions() adoptions { return adoptions{map[nonce]string{}, map[id]bool{}} }

func newPayouts() payouts {
	return payouts{paid: map[id]*payout{}, sends: map[nonce]*chainCall{}, signed: map[hash32]signedTx{},
		ends: map[nonce]callEnd{}, senders: map[account20]sender{}, adopted: newAdoptions()}
}

// account20 is an address on a chain.
type account20 struct {
	chain int64
	at    address
}

// nonce is one place in the order of an address's transactions.
type nonce struct {
	account20
	n int64
}

// sender is a row of that name.
type sender struct {
	key  string
	next int64
}

// payout is a row of that name; amount is what is sent in the smallest units, nil until that is fixed.
type payout struct {
	provider        id
	chain           int64
	gross, fee      int64
	at              address
	state           string
	reserved, final id
	amount          *big.Int
	rate            int64
}

// The states of payouts.
const (
	payoutRequested = "requested"
	payoutConfirmed = "confirmed"
	payoutFailed    = "failed"
	payoutCancelled = "cancelled"
)

// ended reports whether the payout has ended.
func (p *payout) ended() bool {
	return p.state == payoutConfirmed || p.state == payoutFailed || p.state == payoutCancelled
}

// chainCall is a row of that name.
type chainCall struct {
	purpose, ref string
	to           address
	value        *big.Int
	data         []byte
	hash         hash32
}

// signedTx is a row of that name. cancels reports that it does nothing but take its nonce.
type signedTx struct {
	nonce
	hash    hash32
	cancels bool
}

// callEnd is a row of that name.
type callEnd struct {
	outcome string
	hash    hash32
}

func (w *world) takePayout(r *record) {
	put(w, r, w.paid, r.id("payout_id"), &payout{
		provider: r.id("provider_id"), chain: r.integer("chain_id"), gross: r.count("gross_nano_usd"),
		fee: r.count("fee_nano_usd"), at: r.address("address"), state: w.once(r.text("state")),
		reserved: r.idOr("reserved_entry"), final: r.idOr("final_entry"), amount: r.largeOr("amount"),
		rate: r.integerOr("rate_nano_usd", 0),
	})
}

func (r *record) nonce() nonce {
	return nonce{account20{r.integer("chain_id"), r.address("sender")}, r.count("nonce")}
}

func (w *world) takeCall(r *record) {
	put(w, r, w.sends, r.nonce(), &chainCall{w.once(r.text("purpose")), r.text("ref"), r.address("recipient"),
		r.large("value"), r.bytes("data"), r.hash("call_hash")})
}

func (w *world) takeSigned(r *record) {
	s := signedTx{nonce: r.nonce()}
	if _, ok := r.given("call_hash"); ok {
		s.hash = r.hash("call_hash")
	} else {
		s.cancels = true
	}
	put(w, r, w.signed, r.hash("hash"), s)
}

func (w *world) takeEnd(r *record) {
	put(w, r, w.ends, r.nonce(), callEnd{w.once(r.text("outcome")), r.hash("hash")})
}

func (w *world) takeSender(r *record) {
	put(w, r, w.senders, account20{r.integer("chain_id"), r.address("address")}, sender{w.once(r.text("key")),
		r.count("next")})
}
