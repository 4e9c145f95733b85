package settlement_test

import (
	"context"
	"io/fs"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/pg/devclock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// story is a part of an owner's money, and the points at which a process is killed meanwhile.
type story struct {
	name   string
	points []string
	tell   func(k *killing, t *testing.T, points []string)
}

// stories are told one after another in one town.
var stories = []story{
	{"a deposit of collateral on a chain counts once", []string{
		"settlement.watch.before_commit", "settlement.watch.committed", "settlement.position.before_commit",
		"settlement.position.applied", "settlement.custody.posted",
	}, (*killing).depositsCollateral},
	{"a payment by card counts once", []string{
		"billing.card.session_made", "billing.card.event_stored", "billing.card.paid_before_commit", "billing.card.paid",
	}, (*killing).paysByCard},
	{"a day is batched once", []string{
		"settlement.batch.before_collected", "settlement.batch.collected", "settlement.batch.before_commit",
		"settlement.batch.committed", "settlement.batch.attempted", "settlement.batch.posted",
	}, (*killing).endsADay},
	{"a payout is received once", []string{
		"settlement.payout.reserved", "settlement.payout.prepared", "settlement.call.enqueued",
		"signer.nonce.before_commit", "signer.nonce.committed", "settlement.call.signed", "settlement.call.stored",
		"settlement.call.sent", "settlement.call.final", "settlement.call.ended", "settlement.payout.confirmed",
		"settlement.gas.posted",
	}, (*killing).isPaid},
	{"a payout that was taken back is given back once", []string{"settlement.payout.given_back"},
		(*killing).takesAPayoutBack},
	{"a payout that was cancelled on the chain is given back once", []string{
		"settlement.call.signed", "settlement.call.stored", "settlement.call.sent", "settlement.payout.failed",
	}, (*killing).losesAPayoutToItsCancel},
	{"a conversion is posted once", []string{"settlement.conversion.posted"}, (*killing).converts},
	{"what a database that was set back has lost is adopted once", []string{
		"settlement.adoption.before_commit", "settlement.adoption.committed",
	}, (*killing).isSetBack},
	{"a consumer's deposit is credited once", []string{
		"settlement.deposit.decided", "settlement.deposit.posted",
	}, (*killing).creditsADeposit},
	{"a penalty is taken once", []string{
		"settlement.slash.begun", "settlement.slash.posted", "settlement.slash.taken",
	}, (*killing).isPenalized},
	{"collateral is given back once", []string{
		"settlement.refund.before_commit", "settlement.refund.begun", "settlement.refund.before_paying",
		"settlement.refund.asked", "billing.card.refund_asked", "billing.card.refund_made", "settlement.refund.paid_back",
		"settlement.refund.posted",
	}, (*killing).getsCollateralBack},
	{"a payment that goes back goes back once", []string{"billing.card.reversed_before_commit"},
		(*killing).disputesAPayment},
	{"reserves are read, and a coin is valued once a day", []string{
		"settlement.reserves.before_commit", "settlement.revaluation.posted",
	}, (*killing).valuesCoins},
	{"a month of plans is closed once", []string{monthClosed}, (*killing).closesAMonth},
}

// monthClosed is the point behind the close of a month of plans.
const monthClosed = "settlement.month.closed"

// elsewhere begins the names of points that no story reaches. Package kill has a process killed at those of a request.
// At the others, which are those of payments that come back otherwise than by a dispute, the tests of their own service
// end the work.
var elsewhere = []string{"settlement.line.", "settlement.refund.bank_posted", "settlement.refund.undone",
	"billing.card.won_before_commit", "billing.card.refund_failed_before_commit", "billing.card.debt_before_commit",
	"billing.card.refund_asked_before_commit"}

func TestNothingIsLostOrDoneTwiceWhereverAProcessIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills cost minutes; run without -short")
	}
	t.Parallel() // it has a marketplace of its own
	k := newKilling(t)
	for _, s := range stories {
		if !t.Run(s.name, func(t *testing.T) { s.tell(k, t, s.points) }) {
			t.FailNow() // what follows builds on it
		}
	}
	trial.Until(t, "every cost is posted", func() bool {
		return k.is(`count(*) = (SELECT count(*) FROM settlement.call_end) FROM billing.entry WHERE kind = 'gas'`)
	})
	k.posted(t, map[string]int{"payout_requested": 4, "payout_confirmed": 2, "payout_failed": 2, "earnings_credit": 1,
		"earnings_batch": 1, "revaluation": 1, "custody_in": 1, "custody_out": 2, "slash_chain": 1, "slash": 1,
		"slash_forfeit": 1, "collateral_card": 2, "collateral_refund": 1, "collateral_refund_paid": 1,
		"collateral_card_reversed": 1, "deposit_usdc": 1, "plan_share": 1})
	k.verified(t)
}

