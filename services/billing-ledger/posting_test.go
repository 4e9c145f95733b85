package billingledger_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
)

// books are what facts are posted about: a consumer with $100 of credit, and a provider that
// has accrued $100 by orphan work and paid $20 of collateral by card.
type books struct {
	*fleet
	account, provider string
	charge            card.Charge
	paid              card.CheckoutID
	// refund is the bank's, and undone is one whose money the card's owner had before.
	refund, undone card.RefundID
}

func newBooks(t *testing.T) *books {
	t.Helper()
	f := start(t)
	provider, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.post(t, ledger.Orphan(entryID(t), request, provider, 100*money.USD), nil); err != nil {
		t.Fatal(err)
	}
	b := &books{fleet: f, account: f.consumer(t, "100").account, provider: provider.String(),
		charge: card.Charge{PaymentID: "pi_1", CostID: "bt_1", Total: 2000}}
	b.paid = b.payByCard(t, provider)
	b.refund = b.refunded(t, b.paid, 400, card.FromBank)
	b.undone = b.refunded(t, b.paid, 100, card.Reversed)
	return b
}

// refunded is a refund that ended so.
func (b *books) refunded(t *testing.T, of card.CheckoutID, amount card.Cents, end card.RefundState) card.RefundID {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := card.Refund{ID: card.RefundID(id), Checkout: of, Amount: amount, Attempt: 1}
	if _, err := b.kept().AskRefund(t.Context(), r, newEntry); err != nil {
		t.Fatal(err)
	}
	if _, err := b.kept().EndRefund(t.Context(), r, end, "", newEntry); err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func (b *books) kept() store.Cards {
	return store.Cards{Store: store.New(b.db, limit.Defaults{}, store.Terms{})}
}

func newEntry() (ids.EntryID, error) { return ids.NewEntry(time.Now(), rand.Reader) }

// payByCard is what follows from a paid session.
func (b *books) payByCard(t *testing.T, provider ids.ProviderID) card.CheckoutID {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := card.Checkout{ID: card.CheckoutID(id), Purpose: card.Collateral, Provider: provider, Amount: b.charge.Total,
		Processor: "sandbox", ReturnURL: "https://example.com/"}
	if _, err := b.kept().Open(t.Context(), c, time.Hour); err != nil {
		t.Fatal(err)
	}
	session := card.Session{ID: "cs_1", URL: "https://example.com/", Expires: time.Now()}
	if _, err := b.kept().SetSession(t.Context(), c.ID, session); err != nil {
		t.Fatal(err)
	}
	if _, err := b.kept().Pay(t.Context(), c.ID, b.charge, newEntry); err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// tell posts the whole story, and then the card's owner gets its $20 back.
func (b *books) tell(t *testing.T) {
	t.Helper()
	for _, req := range b.story() {
		if _, err := b.facts.Post(t.Context(), req); err != nil {
			t.Fatalf("%s: %v", kindOf(req), err)
		}
	}
	back := card.Return{Object: card.Object{Kind: card.DisputeObject, ID: "dp_1"}, PaymentID: b.charge.PaymentID,
		Checkout: b.paid.String(), Amount: b.charge.Total}
	if _, err := b.kept().Reverse(t.Context(), back, newEntry); err != nil {
		t.Fatal(err)
	}
}

const day = "2026-03-04"

func dollars(n int64) int64 { return n * int64(money.USD) }

func txHash(digit string) string { return "0x" + strings.Repeat(digit, 64) }

func usdcSum(units int64) *billingv1.TokenSum {
	return &billingv1.TokenSum{Token: "8453:usdc", Units: units}
}

// coinSum is worth a dollar a coin.
func coinSum(units int64) *billingv1.TokenSum {
	return &billingv1.TokenSum{Token: "254:native", Units: units, Quote: &billingv1.TokenQuote{
		RateNanoUsd: dollars(1), Source: "feed", At: timestamppb.New(time.Unix(1_770_000_000, 123_456_789))}}
}

func place(chain, digit string, n uint32) *billingv1.TransferPlace {
	return &billingv1.TransferPlace{ChainId: chain, TransactionHash: txHash(digit), Place: n}
}

func (b *books) payout(id string) *billingv1.Payout {
	return &billingv1.Payout{PayoutId: id, ProviderId: b.provider, AmountNanoUsd: dollars(10)}
}

func (b *books) part(id string, usd int64) *billingv1.CollateralPart {
	return &billingv1.CollateralPart{Id: id, ProviderId: b.provider, AmountNanoUsd: dollars(usd)}
}

// story has every fact, in an order in which the books allow them.
func (b *books) story() []*billingv1.PostRequest {
	owed := []*billingv1.Compensation{{AccountId: b.account, AmountNanoUsd: 5}}
	// What the slash brought less the gas, at twice the rate.
	dear := coinSum(6_000)
	dear.Quote.RateNanoUsd = dollars(2)
	return []*billingv1.PostRequest{
		{Fact: &billingv1.PostRequest_EarningsBatch{EarningsBatch: &billingv1.EarningsBatch{
			Day: day, ProviderId: b.provider, ChainId: "8453", AmountNanoUsd: dollars(60)}}},
		{Fact: &billingv1.PostRequest_PayoutRequested{PayoutRequested: b.payout("one")}},
		{Fact: &billingv1.PostRequest_PayoutConfirmed{PayoutConfirmed: &billingv1.PayoutConfirmed{
			Payout: b.payout("one"), FeeNanoUsd: dollars(1), Sum: usdcSum(9_000_000)}}},
		{Fact: &billingv1.PostRequest_GasSpent{GasSpent: &billingv1.GasSpent{
			ChainId: "254", TransactionHash: txHash("a"), Sum: coinSum(1_000)}}},
		{Fact: &billingv1.PostRequest_PayoutRequested{PayoutRequested: b.payout("two")}},
		{Fact: &billingv1.PostRequest_PayoutFailed{PayoutFailed: b.payout("two")}},
		{Fact: &billingv1.PostRequest_EarningsConverted{EarningsConverted: &billingv1.EarningsConverted{
			ConversionId: "c", ProviderId: b.provider, AccountId: b.account, AmountNanoUsd: 5}}},
		{Fact: &billingv1.PostRequest_CollateralSlashed{CollateralSlashed: b.part("p1", 2)}},
		{Fact: &billingv1.PostRequest_SlashWon{SlashWon: b.part("p1", 2)}},
		{Fact: &billingv1.PostRequest_CollateralSlashed{CollateralSlashed: b.part("p2", 2)}},
		{Fact: &billingv1.PostRequest_SlashForfeited{SlashForfeited: &billingv1.SlashForfeited{
			Part: b.part("p2", 2), Affected: owed}}},
		{Fact: &billingv1.PostRequest_ChainSlashed{ChainSlashed: &billingv1.ChainSlashed{
			PenaltyId: "p2", Depositor: "0x" + strings.Repeat("b", 40), Sum: coinSum(7_000), Affected: owed}}},
		{Fact: &billingv1.PostRequest_CollateralRefundAsked{CollateralRefundAsked: b.part(b.refund.String(), 4)}},
		{Fact: &billingv1.PostRequest_CollateralRefunded{CollateralRefunded: &billingv1.CollateralRefunded{
			Part: b.part(b.refund.String(), 4), FromBank: true}}},
		{Fact: &billingv1.PostRequest_CollateralRefundAsked{CollateralRefundAsked: b.part(b.undone.String(), 1)}},
		{Fact: &billingv1.PostRequest_CollateralRefundUndone{CollateralRefundUndone: b.part(b.undone.String(), 1)}},
		{Fact: &billingv1.PostRequest_CustodyMoved{CustodyMoved: &billingv1.CustodyMoved{
			Transfer: place("254", "c", 1), ProviderId: b.provider, Token: "254:native", Units: 9}}},
		{Fact: &billingv1.PostRequest_CustodyMoved{CustodyMoved: &billingv1.CustodyMoved{
			Transfer: place("254", "c", 2), ProviderId: b.provider, Token: "254:native", Units: 9, Out: true}}},
		{Fact: &billingv1.PostRequest_Deposited{Deposited: &billingv1.TokenTransfer{
			Transfer: place("8453", "d", 0), AccountId: b.account, Sum: usdcSum(5)}}},
		{Fact: &billingv1.PostRequest_DepositGone{DepositGone: &billingv1.TokenTransfer{
			Transfer: place("8453", "d", 0), AccountId: b.account, Sum: usdcSum(5)}}},
		{Fact: &billingv1.PostRequest_DepositStray{DepositStray: &billingv1.TokenTransfer{
			Transfer: place("8453", "e", 3), Sum: usdcSum(5)}}},
		{Fact: &billingv1.PostRequest_DepositMatched{DepositMatched: &billingv1.DepositMatched{
			Transfer: place("8453", "e", 3), AccountId: b.account, AmountNanoUsd: 5_000}}},
		{Fact: &billingv1.PostRequest_DepositReturned{DepositReturned: &billingv1.TokenTransfer{
			Transfer: place("8453", "e", 4), Sum: usdcSum(5)}}},
		{Fact: &billingv1.PostRequest_TreasuryMoved{TreasuryMoved: &billingv1.TreasuryMoved{
			ChainId: "8453", TransactionHash: txHash("f"), Sum: usdcSum(5), Out: true}}},
		{Fact: &billingv1.PostRequest_Revalued{Revalued: &billingv1.Revalued{
			Day: time.Now().UTC().Format(time.DateOnly), Sum: dear, BookedNanoUsd: 6_000}}},
		{Fact: &billingv1.PostRequest_PlanSold{PlanSold: &billingv1.PlanSold{
			InvoiceId: "in_1", Month: "2026-03", PriceNanoUsd: dollars(6)}}},
	}
}

// kindOf is the name of a request's fact.
func kindOf(req *billingv1.PostRequest) string {
	m := req.ProtoReflect()
	return string(m.WhichOneof(m.Descriptor().Oneofs().Get(0)).Name())
}

func TestEveryFactIsPostedOnce(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	told := map[string]bool{"plan_earned_late": true} // nothing was earned late
	for _, req := range b.story() {
		told[kindOf(req)] = true
		first, err := b.facts.Post(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v", kindOf(req), err)
		}
		again, err := b.facts.Post(t.Context(), req)
		if err != nil {
			t.Fatalf("%s again: %v", kindOf(req), err)
		}
		if got, want := again.GetEntryId(), first.GetEntryId(); got != want {
			t.Errorf("%s again: got the entry %s, want the first, %s", kindOf(req), got, want)
		}
	}
	fields := (&billingv1.PostRequest{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !told[name] {
			t.Errorf("the story has no %s", name)
		}
	}
}

// The owner of the card got $20 back, and $14 were left of it. The provider owes the rest,
// and the next batch pays that first.
func TestABatchPaysWhatTheProviderOwesFirst(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.tell(t)
	balance := func(kind string) int64 {
		t.Helper()
		var n int64
		if err := b.db.QueryRow(t.Context(), `SELECT provider_balance($1, $2, '')`, kind, b.provider).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	payable := balance("l:provider:payable")
	if got, want := balance("a:provider_receivable"), -dollars(6); got != want {
		t.Fatalf("owed: got %d, want %d", got, want)
	}
	batch := &billingv1.PostRequest{Fact: &billingv1.PostRequest_EarningsBatch{EarningsBatch: &billingv1.EarningsBatch{
		Day: "2026-03-05", ProviderId: b.provider, ChainId: "8453", AmountNanoUsd: dollars(10)}}}
	first, err := b.facts.Post(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if got := balance("a:provider_receivable"); got != 0 {
		t.Errorf("owed afterwards: got %d, want 0", got)
	}
	if got, want := balance("l:provider:payable")-payable, dollars(4); got != want {
		t.Errorf("payable of $10: got %d, want %d", got, want)
	}
	// The books divide it otherwise now, and the fact is the same.
	again, err := b.facts.Post(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.GetEntryId(), first.GetEntryId(); got != want {
		t.Errorf("again: got the entry %s, want the first, %s", got, want)
	}
}

func TestFactsThatTheBooksDoNotAllowAreRefused(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.tell(t)
	account, err := ids.NewAccount(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		fact *billingv1.PostRequest
		want fault.Reason
	}{
		"a batch of more than was earned": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_EarningsBatch{
			EarningsBatch: &billingv1.EarningsBatch{Day: "2026-03-05", ProviderId: b.provider, ChainId: "8453",
				AmountNanoUsd: dollars(41)}}}, fault.InsufficientEarnings},
		"the same batch of another amount": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_EarningsBatch{
			EarningsBatch: &billingv1.EarningsBatch{Day: day, ProviderId: b.provider, ChainId: "8453",
				AmountNanoUsd: dollars(1)}}}, fault.IdempotencyKeyReused},
		"a payout's other end": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutFailed{
			PayoutFailed: b.payout("one")}}, fault.TransitionNotAllowed},
		"the end of no payout": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutFailed{
			PayoutFailed: b.payout("three")}}, fault.TransitionNotAllowed},
		"a slash's other end": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_SlashWon{
			SlashWon: b.part("p2", 2)}}, fault.InsufficientEarnings},
		"more collateral than there is": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_CollateralSlashed{
			CollateralSlashed: b.part("p3", 1)}}, fault.InsufficientEarnings},
		"the other end of a refund": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_CollateralRefundUndone{
			CollateralRefundUndone: b.part(b.refund.String(), 4)}}, fault.TransitionNotAllowed},
		"nobody's deposit": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_Deposited{
			Deposited: &billingv1.TokenTransfer{Transfer: place("8453", "1", 0), AccountId: account.String(),
				Sum: usdcSum(5)}}}, fault.AccountNotFound},
		"what nobody earned late": {&billingv1.PostRequest{Fact: &billingv1.PostRequest_PlanEarnedLate{
			PlanEarnedLate: &billingv1.PlanEarnedLate{Month: "2026-03", Day: day, ProviderId: b.provider,
				AmountNanoUsd: 5}}}, fault.InsufficientEarnings},
	} {
		if _, err := b.facts.Post(t.Context(), tc.fact); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
}

