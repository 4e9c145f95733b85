package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// legs writes an entry's legs as the table of postings does: "D account amount;
// C account amount".
func legs(e Entry) string {
	var out []string
	for _, p := range e.Postings {
		side, amount := "C", p.Amount
		if amount < 0 {
			side, amount = "D", -amount
		}
		name := string(p.Account.Kind)
		if p.Account.Book != "" {
			name += "/" + p.Account.Book
		}
		if p.Asset != USD {
			name += "[" + string(p.Asset) + "]"
		}
		out = append(out, fmt.Sprintf("%s %s %d", side, name, amount))
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(b[:1], a[:1]) })
	return strings.Join(out, "; ")
}

const dollar = money.USD

// postingCase is a line of the table of postings.
type postingCase struct {
	line string
	make func() (Entry, error)
	want string
}

// postingCases has every line.
func postingCases(f Fact) []postingCase {
	other := ids.AccountID{5}
	return []postingCase{
		{"1 card top-up", func() (Entry, error) { return CardTopUp(f, consumer, 20, 3) },
			"D a:card_clearing 23; C l:consumer:available 20; C r:card_fee 3"},
		{"1 card top-up without fee", func() (Entry, error) { return CardTopUp(f, consumer, 20, 0) },
			"D a:card_clearing 20; C l:consumer:available 20"},
		{"1 processor cost", func() (Entry, error) { return CardCost(f, 2) }, "D e:processor 2; C a:card_clearing 2"},
		{"2 USDC", func() (Entry, error) { return Deposit(f, consumer, usdc(7)) },
			"D a:crypto/8453:usdc[8453:usdc] 7; D a:crypto/8453:usdc 7000; C m:treasury[8453:usdc] 7; " +
				"C l:consumer:available 7000"},
		// 3 tokens of $0.123456789 and a billionth: 370370367.123456789 nano-USD.
		{"3 native token", func() (Entry, error) { return Deposit(f, consumer, coins(3_000_000_001)) },
			"D a:crypto/254:native[254:native] 3000000001; D a:crypto/254:native 370370367; D e:deposit_bonus 74074073; " +
				"C m:treasury[254:native] 3000000001; C l:consumer:available 444444440"},
		// 61728394.99: rounded half to even for the asset, down for the consumer.
		{"3 native token, rounded up", func() (Entry, error) { return Deposit(f, consumer, coins(500_000_004)) },
			"D a:crypto/254:native[254:native] 500000004; D a:crypto/254:native 61728395; D e:deposit_bonus 12345678; " +
				"C m:treasury[254:native] 500000004; C l:consumer:available 74074072; C e:fx_rounding 1"},
		{"2 a stray deposit", func() (Entry, error) { return StrayDeposit(f, usdc(7)) },
			"D a:crypto/8453:usdc[8453:usdc] 7; D a:crypto/8453:usdc 7000; C m:treasury[8453:usdc] 7; " +
				"C s:unmatched_deposit 7000"},
		{"2 and its owner", func() (Entry, error) { return MatchDeposit(f, consumer, 7000) },
			"D s:unmatched_deposit 7000; C l:consumer:available 7000"},
		{"2 or its return", func() (Entry, error) { return ReturnDeposit(f, usdc(7)) },
			"D m:treasury[8453:usdc] 7; D s:unmatched_deposit 7000; C a:crypto/8453:usdc[8453:usdc] 7; " +
				"C a:crypto/8453:usdc 7000"},
		{"3 a deposit that is gone, a part of it spent", func() (Entry, error) {
			return ReverseDeposit(f, consumer, coins(500_000_004), 70_000_000)
		},
			"D m:treasury[254:native] 500000004; D l:consumer:available 70000000; D a:consumer_receivable 4074072; " +
				"D e:fx_rounding 1; C a:crypto/254:native[254:native] 500000004; C a:crypto/254:native 61728395; " +
				"C e:deposit_bonus 12345678"},
		{"2 a deposit that is gone", func() (Entry, error) { return ReverseDeposit(f, consumer, usdc(7), 8000) },
			"D m:treasury[8453:usdc] 7; D l:consumer:available 7000; C a:crypto/8453:usdc[8453:usdc] 7; " +
				"C a:crypto/8453:usdc 7000"},
		{"11 plan refunded", func() (Entry, error) { return PlanRefund(f, "2026-03", true, 5) },
			"D l:plan_pool/2026-03 5; C a:card_clearing 5"},
		{"11 plan refunded after its month", func() (Entry, error) { return PlanRefund(f, "2026-03", false, 5) },
			"D e:goodwill 5; C a:card_clearing 5"},
		{"12 late", func() (Entry, error) { return PlanLateShare(f, provider, "2026-03", 5, 2) },
			"D l:provider:plan_held/2026-03 5; D e:orphan_work 5; C a:provider_receivable 2; C l:provider:payable 3; " +
				"C x:plan_accrual/2026-03 5"},
		{"14 released after the close", func() (Entry, error) { return PlanShare(f, provider, "2026-03", 5, 3, 1) },
			"D l:provider:plan_held/2026-03 5; C a:provider_receivable 1; C l:provider:payable 2; C x:plan_accrual/2026-03 2"},
		{"14 unclaimed", func() (Entry, error) { return PlanUnclaim(f, "2026-03", 3) },
			"D x:plan_accrual/2026-03 3; C r:plan 3"},
		{"15 batch of a debtor", func() (Entry, error) { return EarningsBatch(f, provider, 5, 2) },
			"D l:provider:accrued 5; C a:provider_receivable 2; C l:provider:payable 3"},
		{"15 batch of one who owes more", func() (Entry, error) { return EarningsBatch(f, provider, 5, 9) },
			"D l:provider:accrued 5; C a:provider_receivable 5"},
		// $9 buy 72.9000… coins: 9/0.123456789, rounded down.
		{"17 payout in coins", func() (Entry, error) {
			return PayoutConfirm(f, provider, 10*dollar, dollar, coins(72_900_000_663))
		},
			"D m:treasury[254:native] 72900000663; D l:provider:payout_in_flight 10000000000; " +
				"C a:crypto/254:native[254:native] 72900000663; C a:crypto/254:native 9000000000; C r:payout_fee 1000000000"},
		{"17 coins gain value", func() (Entry, error) { return Revaluation(f, 100_000_000, 1_000_000_000, quote) },
			"D a:crypto/254:native 23456789; C e:fx_revaluation 23456789"},
		{"17 coins lose value", func() (Entry, error) { return Revaluation(f, 123_456_790, 1_000_000_000, quote) },
			"D e:fx_revaluation 1; C a:crypto/254:native 1"},
		{"17 a rest of value without coins", func() (Entry, error) { return Revaluation(f, 3, 0, quote) },
			"D e:fx_revaluation 3; C a:crypto/254:native 3"},
		{"22 debt paid", func() (Entry, error) { return CardDebtPayment(f, consumer, 5) },
			"D l:consumer:available 5; C a:consumer_receivable 5"},
		{"22 debt lost", func() (Entry, error) { return CardDebtLoss(f, consumer, 5) },
			"D e:chargeback 5; C a:consumer_receivable 5"},
		{"22 dispute won", func() (Entry, error) { return CardDisputeWin(f, consumer, 10, 2, 3) },
			"D a:card_clearing 10; C a:consumer_receivable 2; C e:chargeback 3; C l:consumer:available 5"},
		{"the processor pays", func() (Entry, error) { return CardPayOut(f, 5) }, "D a:bank 5; C a:card_clearing 5"},
		{"23 card collateral reversed", func() (Entry, error) { return CardCollateralReversal(f, provider, 5, 3) },
			"D l:provider:collateral 3; D a:provider_receivable 2; C a:card_clearing 5"},
		{"24 forfeited on a chain", func() (Entry, error) {
			return ChainSlash(f, usdc(7), []Compensation{{consumer, 3000}})
		},
			"D a:crypto/8453:usdc[8453:usdc] 7; D a:crypto/8453:usdc 7000; C l:consumer:available 3000; C r:slash 4000; " +
				"C m:treasury[8453:usdc] 7"},
		{"a vendor is paid", func() (Entry, error) { return VendorPayment(f, provider, 5) },
			"D l:vendor:payable 5; C a:bank 5"},
		{"a vendor asks for more than was counted", func() (Entry, error) { return VendorCorrection(f, provider, 5, 7) },
			"D r:usage_margin 2; C l:vendor:payable 2"},
		{"a vendor asks for less than was counted", func() (Entry, error) { return VendorCorrection(f, provider, 7, 5) },
			"D l:vendor:payable 2; C r:usage_margin 2"},
		{"tokens bought", func() (Entry, error) { return TreasuryMove(f, In, usdc(7)) },
			"D a:crypto/8453:usdc[8453:usdc] 7; D a:crypto/8453:usdc 7000; C m:treasury[8453:usdc] 7; C a:bank 7000"},
		{"coins sold", func() (Entry, error) { return TreasuryMove(f, Out, coins(1_000_000_000)) },
			"D m:treasury[254:native] 1000000000; D a:bank 123456789; C a:crypto/254:native[254:native] 1000000000; " +
				"C a:crypto/254:native 123456789"},
		{"11 plan", func() (Entry, error) { return PlanSale(f, "2026-03", 6*dollar) },
			"D a:card_clearing 6000000000; C l:plan_pool/2026-03 6000000000"},
		{"15 batch", func() (Entry, error) { return EarningsBatch(f, provider, 5, 0) },
			"D l:provider:accrued 5; C l:provider:payable 5"},
		{"16 payout requested", func() (Entry, error) { return PayoutRequest(f, provider, 10*dollar) },
			"D l:provider:payable 10000000000; C l:provider:payout_in_flight 10000000000"},
		{"17 payout confirmed", func() (Entry, error) {
			return PayoutConfirm(f, provider, 10*dollar, dollar, usdc(9_000_000))
		},
			"D m:treasury[8453:usdc] 9000000; D l:provider:payout_in_flight 10000000000; " +
				"C a:crypto/8453:usdc[8453:usdc] 9000000; C a:crypto/8453:usdc 9000000000; C r:payout_fee 1000000000"},
		{"17 gas", func() (Entry, error) { return GasSpent(f, coins(1_000_000_000)) },
			"D m:treasury[254:native] 1000000000; D e:gas 123456789; C a:crypto/254:native[254:native] 1000000000; " +
				"C a:crypto/254:native 123456789"},
		{"18 payout failed", func() (Entry, error) { return PayoutFail(f, provider, 10*dollar) },
			"D l:provider:payout_in_flight 10000000000; C l:provider:payable 10000000000"},
		{"19 earnings to credit", func() (Entry, error) { return EarningsCredit(f, provider, consumer, 5) },
			"D l:provider:payable 5; C l:consumer:available 5"},
		{"20 refund, provider at fault", func() (Entry, error) {
			return RequestRefund(f, consumer, provider, 10, 7, Clawback{Accrued: 4, Payable: 2, Receivable: 1})
		},
			"D l:provider:accrued 4; D l:provider:payable 2; D a:provider_receivable 1; D r:usage_margin 3; " +
				"C l:consumer:available 10"},
		{"21 broken answer", func() (Entry, error) { return BrokenAnswer(f, consumer, 5) },
			"D e:goodwill 5; C l:consumer:available 5"},
		{"21 goodwill", func() (Entry, error) { return GoodwillRefund(f, consumer, 5) },
			"D e:goodwill 5; C l:consumer:available 5"},
		{"22 card reversed", func() (Entry, error) { return CardReversal(f, consumer, 10, 4) },
			"D l:consumer:available 4; D a:consumer_receivable 6; C a:card_clearing 10"},
		{"22 card reversed, all there", func() (Entry, error) { return CardReversal(f, consumer, 10, 40) },
			"D l:consumer:available 10; C a:card_clearing 10"},
		{"22 card reversed, all spent", func() (Entry, error) { return CardReversal(f, consumer, 10, 0) },
			"D a:consumer_receivable 10; C a:card_clearing 10"},
		{"23 card collateral", func() (Entry, error) { return CardCollateral(f, provider, 5) },
			"D a:card_clearing 5; C l:provider:collateral 5"},
		{"24 slash", func() (Entry, error) { return Slash(f, provider, 5) },
			"D l:provider:collateral 5; C l:provider:slash_escrow 5"},
		{"24 forfeit", func() (Entry, error) { return SlashForfeit(f, provider, 5, nil) },
			"D l:provider:slash_escrow 5; C r:slash 5"},
		{"24 forfeit to consumers", func() (Entry, error) {
			return SlashForfeit(f, provider, 5, []Compensation{{consumer, 2}, {other, 1}})
		},
			"D l:provider:slash_escrow 5; C l:consumer:available 2; C l:consumer:available 1; C r:slash 2"},
		{"24 appeal won", func() (Entry, error) { return SlashAppealWon(f, provider, 5, CardBacking{0, 7}) },
			"D l:provider:slash_escrow 5; C l:provider:collateral 5"},
		{"24 appeal won of a payment that went back", func() (Entry, error) {
			return SlashAppealWon(f, provider, 5, CardBacking{-4, 3})
		},
			"D l:provider:slash_escrow 5; C l:provider:collateral 1; C a:provider_receivable 3; C l:provider:payable 1"},
		{"23 dispute won", func() (Entry, error) { return CardCollateralWin(f, provider, 5, 0, CardBacking{0, 9}) },
			"D a:card_clearing 5; C l:provider:collateral 5"},
		{"23 dispute won of a debtor", func() (Entry, error) {
			return CardCollateralWin(f, provider, 5, 4, CardBacking{-3, 3})
		},
			"D a:card_clearing 5; C l:provider:collateral 2; C a:provider_receivable 3"},
		{"23 dispute won after earnings paid the debt", func() (Entry, error) {
			return CardCollateralWin(f, provider, 5, 4, CardBacking{-4, 0})
		},
			"D a:card_clearing 5; C l:provider:collateral 1; C l:provider:payable 4"},
		{"26 undone before the reversal", func() (Entry, error) {
			return CollateralRefundUndo(f, provider, 5, CardBacking{0, 9})
		},
			"D l:provider:collateral_refund_pending 5; C l:provider:collateral 5"},
		{"26 undone after the reversal", func() (Entry, error) {
			return CollateralRefundUndo(f, provider, 5, CardBacking{-5, 5})
		},
			"D l:provider:collateral_refund_pending 5; C a:provider_receivable 5"},
		{"26 undone after earnings paid the debt", func() (Entry, error) {
			return CollateralRefundUndo(f, provider, 5, CardBacking{-6, 0})
		},
			"D l:provider:collateral_refund_pending 5; C l:provider:payable 5"},
		{"25 plan earnings forfeited", func() (Entry, error) { return PlanForfeit(f, provider, "2026-03", 5) },
			"D l:provider:plan_held/2026-03 5; C x:plan_accrual/2026-03 5"},
		{"26 collateral refund", func() (Entry, error) { return CollateralRefund(f, provider, 5) },
			"D l:provider:collateral 5; C l:provider:collateral_refund_pending 5"},
		{"26 collateral refunded", func() (Entry, error) { return CollateralRefunded(f, provider, Bank, 5) },
			"D l:provider:collateral_refund_pending 5; C a:bank 5"},
		{"26 refund that the card did not take", func() (Entry, error) { return CollateralRefundFail(f, provider, 5) },
			"D a:card_clearing 5; C l:provider:collateral_refund_pending 5"},
		{"27 orphan work", func() (Entry, error) { return Orphan(f.ID, ids.RequestID{3}, provider, 5), nil },
			"D e:orphan_work 5; C l:provider:accrued 5"},
		{"custody in", func() (Entry, error) { return CustodyIn(f, provider, Native, 5) },
			"D m:custody/254[254:native] 5; C m:collateral[254:native] 5"},
		{"custody out", func() (Entry, error) { return CustodyOut(f, provider, Native, 5) },
			"D m:collateral[254:native] 5; C m:custody/254[254:native] 5"},
	}
}