// mark finds points in source text.
var mark = regexp.MustCompile(`crash\.At\("((?:settlement|signer|billing\.card)\.[^"]*)"\)`)

func TestEveryPointOfTheTreeIsInAStory(t *testing.T) {
	t.Parallel()
	told := map[string]bool{}
	for _, s := range stories {
		for _, point := range s.points {
			told[point] = true
		}
	}
	found := map[string]bool{}
	for _, service := range []string{"settlement", "billing-ledger"} {
		root := filepath.Join(repository, "services", service)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range mark.FindAllSubmatch(text, -1) {
				found[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for point := range found {
		others := slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(point, prefix) })
		if told[point] == others {
			t.Errorf("%s: in a story %t, elsewhere %t, want one of the two", point, told[point], others)
		}
	}
	for point := range told {
		if !found[point] {
			t.Errorf("%s: got no such point in the tree, want one", point)
		}
	}
}

func (k *killing) depositsCollateral(t *testing.T, points []string) {
	asked := k.o.AskDeposit(t, on, minimum)
	k.from = k.ask(t, on, "eth_blockNumber")
	k.arm(points...)
	k.o.SendDeposit(t, on, asked)
	k.o.waitStatusOfCollateral(t, "20")
	k.dead(t, points)
	k.posted(t, map[string]int{"custody_in": 1})
	if !k.is(`count(*) = 1 AND sum(units) = 20000000 FROM settlement.position_event WHERE units <> 0`) {
		t.Error("what came into the contract: got something else, want one event of 20 dollars")
	}
}

// waitStatusOfCollateral waits until the provider reads what is free on the chain.
func (o *owner) waitStatusOfCollateral(t *testing.T, free string) {
	t.Helper()
	trial.Until(t, free+" dollars are free on the chain", func() bool {
		read := o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/collateral", o.Key, "")
		list, _ := read["chains"].([]any)
		return slices.ContainsFunc(list, func(one any) bool {
			return trial.At(one, "chain_id") == float64(on) && trial.At(one, "free") == free
		})
	})
}

// checkout opens a page for collateral by card and returns its path.
func (k *killing) checkout(t *testing.T, key string) string {
	t.Helper()
	page := k.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/collateral/deposit", k.o.Token,
		`{"amount_usd":"20","return_url":"http://127.0.0.1/"}`, "Idempotency-Key", key)
	at, err := url.Parse(trial.Text(t, page, "url"))
	if err != nil {
		t.Fatal(err)
	}
	return at.Path
}

// press presses a button of a page.
func (k *killing) press(t *testing.T, page, button string) {
	t.Helper()
	trial.Until(t, button+" is pressed", func() bool {
		status, _, _ := k.Call(t, http.MethodPost, page, "", "action="+button, "Content-Type",
			"application/x-www-form-urlencoded")
		return status == http.StatusOK // of the page that follows
	})
}

// waitCard waits until the provider reads what is free by card.
func (k *killing) waitCard(t *testing.T, free string) {
	t.Helper()
	trial.Until(t, "$"+free+" is free by card", func() bool {
		read := k.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/collateral", k.o.Key, "")
		return trial.At(read, "card", "free_usd_str") == free
	})
}