func (b *books) wantInvalid(t *testing.T, name string, req *billingv1.PostRequest) {
	t.Helper()
	_, err := b.facts.Post(t.Context(), req)
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("%s: got the error %v, want a fault", name, err)
	}
	if f.Kind != fault.Invalid {
		t.Errorf("%s: got the error %v, want an invalid one", name, err)
	}
}

func TestWhatCannotBeAFactIsRefused(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	sound := &billingv1.PostRequest{Fact: &billingv1.PostRequest_Deposited{Deposited: &billingv1.TokenTransfer{
		Transfer: place("8453", "d", 0), AccountId: b.account, Sum: usdcSum(5)}}}
	for name, spoil := range map[string]func(*billingv1.TokenTransfer){
		"no account":          func(d *billingv1.TokenTransfer) { d.AccountId = "" },
		"no transfer":         func(d *billingv1.TokenTransfer) { d.Transfer = nil },
		"another chain":       func(d *billingv1.TokenTransfer) { d.Transfer.ChainId = "1" },
		"no chain":            func(d *billingv1.TokenTransfer) { d.Transfer.ChainId = "08453" },
		"a hash in capitals":  func(d *billingv1.TokenTransfer) { d.Transfer.TransactionHash = txHash("D") },
		"a short hash":        func(d *billingv1.TokenTransfer) { d.Transfer.TransactionHash = "0xd" },
		"no sum":              func(d *billingv1.TokenTransfer) { d.Sum = nil },
		"no units":            func(d *billingv1.TokenTransfer) { d.Sum.Units = 0 },
		"USDC with a quote":   func(d *billingv1.TokenTransfer) { d.Sum.Quote = coinSum(1).GetQuote() },
		"a token of nobody":   func(d *billingv1.TokenTransfer) { d.Sum.Token = "8453:doge" },
		"a coin, no quote":    func(d *billingv1.TokenTransfer) { d.Sum.Token = "8453:eth" },
		"more than there are": func(d *billingv1.TokenTransfer) { d.Sum.Units = 1 << 62 },
	} {
		req, ok := proto.Clone(sound).(*billingv1.PostRequest)
		if !ok {
			t.Fatal("a clone is of the same type")
		}
		spoil(req.GetDeposited())
		b.wantInvalid(t, name, req)
	}
	b.wantInvalid(t, "no fact", &billingv1.PostRequest{})
}

