package store_test

import (
	"bytes"
	"crypto/ed25519"
	"log/slog"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/workreceipt"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

var receiptKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

// signed is the receipt of providerID for the second attempt of a claim.
func signed(c hold.Reservation, tokens int64, change ...func(*orphan.WorkReceipt)) orphan.WorkReceipt {
	r := orphan.WorkReceipt{Hub: "hub-1", Price: c.Price, Key: receiptKey.Public().(ed25519.PublicKey)}
	r.Receipt = workreceipt.Receipt{
		Request: c.Request, Attempt: 2, Provider: providerID, Epoch: 9, Model: c.Model,
		Claimed: true, ClaimedPrompt: 100, ClaimedCompletion: 1000,
		SentTokens: tokens, SentBytes: 100 * tokens, Complete: true, EndedAt: time.UnixMilli(1_790_000_000_000).UTC(),
		Proof: []byte("proof"),
	}
	for _, f := range change {
		f(&r)
	}
	r.Signed = workreceipt.Sign(receiptKey, r.Receipt)
	return r
}

// hand gives receipts to the ledger, and wants one answer to each.
func (e *env) hand(t testing.TB, want orphan.Verdict, all ...orphan.WorkReceipt) {
	t.Helper()
	keeper := orphan.Keeper{Store: e.store, Log: slog.New(slog.DiscardHandler)}
	verdicts, err := keeper.Keep(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if v != want {
			t.Fatalf("receipt %d: got %+v, want %+v", i, v, want)
		}
	}
}

var (
	stored  = orphan.Verdict{Outcome: orphan.Stored}
	settled = orphan.Verdict{Outcome: orphan.AlreadySettled}
)

func refusedAs(why orphan.Reason) orphan.Verdict {
	return orphan.Verdict{Outcome: orphan.Refused, Reason: why}
}

// wait puts everything past its time, receipts too.
func (e *env) wait(t testing.TB) {
	t.Helper()
	e.exec(t, `UPDATE work_receipt SET received_at = received_at - interval '1 hour'`)
	e.overdue(t)
}

// paid is what the provider has earned, and by orphan work.
func (e *env) paid(t testing.TB) (all, orphaned int64) {
	t.Helper()
	orphaned = scan[int64](t, e,
		`SELECT coalesce(sum(amount), 0)::bigint FROM posting
			WHERE account_kind = 'l:provider:accrued' AND owner_id = $1`, [16]byte(providerID))
	return orphaned + scan[int64](t, e,
		`SELECT coalesce(sum(payout), 0)::bigint FROM usage_settlement
			WHERE provider_id = $1 AND source <> 'orphan'`, [16]byte(providerID)), orphaned
}

func (e *env) wantPaid(t testing.TB, all, orphaned money.NanoUSD) {
	t.Helper()
	if a, o := e.paid(t); a != int64(all) {
		t.Errorf("the provider: got %d, want %d", a, int64(all))
	} else if o != int64(orphaned) {
		t.Errorf("o of e.paid(t): got %d, want %d", o, int64(orphaned))
	}
}

const payout = cent * 7 / 10

// The hub, its usage journal and the gateway are lost: the receipt is all there is.
func TestAReceiptSettlesWhatNobodyElseReported(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation, silent := e.reservation(t, c, 10), e.reservation(t, c, 10)
	e.admit(t, reservation, silent)
	e.renew(t, hold.Renewal{Request: reservation.Request}) // it had not committed when the gateway was last heard
	e.hand(t, stored, signed(reservation, 4), signed(reservation, 4))
	e.hand(t, stored, signed(reservation, 4))
	e.overdue(t)
	if n := e.expire(t); n != 1 {
		t.Errorf("got %d expired, want the one without a report", n)
	}
	if all := e.review(t); len(all) != 0 {
		t.Errorf("reviewed before the hub has had its time: got %d, want 0, in %+v", len(all), all)
	}
	e.wait(t)
	e.exec(t, `UPDATE hold SET expires_at = now() WHERE state = 'open'`)
	all := e.review(t)
	if len(all) != 1 {
		t.Fatalf("published: got %d, want 1, in %+v", len(all), all)
	}
	switch ev := all[0].Event; {
	case ev.EvidenceSource != usage.WorkReceipt:
		t.Errorf("published: ev.EvidenceSource: got %q, want %q", ev.EvidenceSource, usage.WorkReceipt)
	case ev.Billable != (money.Tokens{Completion: 4}):
		t.Errorf("published: ev.Billable: got %+v, want %+v", ev.Billable, money.Tokens{Completion: 4})
	case ev.Provider != providerID:
		t.Errorf("published: ev.Provider: got %v, want %v", ev.Provider, providerID)
	case ev.Attempt != 2:
		t.Errorf("published: ev.Attempt: got %d, want 2", ev.Attempt)
	case ev.Epoch != 9:
		t.Errorf("published: ev.Epoch: got %d, want 9", ev.Epoch)
	case ev.Hub != "hub-1":
		t.Errorf(`published: ev.Hub: got %q, want "hub-1"`, ev.Hub)
	case ev.Ending != "platform_lost":
		t.Errorf(`published: ev.Ending: got %q, want "platform_lost"`, ev.Ending)
	}
	e.settle(t, usage.Settled, delivery(all[0]))
	e.settle(t, usage.Duplicate, delivery(all[0]), e.served(t, reservation, 9))
	e.hand(t, settled, signed(reservation, 4))
	e.wantWallet(t, c, 96*cent, 0)
	e.wantPaid(t, 4*payout, 0)
	if n := scan[int](t, e, `SELECT count(*) FROM work_receipt`); n != 1 {
		t.Errorf("receipts kept: got %d, want 1", n)
	}
	e.sound(t)
}

func TestOfReceiptAndGatewayTheSmallerIsCharged(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(*env, ids.RequestID)
		sent int64
		want int64
	}{
		"the receipt is less":    {func(e *env, r ids.RequestID) { e.conclude(t, servedWord(r, 6)) }, 4, 4},
		"the gateway's is less":  {func(e *env, r ids.RequestID) { e.conclude(t, servedWord(r, 4)) }, 6, 4},
		"the renewal's is less":  {func(e *env, r ids.RequestID) { e.renew(t, running(r, 4)) }, 6, 4},
		"more than the hold":     {func(*env, ids.RequestID) {}, 600, 10},
		"gateway names nobody":   {func(e *env, r ids.RequestID) { e.conclude(t, unnamed(r, 3)) }, 6, 3},
		"committed, not relayed": {func(e *env, r ids.RequestID) { e.renew(t, running(r, 0)) }, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			e.hand(t, stored, signed(reservation, tc.sent))
			tc.tell(e, reservation.Request)
			e.wait(t)
			all := e.review(t)
			if len(all) != 1 {
				t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
			}
			if all[0].Event.Billable != (money.Tokens{Completion: tc.want}) {
				t.Fatalf("published: all[0].Event.Billable: got %+v, want %+v", all[0].Event.Billable,
					money.Tokens{Completion: tc.want})
			}
			e.settle(t, usage.Settled, delivery(all[0]))
			e.wantWallet(t, c, 100*cent-money.NanoUSD(tc.want)*cent, 0)
			e.wantPaid(t, money.NanoUSD(tc.want)*payout, 0)
			e.sound(t)
		})
	}
}