func TestEveryPostingOfTheTable(t *testing.T) {
	for _, tc := range postingCases(newFact("fact")) {
		t.Run(tc.line, func(t *testing.T) {
			e, err := tc.make()
			if err != nil {
				t.Fatal(err)
			}
			if got := legs(e); got != tc.want {
				t.Errorf("legs\n%s\nwant\n%s", got, tc.want)
			}
			if err := e.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPostingsRefuseArgumentsOutOfRange(t *testing.T) {
	f := newFact("fact")
	bad := []money.NanoUSD{0, -1, MaxAmount + 1, -1 << 63}
	for _, a := range bad {
		for name, make := range map[string]func() (Entry, error){
			"top-up":       func() (Entry, error) { return CardTopUp(f, consumer, a, 0) },
			"card cost":    func() (Entry, error) { return CardCost(f, a) },
			"USDC":         func() (Entry, error) { return Deposit(f, consumer, usdc(Units(a))) },
			"native":       func() (Entry, error) { return Deposit(f, consumer, coins(Units(min(a, 0)))) },
			"stray":        func() (Entry, error) { return StrayDeposit(f, usdc(Units(a))) },
			"match":        func() (Entry, error) { return MatchDeposit(f, consumer, a) },
			"return":       func() (Entry, error) { return ReturnDeposit(f, usdc(Units(a))) },
			"gone":         func() (Entry, error) { return ReverseDeposit(f, consumer, usdc(Units(a)), 5) },
			"treasury":     func() (Entry, error) { return TreasuryMove(f, In, usdc(Units(a))) },
			"chain slash":  func() (Entry, error) { return ChainSlash(f, usdc(Units(a)), nil) },
			"plan refund":  func() (Entry, error) { return PlanRefund(f, "2026-03", true, a) },
			"late":         func() (Entry, error) { return PlanLateShare(f, provider, "2026-03", a, 0) },
			"released":     func() (Entry, error) { return PlanShare(f, provider, "2026-03", a, 0, 0) },
			"unclaimed":    func() (Entry, error) { return PlanUnclaim(f, "2026-03", a) },
			"debt paid":    func() (Entry, error) { return CardDebtPayment(f, consumer, a) },
			"debt lost":    func() (Entry, error) { return CardDebtLoss(f, consumer, a) },
			"dispute won":  func() (Entry, error) { return CardDisputeWin(f, consumer, a, 0, 0) },
			"processor":    func() (Entry, error) { return CardPayOut(f, a) },
			"vendor":       func() (Entry, error) { return VendorPayment(f, provider, a) },
			"invoice":      func() (Entry, error) { return VendorCorrection(f, provider, 7, a) },
			"count":        func() (Entry, error) { return VendorCorrection(f, provider, a, 7) },
			"card taken":   func() (Entry, error) { return CardCollateralReversal(f, provider, a, 0) },
			"plan":         func() (Entry, error) { return PlanSale(f, "2026-03", a) },
			"forfeit":      func() (Entry, error) { return PlanForfeit(f, provider, "2026-03", a) },
			"batch":        func() (Entry, error) { return EarningsBatch(f, provider, a, 0) },
			"payout":       func() (Entry, error) { return PayoutRequest(f, provider, a) },
			"confirm":      func() (Entry, error) { return PayoutConfirm(f, provider, a, 0, usdc(1)) },
			"gas":          func() (Entry, error) { return GasSpent(f, coins(Units(min(a, 0)))) },
			"fail":         func() (Entry, error) { return PayoutFail(f, provider, a) },
			"credit":       func() (Entry, error) { return EarningsCredit(f, provider, consumer, a) },
			"refund":       func() (Entry, error) { return RequestRefund(f, consumer, provider, a, 0, Clawback{}) },
			"broken":       func() (Entry, error) { return BrokenAnswer(f, consumer, a) },
			"goodwill":     func() (Entry, error) { return GoodwillRefund(f, consumer, a) },
			"card gone":    func() (Entry, error) { return CardReversal(f, consumer, a, 0) },
			"collateral":   func() (Entry, error) { return CardCollateral(f, provider, a) },
			"slash":        func() (Entry, error) { return Slash(f, provider, a) },
			"forfeited":    func() (Entry, error) { return SlashForfeit(f, provider, a, nil) },
			"share":        func() (Entry, error) { return SlashForfeit(f, provider, 5, []Compensation{{consumer, a}}) },
			"appeal":       func() (Entry, error) { return SlashAppealWon(f, provider, a, CardBacking{}) },
			"undone":       func() (Entry, error) { return CollateralRefundUndo(f, provider, a, CardBacking{}) },
			"won":          func() (Entry, error) { return CardCollateralWin(f, provider, a, 0, CardBacking{}) },
			"refund asked": func() (Entry, error) { return CollateralRefund(f, provider, a) },
			"refund paid":  func() (Entry, error) { return CollateralRefunded(f, provider, Bank, a) },
			"not taken":    func() (Entry, error) { return CollateralRefundFail(f, provider, a) },
			"custody in":   func() (Entry, error) { return CustodyIn(f, provider, Native, Units(a)) },
			"custody out":  func() (Entry, error) { return CustodyOut(f, provider, Native, Units(a)) },
		} {
			if _, err := make(); err == nil {
				t.Errorf("%s of %d: accepted", name, a)
			}
		}
	}
	many := make([]Compensation, maxCompensated+1)
	for i := range many {
		many[i] = Compensation{ids.AccountID{byte(i + 1)}, 1}
	}
	for name, make := range map[string]func() (Entry, error){
		"negative fee":          func() (Entry, error) { return CardTopUp(f, consumer, 5, -1) },
		"no id":                 func() (Entry, error) { return CardTopUp(Fact{BusinessID: "x"}, consumer, 5, 1) },
		"no business id":        func() (Entry, error) { return CardTopUp(Fact{ID: f.ID}, consumer, 5, 1) },
		"no consumer":           func() (Entry, error) { return CardTopUp(f, ids.AccountID{}, 5, 1) },
		"coins without a quote": func() (Entry, error) { return Deposit(f, consumer, Sum{Token: Native, Units: 5}) },
		"USDC with a quote": func() (Entry, error) {
			q := quote
			q.Token = USDCBase
			return Deposit(f, consumer, Sum{USDCBase, 5, &q})
		},
		"the quote of another coin": func() (Entry, error) {
			return Deposit(f, consumer, Sum{ETHBase, 5_000_000_000, &quote})
		},
		"a token of nobody":  func() (Entry, error) { return Deposit(f, consumer, Sum{Token: "1:doge", Units: 5}) },
		"gas in USDC":        func() (Entry, error) { return GasSpent(f, usdc(5)) },
		"no change of value": func() (Entry, error) { return Revaluation(f, 123_456_789, 1_000_000_000, quote) },
		"USDC revalued": func() (Entry, error) {
			q := quote
			q.Token = USDCBase
			return Revaluation(f, 5, 5, q)
		},
		"a negative debt":            func() (Entry, error) { return EarningsBatch(f, provider, 5, -1) },
		"more paid than was earned":  func() (Entry, error) { return PlanShare(f, provider, "2026-03", 5, 6, 0) },
		"more won than was disputed": func() (Entry, error) { return CardDisputeWin(f, consumer, 5, 3, 3) },
		"coins that $9 do not buy": func() (Entry, error) {
			return PayoutConfirm(f, provider, 10*dollar, dollar, coins(72_900_000_662))
		},
		"worth nothing":       func() (Entry, error) { return Deposit(f, consumer, coins(1)) },
		"no month":            func() (Entry, error) { return PlanSale(f, "2026-3", 5) },
		"payout below $10":    func() (Entry, error) { return PayoutRequest(f, provider, 10*dollar-1000) },
		"payout with dust":    func() (Entry, error) { return PayoutRequest(f, provider, 10*dollar+1) },
		"fee eats the payout": func() (Entry, error) { return PayoutConfirm(f, provider, 10*dollar, 10*dollar, usdc(1)) },
		"fewer tokens than due": func() (Entry, error) {
			return PayoutConfirm(f, provider, 10*dollar, dollar, usdc(8_999_999))
		},
		"no tokens": func() (Entry, error) { return PayoutConfirm(f, provider, 10*dollar, dollar, coins(0)) },
		"payout above charge": func() (Entry, error) {
			return RequestRefund(f, consumer, provider, 5, 6,
				Clawback{Accrued: 6})
		},
		"less taken than paid": func() (Entry, error) {
			return RequestRefund(f, consumer, provider, 5, 4,
				Clawback{Accrued: 3})
		},
		"negative taken": func() (Entry, error) {
			return RequestRefund(f, consumer, provider, 5, 4, Clawback{Accrued: 5, Payable: -1})
		},
		"negative available":  func() (Entry, error) { return CardReversal(f, consumer, 5, -1) },
		"more than was taken": func() (Entry, error) { return SlashForfeit(f, provider, 5, []Compensation{{consumer, 6}}) },
		"too many consumers":  func() (Entry, error) { return SlashForfeit(f, provider, 500, many) },
		"more debt than won":  func() (Entry, error) { return CardCollateralWin(f, provider, 5, 6, CardBacking{}) },
		"a debt below zero":   func() (Entry, error) { return CardCollateralWin(f, provider, 5, -1, CardBacking{}) },
		"refund from nowhere": func() (Entry, error) { return CollateralRefunded(f, provider, Goodwill, 5) },
	} {
		if e, err := make(); err == nil {
			t.Errorf("%s: accepted as %s", name, legs(e))
		}
	}
	if e, err := ChainSlash(f, usdc(1), many[1:]); err != nil {
		t.Errorf("as many consumers as fit: got the error %v, want none", err)
	} else if len(e.Postings) != MaxLegs {
		t.Errorf("as many consumers as fit: len(e.Postings): got %d, want %d", len(e.Postings), MaxLegs)
	}
}

func TestPayoutsLeaveTheDust(t *testing.T) {
	for balance, want := range map[money.NanoUSD]money.NanoUSD{12_345_678_901: 12_345_678_000, 999: 0, 0: 0, -5: 0} {
		if got := PayableInFull(balance); got != want {
			t.Errorf("of %d: got %d can be paid out, want %d", balance, got, want)
		}
	}
}

func TestASlashIsRoundedDown(t *testing.T) {
	if got, err := SlashedPercent(999, 10); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got != 99 {
		t.Errorf("10 %% of 999: got %d, want 99", got)
	}
	for _, share := range []int{0, -1, 101} {
		if _, err := SlashedPercent(999, share); err == nil {
			t.Errorf("%d %%: accepted", share)
		}
	}
}
