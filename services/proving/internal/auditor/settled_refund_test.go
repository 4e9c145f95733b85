package auditor

import (
	"bytes"
	"maps"
	"slices"
	"testing"
)

const (
	// backed is what the fixture's refund pays, in the smallest units of USDC.
	backed = 5_000_000
	// askedAt is when it is asked for, and backAt when it is paid.
	askedAt = 2 * aDay
	backAt  = askedAt + 8*aDay
)

var (
	leaver   = bytes.Repeat([]byte{0x0a}, 20)
	onRefund = ofID("refund", uid(ofEntry, 300))
)

// refund has the second provider's only depositor, who had 6 dollars, paid back 8 days after he asked for it. A penalty
// had taken one dollar before.
func (f *fixture) refund() {
	f.permit("custody_out m:custody credit")
	f.permit("custody_out m:collateral debit")
	owner, contract := providerID(second), bytes.Repeat([]byte{7}, 20)
	place := row{"chain_id": 8453, "subject": text(digest('s', 2)), "depositor": text(leaver), "provider_id": owner}
	with := func(more row) row {
		r := maps.Clone(place)
		maps.Copy(r, more)
		return r
	}
	event := func(number int, kind string, units, after, amount int64, when float64) {
		f.settled("position_event", with(row{"number": number, "kind": kind, "free_after": after, "escrow_after": 0,
			"units": units, "amount": amount, "entry_id": entryID(110 + number), "tx": text(digest('r', number)),
			"at": at(when)}))
		entry := "custody_in"
		if units < 0 {
			entry = "custody_out"
		}
		f.post(entryID(110+number), entry, "8453/0xcc/"+entryID(number), when, nil, leg("m:custody", nil, -units),
			leg("m:collateral", owner, units))
		legs := f.legs(110 + number)
		legs[0]["asset"], legs[0]["book"], legs[1]["asset"] = usdcBase, "8453", usdcBase
	}
	event(2, "deposited", backed+1_000_000, backed+1_000_000, backed+1_000_000, aDay)
	event(3, "slash_executed", -1_000_000, backed, 1_000_000, askedAt+3*aDay)
	event(4, "refunded", -backed, 0, backed, backAt+30)
	f.settled("position", with(row{"free": 0, "escrow": 0, "booked": 0, "number": 4}))
	f.settled("collateral_refund", row{"refund_id": uid(ofEntry, 300), "provider_id": owner, "state": "paid",
		"due_at": at(askedAt + 7*aDay), "paying_at": at(backAt), "ended_at": at(backAt + 60)})
	f.settled("collateral_refund_part", row{"part_id": uid(ofEntry, 301), "refund_id": uid(ofEntry, 300),
		"chain_id": 8453, "depositor": text(leaver), "state": "done"})
	f.settled("penalty", row{"penalty_id": uid(ofEntry, 302), "provider_id": owner, "opened_at": at(askedAt + aDay),
		"executed_at": at(askedAt + 3*aDay), "resolved_at": nil})
	for i, state := range []string{"requested", "failed"} {
		f.settled("payout_change", row{"payout_id": payoutID(bounced), "to_state": state,
			"changed_at": at(askedAt + 60*float64(i))})
	}
	f.chain("transfer", row{"chain_id": 8453, "hash": text(digest('r', 4)), "sender": text(contract),
		"recipient": text(leaver), "amount": "5000000"})
}

func TestARefundOfCollateralIsNoFault(t *testing.T) {
	t.Parallel()
	f := newSettled()
	f.refund()
	r := mustAudit(t, f, Options{})
	wantClean(t, r)
	if !slices.Contains(r.Settlement, Count{"positions that were paid back once", 1}) {
		t.Errorf("the audit: got %v, want a position that was paid back once", r.Settlement)
	}
}

// A deep reorg may take a refund away, which is mined again in another block.
func TestARefundThatIsMinedAgainIsNoFault(t *testing.T) {
	t.Parallel()
	f := newSettled()
	f.refund()
	events := f.earnings["position_event"]
	paid, position := events[len(events)-1], f.earnings["position"]
	for number, more := range map[int]row{4: {"gone": true}, 5: {"kind": "restated", "amount": 0}} {
		before := maps.Clone(paid)
		maps.Copy(before, row{"number": number, "units": 0, "entry_id": nil, "free_after": backed})
		maps.Copy(before, more)
		f.settled("position_event", before)
	}
	paid["number"], position[len(position)-1]["number"] = 6, 6
	r := mustAudit(t, f, Options{})
	wantClean(t, r)
	if !slices.Contains(r.Settlement, Count{"positions that were paid back once", 1}) {
		t.Errorf("the audit: got %v, want a position that was paid back once", r.Settlement)
	}
}