// unnamed is a gateway's word that does not say who served.
func unnamed(r ids.RequestID, tokens int64) hold.RequestReport {
	w := servedWord(r, tokens)
	w.Attempts = w.Attempts[:1]
	return w
}

func TestOfTwoAttemptsTheLastOnesReceiptCounts(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	e.hand(t, stored, signed(reservation, 3), signed(reservation, 9, func(r *orphan.WorkReceipt) {
		r.Attempt, r.Provider = 1, ids.ProviderID{9}
	}))
	e.wait(t)
	all := e.review(t)
	switch {
	case len(all) != 1:
		t.Fatalf("published: len(all): got %d, want 1, in %+v", len(all), all)
	case all[0].Event.Attempt != 2:
		t.Fatalf("published: all[0].Event.Attempt: got %d, want 2", all[0].Event.Attempt)
	case all[0].Event.Provider != providerID:
		t.Fatalf("published: all[0].Event.Provider: got %v, want %v", all[0].Event.Provider, providerID)
	case all[0].Event.Billable.Completion != 3:
		t.Fatalf("published: all[0].Event.Billable.Completion: got %d, want 3", all[0].Event.Billable.Completion)
	}
	e.settle(t, usage.Settled, delivery(all[0]))
	e.hand(t, refusedAs(orphan.OtherAttempt), signed(reservation, 9, func(r *orphan.WorkReceipt) {
		r.Attempt, r.Provider = 1, ids.ProviderID{9}
	}))
	e.sound(t)
}