func TestAMonthThatIsNotOverOrNotSealedIsNotClosed(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	for name, tc := range map[string]struct {
		month, through string
		want           fault.Reason
	}{
		"no month":                {"2026-3", "2026-04-02", fault.InvalidValue},
		"no day":                  {"2026-03", "2026-04-31", fault.InvalidValue},
		"a day of the month":      {"2026-03", "2026-03-31", fault.InvalidValue},
		"a day that is not there": {"2026-03", yesterday, fault.DayOpen},
	} {
		_, err := b.facts.ClosePlanMonth(t.Context(), &billingv1.ClosePlanMonthRequest{Month: tc.month, Through: tc.through})
		if !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
}

func TestAnOpenMonthHasNoShares(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	_, err := b.facts.GetPlanMonth(t.Context(), &billingv1.GetPlanMonthRequest{Month: "2026-03"})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("GetPlanMonth: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	_, err = b.facts.ListPlanShares(t.Context(), &billingv1.ListPlanSharesRequest{Month: "2026-03"})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("ListPlanShares: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	_, err = b.facts.ListPlanShares(t.Context(), &billingv1.ListPlanSharesRequest{Month: "2026-03", PageToken: "x"})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("another list's token: got the error %v, want the reason %s", err, fault.InvalidValue)
	}
	request, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.facts.ShareReleased(t.Context(), &billingv1.ShareReleasedRequest{RequestId: request.String()})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("ShareReleased: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
}

func TestBalancesAreThoseOfTheBooks(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.tell(t)
	got, err := b.accruals.GetProviderBalances(t.Context(), &billingv1.GetProviderBalancesRequest{ProviderId: b.provider})
	if err != nil {
		t.Fatal(err)
	}
	want := &billingv1.GetProviderBalancesResponse{
		AccruedNanoUsd: dollars(40), PayableNanoUsd: dollars(50) - 5, PaidNanoUsd: dollars(10), ConvertedNanoUsd: 5,
		OwedNanoUsd: dollars(6),
	}
	if !proto.Equal(got, want) {
		t.Errorf("balances: got %v, want %v", got, want)
	}
}

func TestThePoolOfAMonthIsWhatWasPaidIntoIt(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for _, invoice := range []string{"in_1", "in_2"} {
		if _, err := b.facts.Post(t.Context(), &billingv1.PostRequest{Fact: &billingv1.PostRequest_PlanSold{
			PlanSold: &billingv1.PlanSold{InvoiceId: invoice, Month: "2026-03", PriceNanoUsd: dollars(6)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for month, want := range map[string]int64{"2026-03": dollars(12), "2026-04": 0} {
		got, err := b.facts.GetPlanPool(t.Context(), &billingv1.GetPlanPoolRequest{Month: month})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetPoolNanoUsd() != want {
			t.Errorf("pool of %s: got %d, want %d", month, got.GetPoolNanoUsd(), want)
		}
	}
	if _, err := b.facts.GetPlanPool(t.Context(), &billingv1.GetPlanPoolRequest{Month: "March"}); !fault.Is(err,
		fault.InvalidValue) {
		t.Errorf("a month that is none: got the error %v, want the reason %s", err, fault.InvalidValue)
	}
}
