package auditor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The fixture's day and the days behind it, as they are written.
const (
	dayOne   = "2026-03-04"
	aDay     = 86_400 // seconds
	rich     = 4      // an account
	big1     = 30     // a request of each provider that earned dollars
	big2     = 31
	held1    = 32 // a request whose earnings are held
	planned2 = 33 // a plan's request of the second provider
	poolNano = 50
	usdcBase = "8453:usdc"
)

var (
	settlementOrder = []string{"settlement_chain_change", "batch_day", "batch_line", "batch", "batch_share", "plan_month",
		"plan_share", "sender", "chain_call", "signed_tx", "call_end", "payout", "position_event", "position",
		"adopted_call", "adopted_payout", "collateral_refund", "collateral_refund_part", "penalty", "payout_change"}
	chainsOrder = []string{"chain", "transaction", "transfer", "wallet", "card"}
)

func dumpRows(t testing.TB, tables map[string][]row, order []string) string {
	t.Helper()
	if tables == nil {
		return ""
	}
	var lines []row
	for _, table := range order {
		for _, r := range tables[table] {
			lines = append(lines, row{"table": table, "row": r})
		}
	}
	return jsonLines(t, append(lines, row{"end": true, "rows": len(lines)}))
}

// newSettled is the fixture's world after its day: batched, a month of plans closed, and paid.
func newSettled() *fixture {
	f := newFixture()
	f.add("account", row{"id": accountID(rich), "name": "rich"})
	f.grant(60, accountID(rich), 1_000_000_000_000)
	whole := stories()[wholeAnswer]
	whole.account, whole.model = rich, "dear"
	for n, provider := range map[int]int{big1: first, big2: second, held1: first} {
		whole.provider = provider
		f.tell(n, whole)
		f.hold(n)["amount"] = int64(100_000_000_000)
		f.call(len(f.clients) - 1)["account_id"] = accountID(rich)
	}
	plan := stories()[planned]
	plan.provider = second
	f.tell(planned2, plan)
	bump(f.tables["plan_counter"][0], "used", 1)
	bump(f.tables["plan_counter"][1], "used", 12)
	charged := f.line(big1)["charged"].(int64) + f.line(big2)["charged"].(int64) + f.line(held1)["charged"].(int64)
	f.add("wallet", row{"account_id": accountID(rich), "posted": 1_000_000_000_000 - charged, "held": 0})
	f.add("key_inflight", row{"key_id": keyID(rich), "n": 0})
	f.add("held_earning", row{"request_id": requestID(held1), "provider_id": providerID(first), "book": "",
		"payout": f.line(held1)["payout"], "held_at": at(3*held1 + 2), "ended_at": nil, "ended_as": nil})
	refund(f, 50, requestID(wholeAnswer), f.line(wholeAnswer)["charged"].(int64))
	f.seal()
	f.post(entryID(61), "plan_sale", "invoice 1", aDay+10, nil, leg("a:card_clearing", nil, -poolNano),
		leg("l:plan_pool", nil, poolNano))
	f.legs(61)[1]["book"] = "2026-03"
	f.allow()
	f.batch()
	f.closeMonth()
	f.pay()
	return f
}

// allow adds the rules of what settlement posts.
func (f *fixture) allow() {
	for _, r := range []string{
		"plan_sale a:card_clearing debit", "plan_sale l:plan_pool credit", "earnings_batch l:provider:accrued debit",
		"earnings_batch l:provider:payable credit", "plan_share l:provider:plan_held debit",
		"plan_share l:provider:payable credit", "plan_share x:plan_accrual credit", "plan_close l:plan_pool debit",
		"plan_close x:plan_accrual credit", "payout_requested l:provider:payable debit",
		"payout_requested l:provider:payout_in_flight credit", "payout_confirmed l:provider:payout_in_flight debit",
		"payout_confirmed a:crypto credit", "payout_confirmed r:payout_fee credit", "payout_confirmed m:treasury debit",
		"payout_failed l:provider:payout_in_flight debit", "payout_failed l:provider:payable credit",
		"treasury a:crypto debit", "treasury a:bank credit", "treasury m:treasury credit", "custody_in m:custody debit",
		"custody_in m:collateral credit", "collateral_card a:card_clearing debit",
		"collateral_card l:provider:collateral credit", "collateral_card_reversed l:provider:collateral debit",
		"collateral_card_reversed a:card_clearing credit",
	} {
		f.permit(r)
	}
	for _, kind := range []string{"l:plan_pool", "l:provider:payable", "l:provider:payout_in_flight", "a:crypto",
		"a:card_clearing", "a:bank", "m:treasury", "r:payout_fee", "m:custody", "m:collateral",
		"l:provider:collateral"} {
		f.add("chart", row{"kind": kind, "normal": "credit", "owned": false, "book": ""})
	}
}