// Posting 27: the hold has expired, the work was done.
func TestALateReceiptIsPaidByThePlatformOnce(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation, stale, told := e.reservation(t, c, 10), e.reservation(t, c, 10), e.reservation(t, c, 10)
	e.admit(t, reservation, stale, told)
	e.overdue(t)
	if n := e.expire(t); n != 3 {
		t.Fatalf("expired: got %d, want 3", n)
	}
	e.exec(t, `UPDATE hold SET closed_at = now() - interval '23 hours'`)
	e.exec(t, `UPDATE hold SET closed_at = now() - interval '25 hours' WHERE request_id = $1`, [16]byte(stale.Request))
	e.conclude(t, servedWord(told.Request, 2)) // the gateway's word is late too
	e.hand(t, stored, signed(reservation, 4), signed(told, 4))
	e.hand(t, refusedAs(orphan.TooLate), signed(stale, 4))
	if early := e.review(t); len(early) != 0 {
		t.Errorf("published before their hub had its time: got %d, want 0, in %+v", len(early), early)
	}
	e.exec(t, `UPDATE orphan_review SET next_at = now()`)
	all := e.review(t)
	if len(all) != 2 {
		t.Fatalf("published: got %d, want 2, in %+v", len(all), all)
	}
	for _, p := range all {
		e.settle(t, usage.Orphaned, delivery(p))
		e.settle(t, usage.Duplicate, delivery(p))
	}
	e.hand(t, settled, signed(reservation, 4))
	for range 3 { // settlement hears of it again
		e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
		for _, p := range e.review(t) {
			if !p.Event.Settled {
				t.Errorf("published as if it were not settled: %+v", p)
			}
			e.settle(t, usage.Duplicate, delivery(p))
		}
	}
	e.wantWallet(t, c, 100*cent, 0)
	e.wantPaid(t, 6*payout, 6*payout)
	if n := scan[int](t, e, `SELECT count(*) FROM entry WHERE kind = 'orphan_work'`); n != 2 {
		t.Errorf("entries of orphan work: got %d, want 2", n)
	}
	e.sound(t)
}

// untrueReceipt is a receipt that is changed to be untrue, and its verdict.
type untrueReceipt struct {
	arrange func(*env, hold.Reservation)
	change  func(*orphan.WorkReceipt)
	want    orphan.Verdict
}

// untrueReceipts cannot be true, each for the reason that is its name.
func untrueReceipts(t *testing.T) map[string]untrueReceipt {
	other := ids.ProviderID{0x01, 0x8f, 15: 0xbb}
	concluded := func(e *env, c hold.Reservation) { e.conclude(t, servedWord(c.Request, 4)) }
	return map[string]untrueReceipt{
		"another provider than the gateway names": {concluded,
			func(r *orphan.WorkReceipt) { r.Provider = other }, refusedAs(orphan.OtherProvider)},
		"another attempt than the gateway committed to": {concluded,
			func(r *orphan.WorkReceipt) { r.Attempt = 1 }, refusedAs(orphan.OtherAttempt)},
		"another provider than a renewal names": {func(e *env, c hold.Reservation) { e.renew(t, running(c.Request, 4)) },
			func(r *orphan.WorkReceipt) { r.Provider = other }, refusedAs(orphan.OtherProvider)},
		"nothing was relayed": {func(e *env, c hold.Reservation) { e.release(t, c.Request) }, nil,
			refusedAs(orphan.NothingServed)},
		"an empty answer": {func(e *env, c hold.Reservation) { e.conclude(t, servedWord(c.Request, 0)) }, nil,
			refusedAs(orphan.NothingServed)},
		"an unknown request": {nil, func(r *orphan.WorkReceipt) { r.Request = request(t) },
			refusedAs(orphan.UnknownRequest)},
		"another model": {nil, func(r *orphan.WorkReceipt) { r.Model = "acme/dear" },
			refusedAs(orphan.PriceMismatch)},
		"another price": {nil, func(r *orphan.WorkReceipt) { r.Price = ids.PriceVersionID{1} },
			refusedAs(orphan.PriceMismatch)},
		"altered after the fact": {func(e *env, c hold.Reservation) { e.hand(t, stored, signed(c, 1)) }, nil,
			refusedAs(orphan.Altered)},
		"served by another, and settled": {func(e *env, c hold.Reservation) {
			d := e.served(t, c, 4)
			d.Event.Attempt = 2
			e.settle(t, usage.Settled, d)
		}, nil, refusedAs(orphan.OtherProvider)},
		"settled by another attempt": {func(e *env, c hold.Reservation) { e.settle(t, usage.Settled, e.served(t, c, 4)) },
			nil, refusedAs(orphan.OtherAttempt)},
		"replayed after its hold is long gone": {func(e *env, c hold.Reservation) {
			e.overdue(t)
			e.expire(t)
			e.exec(t, `UPDATE hold SET closed_at = now() - interval '25 hours'`)
		}, nil, refusedAs(orphan.TooLate)},
	}
}