func (k *killing) paysByCard(t *testing.T, points []string) {
	k.arm(points...)
	k.press(t, k.checkout(t, "card"), "pay")
	k.waitCard(t, "20.00")
	k.dead(t, points)
	k.posted(t, map[string]int{"collateral_card": 1, "card_cost": 1})
	if !k.is(`count(*) = 1 FROM billing.card_payment`) {
		t.Error("payments by card: got another number, want 1")
	}
}

func (k *killing) endsADay(t *testing.T, points []string) {
	k.o.ServeAt(t, dear, 100_000, 300_000)
	k.o.WaitStatus(t, "active")
	k.o.Earn(t, 30)
	k.sellAPlan(t)
	k.arm(points...)
	k.mu.Lock()
	k.NextDay(t)
	k.mu.Unlock()
	k.o.Payable(t)
	k.dead(t, points)
	k.posted(t, map[string]int{"earnings_batch": 1})
}

// sellAPlan sells a plan for $1, under which the provider serves one request.
func (k *killing) sellAPlan(t *testing.T) {
	t.Helper()
	_, _, k.month = k.town.month(t)
	k.arm(monthClosed) // at the end of a month other stories are told meanwhile
	if err := k.peers.Call(fleet.Settlement, fleet.Billing, func(conn *grpc.ClientConn) error {
		_, err := billingv1.NewPostingServiceClient(conn).Post(t.Context(), &billingv1.PostRequest{
			Fact: &billingv1.PostRequest_PlanSold{PlanSold: &billingv1.PlanSold{InvoiceId: "invoice-1", Month: k.month,
				PriceNanoUsd: 1_000_000_000}}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	account, key := k.Consumer(t, "")
	k.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/plan", `{"plan":"pro"}`)
	k.Wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, key, trial.Chat(dear, ""))
	trial.Until(t, "the request is settled", func() bool {
		return k.is(`count(*) = 31 FROM settlement.earning_line`)
	})
}

func (k *killing) closesAMonth(t *testing.T, points []string) {
	first, err := time.Parse("2006-01", k.month)
	if err != nil {
		t.Fatal(err)
	}
	now, _, _ := k.town.month(t)
	second := first.AddDate(0, 1, 1).Add(12 * time.Hour) // the second day of the next month
	k.Pass(t, max(0, second.Sub(now))+devclock.NextDay(second))
	trial.Until(t, "the month is closed", func() bool {
		status, _, _ := k.Call(t, http.MethodGet, "/api/v1/stats/plan-pool/"+k.month, "", "")
		return status == http.StatusOK
	})
	k.dead(t, points)
	k.posted(t, map[string]int{"plan_share": 1, "plan_close": 1})
}

// request asks for a payout and returns its id.
func (k *killing) request(t *testing.T, usd, key string) string {
	t.Helper()
	k.o.Login(t)
	return trial.Text(t, k.Wants(t, http.StatusCreated, http.MethodPost, "/api/v1/provider/payouts", k.o.Token,
		`{"amount_usd":"`+usd+`"}`, "Idempotency-Key", key), "payout_id")
}

// waitPayout waits until a payout is in a state, and for what.
func (k *killing) waitPayout(t *testing.T, id, state, waiting string) {
	t.Helper()
	trial.Until(t, "the payout is "+state, func() bool {
		var is, why string
		err := k.db.QueryRow(t.Context(), `SELECT state, waiting FROM settlement.payout WHERE payout_id = $1`, id).
			Scan(&is, &why)
		if err != nil {
			t.Fatal(err)
		}
		return is == state && why == waiting
	})
}

func (k *killing) isPaid(t *testing.T, points []string) {
	before := k.dollars(t, on, k.o.Wallet)
	k.arm(points...)
	id := k.request(t, "12.50", "paid")
	k.waitPayout(t, id, "confirmed", "")
	k.dead(t, points)
	k.gained(t, "the provider", before, k.dollars(t, on, k.o.Wallet), 11_500_000)
	k.posted(t, map[string]int{"payout_requested": 1, "payout_confirmed": 1, "payout_failed": 0, "gas": 1})
}

func (k *killing) takesAPayoutBack(t *testing.T, points []string) {
	k.Pass(t, time.Hour+time.Minute) // one an hour
	before := k.dollars(t, on, k.o.Wallet)
	id := k.request(t, "25", "taken-back")
	k.waitPayout(t, id, "requested", "approval")
	k.arm(points...)
	k.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/payouts/"+id+"/cancel", k.o.Token, "",
		"Idempotency-Key", "cancel")
	k.waitPayout(t, id, "cancelled", "")
	k.dead(t, points)
	k.gained(t, "the provider", before, k.dollars(t, on, k.o.Wallet), 0)
	k.posted(t, map[string]int{"payout_requested": 2, "payout_failed": 1})
}

// A payout's transaction waits in a chain that makes no blocks, until an operator cancels it.
func (k *killing) losesAPayoutToItsCancel(t *testing.T, points []string) {
	k.Pass(t, time.Hour+time.Minute)
	before := k.dollars(t, on, k.o.Wallet)
	k.still(t)
	id := k.request(t, "15", "cancelled")
	trial.Until(t, "the transaction is sent", func() bool {
		return k.ask(t, on, "eth_getBlockTransactionCountByNumber", "pending").Sign() > 0
	})
	k.waitPayout(t, id, "submitted", "")
	k.arm(points...)
	k.operate(t, "/api/v1/admin/payouts/"+id+"/cancel-on-chain", `{"reason":"it hangs"}`)
	trial.Until(t, "the cancel is signed and sent", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return !k.left["settlement.call.sent"]
	})
	k.moves(t)
	k.waitPayout(t, id, "failed", "")
	k.dead(t, points)
	k.gained(t, "the provider", before, k.dollars(t, on, k.o.Wallet), 0)
	k.posted(t, map[string]int{"payout_requested": 3, "payout_confirmed": 1, "payout_failed": 2})
}

// still has the chain make no blocks, once all that it has is final.
func (k *killing) still(t *testing.T) {
	t.Helper()
	var last *big.Int
	trial.Until(t, "the chain has nothing to do", func() bool {
		now := k.ask(t, on, "eth_blockNumber")
		quiet := last != nil && last.Cmp(now) == 0
		last = now
		return quiet
	})
	k.mine(t, "evm_setAutomine", false)
	k.mine(t, "evm_setIntervalMining", 0)
}

// moves has it make blocks again.
func (k *killing) moves(t *testing.T) {
	t.Helper()
	k.mine(t, "anvil_mine", 1)
	k.mine(t, "evm_setAutomine", true)
}

func (k *killing) mine(t *testing.T, method string, argument any) {
	t.Helper()
	if err := devchain.Ask(t.Context(), k.Chains[on], nil, method, argument); err != nil {
		t.Fatal(err)
	}
}

// operate makes an operator's call until it is answered.
func (k *killing) operate(t *testing.T, path, body string) {
	t.Helper()
	trial.Until(t, "an operator's call is answered", func() bool {
		status, _, answer := trial.CallAt(t, k.AdminURL(), http.MethodPost, path, k.Env["SVC_ADMIN_TOKEN"], body)
		if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
			t.Fatalf("POST %s: got %d %s, want 200", path, status, answer)
		}
		return status == http.StatusOK
	})
}