// permit adds a rule of postings: kind, account and side.
func (f *fixture) permit(text string) {
	part := strings.Fields(text)
	for _, unit := range []string{"usd", "token"} {
		f.add("posting_rule", row{"entry_kind": part[0], "account_kind": part[1], "side": part[2], "unit": unit})
	}
}

// batch writes the batches of the day, and the entries that post them.
func (f *fixture) batch() {
	number, earned, lines := 0, map[string]int64{}, map[string]int64{}
	list := func(provider, kind, account, month string, amount int64, request any) {
		number++
		lines[provider]++
		f.settled("batch_line", row{"day": dayOne, "provider_id": provider, "line": number, "kind": kind,
			"account": account, "month": month, "amount": amount, "request_id": request})
		if account == kindAccrued && kind != "held" {
			earned[provider] += amount
		} else if account == kindAccrued {
			earned[provider] -= amount
		}
	}
	for _, s := range f.tables["usage_settlement"] {
		account, month := kindAccrued, ""
		if s["source"] == "plan" {
			account, month = kindPlanHeld, "2026-03"
		}
		if payout := s["payout"].(int64); payout > 0 {
			list(s["provider_id"].(string), s["source"].(string), account, month, payout, s["request_id"])
		}
	}
	list(providerID(first), "held", kindAccrued, "", f.line(held1)["payout"].(int64), requestID(held1))
	list(providerID(first), "refund", kindAccrued, "", -f.line(wholeAnswer)["charged"].(int64), requestID(wholeAnswer))
	f.settled("batch_day", row{"day": dayOne, "lines": number, "committed_at": at(aDay)})
	providers := []string{providerID(first), providerID(second)}
	slices.Sort(providers)
	for i, provider := range providers {
		f.settled("batch_share", row{"day": dayOne, "chain_id": 8453, "index": i, "provider_id": provider,
			"beneficiary": text([]byte(strings.Repeat(string(rune('A'+i)), 20))), "earned": earned[provider],
			"given": int64(0), "amount": earned[provider], "blocked": false, "lines": lines[provider],
			"posted": earned[provider], "entry_id": entryID(70 + i)})
		f.post(entryID(70+i), "earnings_batch", dayOne+"/"+provider+"/8453", aDay+60, nil,
			leg(kindAccrued, provider, -earned[provider]), leg("l:provider:payable", provider, earned[provider]))
	}
	f.commit()
}

// commit computes the roots and the statements of the shares as they are.
func (f *fixture) commit() {
	shares := slices.SortedFunc(slices.Values(f.earnings["batch_share"]), func(x, y row) int {
		return cmp.Compare(x["index"].(int), y["index"].(int))
	})
	var leaves []hash32
	var total int64
	for _, s := range shares {
		leaves = append(leaves, leafOf(s))
		total += s["amount"].(int64)
	}
	top := root(leaves)
	for i, s := range shares {
		sibling := leaves[1-i]
		said, err := json.Marshal(row{"day": dayOne, "provider_id": s["provider_id"], "root": fmt.Sprintf("0x%x", top),
			"leaf": row{"index": strconv.Itoa(s["index"].(int)), "beneficiary": "0x" + s["beneficiary"].(string)[2:],
				"amount_nano_usd": fmt.Sprint(s["amount"])}, "proof": []string{fmt.Sprintf("0x%x", sibling)},
			"earned_nano_usd": fmt.Sprint(s["earned"]), "given_nano_usd": fmt.Sprint(s["given"])})
		if err != nil {
			panic(err)
		}
		hash := keccak256(said)
		maps.Copy(s, row{"statement": text(said), "summary": text(hash[:])})
	}
	f.earnings["batch"] = nil
	for _, chain := range []int{1, 254, 8453} {
		b := row{"day": dayOne, "chain_id": chain, "root": text(make([]byte, 32)), "total": int64(0), "shares": 0}
		if chain == 8453 {
			maps.Copy(b, row{"root": text(top[:]), "total": total, "shares": len(shares)})
		}
		f.settled("batch", b)
	}
}