// Hostile test 42, as far as it is the ledger's: no receipt of these moves money.
func TestAReceiptThatCannotBeTrueMovesNoMoney(t *testing.T) {
	for name, tc := range untrueReceipts(t) {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.consumer(t, 100*cent)
			reservation := e.reservation(t, c, 10)
			e.admit(t, reservation)
			if tc.arrange != nil {
				tc.arrange(e, reservation)
			}
			before := scan[int](t, e, `SELECT count(*) FROM work_receipt`)
			change := tc.change
			if change == nil {
				change = func(*orphan.WorkReceipt) {}
			}
			e.hand(t, tc.want, signed(reservation, 9, change), signed(reservation, 9, change))
			if n := scan[int](t, e, `SELECT count(*) FROM work_receipt`); n != before {
				t.Errorf("it is kept: got %d, want %d", n, before)
			}
			posted, held := e.wallet(t, c)
			e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
			for _, p := range e.review(t) {
				if p.Event.EvidenceSource == usage.WorkReceipt && p.Event.Billable.Completion != 1 {
					t.Errorf("published %+v", p)
				}
			}
			if p, h := e.wallet(t, c); p != posted {
				t.Errorf("e.wallet(t, c): got %v, want %v", p, posted)
			} else if h != held {
				t.Errorf("h of e.wallet(t, c): got %v, want %v", h, held)
			}
			e.wantPaid(t, 0, 0)
			e.sound(t)
		})
	}
}

// A gateway's word that nothing was relayed releases the hold for good, whatever
// was signed before.
func TestAReceiptThatIsContradictedLaterIsNotPaid(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	e.hand(t, stored, signed(reservation, 4))
	if n := e.release(t, reservation.Request); n != 1 {
		t.Fatalf("released: got %d, want 1", n)
	}
	e.hand(t, refusedAs(orphan.NothingServed), signed(reservation, 4))
	e.wait(t)
	if all := e.review(t); len(all) != 0 {
		t.Errorf("published: got %d, want 0, in %+v", len(all), all)
	}
	e.wantWallet(t, c, 100*cent, 0)
	e.wantPaid(t, 0, 0)
	e.sound(t)
}

func TestReceiptsAreOnlyEverAdded(t *testing.T) {
	e := setup(t, unlimited)
	reservation := e.reservation(t, e.consumer(t, 100*cent), 10)
	e.admit(t, reservation)
	e.hand(t, stored, signed(reservation, 4))
	for _, sql := range []string{
		`UPDATE work_receipt SET sent_tokens = 5`, `DELETE FROM work_receipt`, `TRUNCATE work_receipt`,
	} {
		if _, err := e.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is allowed", sql)
		}
	}
	for sql, why := range map[string]string{
		`UPDATE work_receipt SET sent_tokens = 5`: "may not change any more",
		`DELETE FROM work_receipt`:                "before its day is cleared",
	} {
		if _, err := e.owner.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s by the owner: got no error, want one", sql)
		} else if !strings.Contains(err.Error(), why) {
			t.Errorf("%s by the owner: got the error %q, want %q in it", sql, err, why)
		}
	}
	const insert = `INSERT INTO work_receipt SELECT request_id, attempt + 1, provider_id, epoch, hub_id, model_id,
		claimed_prompt, claimed_completion,
		sent_tokens, sent_bytes, complete, ended_at, proof, public_key, signature FROM work_receipt LIMIT 1`
	for column, value := range map[string]string{
		"sent_tokens": "0", "sent_bytes": "-1", "public_key": `'\x00'`, "signature": `'\x00'`, "proof": `''`,
		"claimed_prompt": "NULL", "attempt + 1": "0",
	} {
		broken := bytes.Replace([]byte(insert), []byte(column+","), []byte(value+","), 1)
		if column == "signature" {
			broken = bytes.Replace([]byte(insert), []byte("signature FROM"), []byte(value+" FROM"), 1)
		}
		if _, err := e.pool.Exec(t.Context(), string(broken)); err == nil {
			t.Errorf("%s may be %s", column, value)
		}
	}
	if _, err := e.pool.Exec(t.Context(), insert); err != nil {
		t.Errorf("a sound one: %v", err)
	}
}