// ofRefunds are the wrongs of refunds of collateral.
func ofRefunds() []corruption {
	last := func(f *fixture, table string) row { return f.earnings[table][len(f.earnings[table])-1] }
	return []corruption{
		{"collateral is paid back twice", func(f *fixture) {
			again := maps.Clone(last(f, "position_event"))
			maps.Copy(again, row{"number": 5, "tx": text(digest('r', 5))})
			f.settled("position_event", again)
			f.chain("transfer", row{"chain_id": 8453, "hash": text(digest('r', 5)), "sender": text(leaver),
				"recipient": text(leaver), "amount": "5000000"})
		}, Doubled, onRefund, "is paid back 2 times"},
		{"collateral is paid back that nobody asked for", func(f *fixture) {
			maps.Copy(last(f, "collateral_refund"), row{"state": "asked", "paying_at": nil, "ended_at": nil})
		}, Doubled, onProvider(second), "and no refund does"},
		{"collateral is paid back after the refund was taken back", func(f *fixture) {
			last(f, "collateral_refund_part")["state"] = "cancelled"
		}, Doubled, onRefund, "is cancelled, and was paid 1 times"},
		{"collateral is said to be paid back", func(f *fixture) { last(f, "position_event")["kind"] = "exit_requested" },
			Unpaid, onRefund, "is not paid back"},
		{"collateral stays where it was", func(f *fixture) {
			last(f, "position_event")["free_after"] = 7
			last(f, "position")["free"] = 7
		}, Unpaid, onRefund, "still has 7 free"},
		{"collateral is paid back beside a penalty", func(f *fixture) {
			last(f, "penalty")["executed_at"] = at(backAt + 1)
		}, Overdrawn, onRefund, "while penalty"},
		{"collateral is paid back beside a penalty that is open", func(f *fixture) {
			last(f, "penalty")["executed_at"] = nil
		}, Overdrawn, onRefund, "while penalty"},
		{"collateral is paid back beside a payout", func(f *fixture) {
			last(f, "payout_change")["changed_at"] = at(backAt + 1)
		}, Overdrawn, onRefund, "while payout"},
		{"less arrives than is paid back", func(f *fixture) {
			f.chains["transfer"][len(f.chains["transfer"])-1]["amount"] = "4999999"
		}, Drift, onRefund, "and 4999999 arrived"},
	}
}

// adopted has the first payout adopted, as after a database that was set back.
func (f *fixture) adopted() {
	f.settled("adopted_payout", row{"payout_id": payoutID(paidOut)})
	f.settled("adopted_call", row{"chain_id": 8453, "sender": text(hot), "nonce": 0, "what": "payout"})
}

func TestAnAdoptedPayoutIsNoFault(t *testing.T) {
	t.Parallel()
	f := newSettled()
	f.adopted()
	r := mustAudit(t, f, Options{})
	wantClean(t, r)
	if !slices.Contains(r.Settlement, Count{"payouts that were adopted", 1}) {
		t.Errorf("the audit: got %v, want a payout that was adopted", r.Settlement)
	}
}

// ofAdoptions are the wrongs of a database that was set back.
func ofAdoptions() []corruption {
	onHot := "address eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	// forget takes the second payout from settlement, as a copy that is older than it.
	forget := func(f *fixture) {
		for _, table := range []string{"payout", "chain_call", "call_end"} {
			f.unstate(table, 1)
		}
		f.earnings["signed_tx"] = f.earnings["signed_tx"][:2]
		f.earnings["sender"][0]["next"] = 1
	}
	return []corruption{
		{"a database that was set back has forgotten a payout", forget, Drift, onEntry(100 + 100*bounced),
			"which there is not"},
		{"and its nonce", forget, Drift, onHot, "nonce 1 was taken by"},
		{"a nonce that nothing explains was adopted", func(f *fixture) { f.earnings["adopted_call"][0]["what"] = "unknown" },
			Drift, onHot, "nothing explains it"},
		{"a nonce that was adopted is not there", func(f *fixture) { f.earnings["adopted_call"][0]["nonce"] = 9 }, Drift,
			onHot, "nonce 9 was adopted, and is not there"},
		{"a payout that was adopted is no payout's", func(f *fixture) {
			f.earnings["chain_call"][0]["purpose"] = "adopted"
		}, Drift, onHot, "was adopted as a payout"},
		{"a payout that was adopted is not there", func(f *fixture) {
			f.earnings["adopted_payout"][0]["payout_id"] = payoutID(9)
		}, Unpaid, onPayout(9), "it was adopted, and is not there"},
	}
}

func TestEveryCorruptionOfRefundsAndAdoptionsIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range append(ofRefunds(), ofAdoptions()...) {
		c.run(t, func() *fixture {
			f := newSettled()
			f.refund()
			f.adopted()
			return f
		})
	}
}