func leafOf(s row) hash32 {
	var a [20]byte
	if _, err := fmt.Sscanf(s["beneficiary"].(string), `\x%x`, &bytesOf{a[:]}); err != nil {
		panic(err)
	}
	return leaf(int64(s["index"].(int)), a, s["amount"].(int64))
}

// bytesOf scans hexadecimal digits into bytes.
type bytesOf struct{ into []byte }

func (b *bytesOf) Scan(state fmt.ScanState, _ rune) error {
	var raw []byte
	if _, err := fmt.Fscanf(state, "%x", &raw); err != nil {
		return err
	}
	copy(b.into, raw)
	return nil
}

func text(raw []byte) string { return fmt.Sprintf(`\x%x`, raw) }

func (f *fixture) settled(table string, r row) { f.earnings[table] = append(f.earnings[table], r) }

// closeMonth closes the month, whose pool of 50 pays 66 that were earned: 25 each.
func (f *fixture) closeMonth() {
	const month, share = "2026-03", int64(33)
	late := float64(30 * aDay)
	m := row{"month": month, "through": "2026-04-02", "pool": poolNano, "earned": 2 * share, "paid": poolNano,
		"providers": 2, "closed_at": at(late)}
	f.add("closed_month", m)
	f.settled("plan_month", maps.Clone(m))
	for i, provider := range []string{providerID(first), providerID(second)} {
		s := row{"month": month, "provider_id": provider, "earned": share, "paid": int64(25), "withheld": 0,
			"withheld_paid": 0}
		f.add("closed_share", s)
		f.settled("plan_share", maps.Clone(s))
		f.post(entryID(80+i), "plan_share", month+"/"+provider, late, nil, leg(kindPlanHeld, provider, -share),
			leg("l:provider:payable", provider, 25), leg(kindPlanDebt, nil, share-25))
		f.legs(80 + i)[0]["book"], f.legs(80 + i)[2]["book"] = month, month
	}
	f.post(entryID(82), "plan_close", month, late, nil, leg("l:plan_pool", nil, -poolNano),
		leg(kindPlanDebt, nil, poolNano))
	for _, l := range f.legs(82) {
		l["book"] = month
	}
}

// Payouts of the fixture.
const (
	paidOut  = 1
	bounced  = 2
	gross    = int64(12_000_000_000)
	fee      = int64(1_000_000_000)
	hotFunds = 50_000_000
)

func payoutID(n int) string { return uid(ofEntry, 200+n) }

func digest(kind byte, n int) []byte { return append(bytes.Repeat([]byte{kind}, 31), byte(n)) }

var hot = bytes.Repeat([]byte{0xee}, 20)

// pay writes two payouts of the first two nonces, of which the second was reverted, with what their chain says.
func (f *fixture) pay() {
	f.chains = map[string][]row{}
	f.chain("chain", row{"chain_id": 8453, "final_block": 100})
	f.settled("sender", row{"chain_id": 8453, "address": text(hot), "key": "payout", "next": 2})
	f.post(entryID(90), "treasury", "8453/funding", aDay, nil, leg("a:crypto", nil, -hotFunds),
		leg("m:treasury", nil, hotFunds), leg("a:crypto", nil, -hotFunds*1000), leg("a:bank", nil, hotFunds*1000))
	f.tokens(90)
	f.payout(paidOut, first, "confirmed", "succeeded")
	f.payout(bounced, second, "failed", "reverted")
	f.chain("wallet", row{"asset": usdcBase, "role": "hot", "address": text(hot), "amount": hotFunds - 11_000_000})
	f.stake()
}

func (f *fixture) chain(table string, r row) { f.chains[table] = append(f.chains[table], r) }