func (k *killing) converts(t *testing.T, points []string) {
	k.arm(points...)
	k.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/convert", k.o.Token, `{"amount_usd":"0.5"}`,
		"Idempotency-Key", "convert")
	k.dead(t, points)
	k.posted(t, map[string]int{"earnings_credit": 1})
}

// transfer is the selector of transfer(address,uint256).
var transfer = []byte{0xa9, 0x05, 0x9c, 0xbb}

func (k *killing) creditsADeposit(t *testing.T, points []string) {
	account, _ := k.Consumer(t, "")
	var to ethereum.Address
	err := k.peers.Call(fleet.Gateway, fleet.Settlement, func(conn *grpc.ClientConn) error {
		got, err := settlementv1.NewDepositServiceClient(conn).GetDepositAddress(t.Context(),
			&settlementv1.GetDepositAddressRequest{AccountId: account})
		if err != nil {
			return err
		}
		to, err = ethereum.ParseAddress(got.GetAddress())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	k.arm(points...)
	k.o.Send(t, on, devchain.USD, nil,
		slices.Concat(transfer, word(to[:]), word(big.NewInt(50_000_000).Bytes())))
	trial.Until(t, "the deposit is credited", func() bool {
		return k.is(`count(*) = 1 FROM settlement.transfer WHERE state = 'credited' AND entry_id IS NOT NULL`)
	})
	k.dead(t, points)
	k.posted(t, map[string]int{"deposit_usdc": 1})
	if !k.is(`count(*) = 1 FROM settlement.transfer`) {
		t.Error("transfers: got another number, want 1")
	}
}

func (k *killing) isPenalized(t *testing.T, points []string) {
	before := k.dollars(t, on, treasury(t))
	k.arm(points...)
	req := penaltyOf(t, k.o, 1_000)
	trial.Until(t, "the penalty is open", func() bool {
		return k.peers.Call(fleet.Verifier, fleet.Settlement, func(conn *grpc.ClientConn) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return peers.OpenPenalty(ctx, conn, req)
		}) == nil
	})
	k.o.waitPosition(t, on, "a tenth is in escrow on the chain", 18_000_000, 2_000_000)
	k.waitCard(t, "18.00")
	trial.Until(t, "both parts are in escrow", func() bool {
		return k.is(`count(*) = 2 FROM settlement.penalty_part WHERE state = 'escrowed'`)
	})
	k.Pass(t, appealTime)
	k.o.waitPosition(t, on, "the penalty is executed on the chain", 18_000_000, 0)
	trial.Until(t, "both parts are taken", func() bool {
		return k.is(`count(*) = 2 FROM settlement.penalty_part WHERE state = 'executed'`)
	})
	k.dead(t, points)
	trial.Until(t, "the books have what was taken", func() bool { return k.entries(t, "slash_chain") == 1 })
	k.gained(t, "the treasury", before, k.dollars(t, on, treasury(t)), 2_000_000)
	k.posted(t, map[string]int{"slash": 1, "slash_forfeit": 1, "slash_chain": 1, "custody_out": 1,
		"slash_appeal_won": 0})
}

func (k *killing) getsCollateralBack(t *testing.T, points []string) {
	k.o.Login(t)
	deposited := k.dollars(t, on, k.o.Wallet)
	k.arm(points...)
	refund := k.Wants(t, http.StatusOK, http.MethodPost, refundPath, k.o.Token, "", "Idempotency-Key", "refund")
	trial.Until(t, "the contract was asked for the refund", func() bool {
		return k.o.position(t, on).refundAt.Sign() > 0
	})
	k.Pass(t, 7*24*time.Hour+time.Minute)
	k.o.waitPosition(t, on, "the contract has nothing of the depositor", 0, 0)
	trial.Until(t, "the refund is paid", func() bool {
		return k.is(`count(*) = 1 AND bool_and(state = 'paid') FROM settlement.collateral_refund`)
	})
	k.dead(t, points)
	k.gained(t, "the depositor", deposited, k.dollars(t, on, k.o.Wallet), 18_000_000)
	k.posted(t, map[string]int{"collateral_refund": 1, "collateral_refund_paid": 1, "custody_out": 2})
	if !k.is(`count(*) = 1 AND sum(cents) = 1800 FROM billing.sandbox_return`) {
		t.Errorf("what the card processor gave back of refund %v: got another sum, want $18 once", refund["refund_id"])
	}
}

func (k *killing) disputesAPayment(t *testing.T, points []string) {
	k.o.Login(t)
	page := k.checkout(t, "disputed")
	k.press(t, page, "pay")
	k.waitCard(t, "20.00")
	k.arm(points...)
	k.press(t, page, "chargeback")
	k.waitCard(t, "0.00")
	k.dead(t, points)
	k.posted(t, map[string]int{"collateral_card": 2, "collateral_card_reversed": 1})
}