// tokens makes the first legs of an entry those of USDC.
func (f *fixture) tokens(entry int) {
	for i, l := range f.legs(entry) {
		if i < 2 {
			l["asset"] = usdcBase
		}
		if l["account_kind"] == "a:crypto" {
			l["book"] = usdcBase
		}
	}
}

func (f *fixture) payout(n, provider int, state, outcome string) {
	begin := aDay + 3600*float64(n)
	to, nonce := bytes.Repeat([]byte{byte(n)}, 20), n-1
	units := (gross - fee) / 1000
	owner := providerID(provider)
	f.settled("payout", row{"payout_id": payoutID(n), "provider_id": owner, "chain_id": 8453, "gross_nano_usd": gross,
		"fee_nano_usd": fee, "address": text(to), "state": state, "reserved_entry": entryID(100 + 100*n),
		"final_entry": entryID(101 + 100*n), "amount": units, "rate_nano_usd": nil})
	f.post(entryID(100+100*n), "payout_requested", payoutID(n), begin, nil, leg("l:provider:payable", owner, -gross),
		leg("l:provider:payout_in_flight", owner, gross))
	data := append(append(slices.Clone(transferSelector), make([]byte, 12)...), to...)
	data = append(data, make([]byte, 24)...)
	data = append(data, byte(units>>56), byte(units>>48), byte(units>>40), byte(units>>32),
		byte(units>>24), byte(units>>16), byte(units>>8), byte(units))
	place := row{"chain_id": 8453, "sender": text(hot), "nonce": nonce}
	with := func(more row) row {
		r := maps.Clone(place)
		maps.Copy(r, more)
		return r
	}
	f.settled("chain_call", with(row{"purpose": "payout", "ref": payoutID(n), "recipient": text(make([]byte, 20)),
		"value": 0, "data": text(data), "call_hash": text(digest('c', n))}))
	f.settled("signed_tx", with(row{"hash": text(digest('t', n)), "call_hash": text(digest('c', n))}))
	f.settled("signed_tx", with(row{"hash": text(digest('u', n)), "call_hash": text(digest('c', n))}))
	f.settled("call_end", with(row{"outcome": outcome, "hash": text(digest('u', n))}))
	f.chain("transaction", with(row{"hash": text(digest('u', n)), "recipient": text(make([]byte, 20)), "value": "0",
		"succeeded": outcome == "succeeded", "block": 10 + n}))
	if state != "confirmed" {
		f.post(entryID(101+100*n), "payout_failed", payoutID(n), begin+60, nil,
			leg("l:provider:payout_in_flight", owner, -gross), leg("l:provider:payable", owner, gross))
		return
	}
	f.chain("transfer", row{"chain_id": 8453, "hash": text(digest('u', n)), "sender": text(hot), "recipient": text(to),
		"amount": fmt.Sprint(units)})
	f.post(entryID(101+100*n), "payout_confirmed", payoutID(n), begin+60, nil, leg("m:treasury", nil, -units),
		leg("a:crypto", nil, units), leg("a:crypto", nil, gross-fee), leg("l:provider:payout_in_flight", owner, -gross),
		leg("r:payout_fee", nil, fee))
	f.tokens(101 + 100*n)
}

// stake writes one position, of $20.
func (f *fixture) stake() {
	at20 := row{"chain_id": 8453, "subject": text(digest('s', 1)), "depositor": text(bytes.Repeat([]byte{9}, 20)),
		"provider_id": providerID(first), "number": 1}
	with := func(more row) row {
		r := maps.Clone(at20)
		maps.Copy(r, more)
		return r
	}
	f.settled("position_event", with(row{"free_after": 20_000_000, "escrow_after": 0, "units": 20_000_000,
		"entry_id": entryID(95)}))
	f.settled("position", with(row{"free": 20_000_000, "escrow": 0, "booked": 20_000_000}))
	f.chain("wallet", row{"asset": usdcBase, "role": "contract", "address": text(bytes.Repeat([]byte{7}, 20)),
		"amount": 20_000_000})
	f.post(entryID(95), "custody_in", "8453/0xaa/0", aDay+10, nil, leg("m:custody", nil, -20_000_000),
		leg("m:collateral", providerID(first), 20_000_000))
	f.legs(95)[0]["asset"], f.legs(95)[0]["book"], f.legs(95)[1]["asset"] = usdcBase, "8453", usdcBase
}

const coinSVC = "254:native"

// buyCoins has the bank buy so many billionths of a coin, and the wallet hold others.
func (f *fixture) buyCoins(bought, held int64) {
	f.chain("chain", row{"chain_id": 254, "final_block": 100})
	f.post(entryID(91), "treasury", "254/funding", aDay, nil, leg("a:crypto", nil, -bought),
		leg("m:treasury", nil, bought), leg("a:crypto", nil, -bought), leg("a:bank", nil, bought))
	for i, l := range f.legs(91) {
		if i < 2 {
			l["asset"] = coinSVC
		}
		if l["account_kind"] == "a:crypto" {
			l["book"] = coinSVC
		}
	}
	f.chain("wallet", row{"asset": coinSVC, "role": "hot", "address": text(hot),
		"amount": fmt.Sprint(held * 1_000_000_000)})
}

// stakeCoins has a position of so many billionths of a coin on chain 254, and the contract hold others.
func (f *fixture) stakeCoins(staked, held int64) {
	f.chain("chain", row{"chain_id": 254, "final_block": 100})
	at20 := row{"chain_id": 254, "subject": text(digest('s', 2)), "depositor": text(bytes.Repeat([]byte{8}, 20)),
		"provider_id": providerID(second), "number": 1}
	with := func(more row) row {
		r := maps.Clone(at20)
		maps.Copy(r, more)
		return r
	}
	wei := fmt.Sprint(staked * 1_000_000_000)
	f.settled("position_event", with(row{"free_after": wei, "escrow_after": 0, "units": staked, "entry_id": entryID(97)}))
	f.settled("position", with(row{"free": wei, "escrow": 0, "booked": staked}))
	f.chain("wallet", row{"asset": coinSVC, "role": "contract", "address": text(bytes.Repeat([]byte{7}, 20)),
		"amount": fmt.Sprint(held * 1_000_000_000)})
	f.post(entryID(97), "custody_in", "254/0xbb/0", aDay+10, nil, leg("m:custody", nil, -staked),
		leg("m:collateral", providerID(second), staked))
	f.legs(97)[0]["asset"], f.legs(97)[0]["book"], f.legs(97)[1]["asset"] = coinSVC, "254", coinSVC
}

// Coins that are there to the last unit are no fault; what is smaller than a unit does not count.
func TestCoinsThatAreThereAreNoFault(t *testing.T) {
	t.Parallel()
	f := newSettled()
	f.buyCoins(3, 3)
	f.chain("wallet", row{"asset": coinSVC, "role": "treasury", "address": text(digest(6, 6)[:20]), "amount": "999999999"})
	if r := mustAudit(t, f, Options{}); !r.Clean() {
		t.Errorf("the audit: got %v, want nothing wrong", r.Judgements)
	}
	f = newSettled()
	f.stakeCoins(7, 7)
	if r := mustAudit(t, f, Options{}); !r.Clean() {
		t.Errorf("the audit of a position in coins: got %v, want nothing wrong", r.Judgements)
	}
}

// cards has 20 dollars paid by card for the first provider, which may have gone back.
func (f *fixture) cards(back bool) {
	const paid = int64(20_000_000_000)
	owner := providerID(first)
	f.chain("card", row{"session": "sbx_cs_1", "provider_id": owner, "cents": 2_000, "back": back})
	f.post(entryID(98), "collateral_card", "sbx_cs_1", aDay+20, nil, leg("a:card_clearing", nil, -paid),
		leg("l:provider:collateral", owner, paid))
	if back {
		f.post(entryID(99), "collateral_card_reversed", "sbx_dp_1", aDay+30, nil,
			leg("l:provider:collateral", owner, -paid), leg("a:card_clearing", nil, paid))
	}
}

func TestPaymentsByCardThatAreThereAreNoFault(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		f := newSettled()
		f.cards(back)
		if r := mustAudit(t, f, Options{}); !r.Clean() {
			t.Errorf("the audit: got %v, want nothing wrong", r.Judgements)
		}
	}
}
