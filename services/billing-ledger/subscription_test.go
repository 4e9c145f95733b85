package billingledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// as is a call for the user of an account.
func as(t *testing.T, account string, more ...string) context.Context {
	t.Helper()
	md := serve.UserMetadata(serve.Caller{User: newUUID(t), Account: account})
	for i := 0; i < len(more); i += 2 {
		md.Append(more[i], more[i+1])
	}
	return metadata.NewOutgoingContext(t.Context(), md)
}

// standing waits until the subscription of an account is as wanted.
func (f *fleet) standing(
	t *testing.T, account string, wanted func(*billingv1.PlanSubscription) bool,
) *billingv1.PlanSubscription {
	t.Helper()
	var s *billingv1.PlanSubscription
	until(t, func() bool {
		resp, err := f.subscriptions.GetSubscription(as(t, account), &billingv1.GetSubscriptionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		s = resp.GetSubscription()
		return wanted(s)
	})
	return s
}

func inState(state string) func(*billingv1.PlanSubscription) bool {
	return func(s *billingv1.PlanSubscription) bool { return s.GetState() == state }
}

// subscribe opens a page, and returns its session.
func (f *fleet) subscribe(t *testing.T, account, key string) (session string) {
	t.Helper()
	resp, err := f.subscriptions.Subscribe(as(t, account, "idempotency-key", key),
		&billingv1.SubscribeRequest{Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ = strings.Cut(resp.GetUrl(), "/sandbox/checkout/")
	return session
}

func TestAPlanIsSoldRenewedDeclinedAndRefundedInTheSandbox(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	account := f.consumer(t, "1").account
	session := f.subscribe(t, account, "k1")
	if again := f.subscribe(t, account, "k2"); again != session {
		t.Errorf("page: got %q under another key, want %q", again, session)
	}
	f.press(t, session, pay)
	first := f.standing(t, account, inState("active"))
	if first.GetPriceUsdStr() != "6.00" {
		t.Errorf("price: got %q, want 6.00", first.GetPriceUsdStr())
	}
	if n := len(first.GetLimits()); n != 5 {
		t.Errorf("limits: got %d, want 5", n)
	}
	_, err := f.subscriptions.Subscribe(as(t, account, "idempotency-key", "k3"),
		&billingv1.SubscribeRequest{Plan: "pro"})
	if !fault.Is(err, fault.AlreadyExists) {
		t.Errorf("a second subscription: got the error %v, want %s", err, fault.AlreadyExists)
	}
	f.press(t, session, billingv1.SandboxAction_SANDBOX_ACTION_MONTH)
	f.standing(t, account, func(s *billingv1.PlanSubscription) bool {
		return s.GetState() == "active" && s.GetPeriodEnd().AsTime().After(first.GetPeriodEnd().AsTime())
	})
	cancelled, err := f.subscriptions.CancelSubscription(as(t, account), &billingv1.CancelSubscriptionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !cancelled.GetSubscription().GetCancelAtPeriodEnd() {
		t.Error("cancelled: got false, want true")
	}
	f.subscribe(t, account, "k4")
	f.standing(t, account, func(s *billingv1.PlanSubscription) bool { return !s.GetCancelAtPeriodEnd() })
	invoice := f.scan(t, `SELECT id FROM plan_invoice ORDER BY period_end DESC LIMIT 1`)
	f.wantInvoices(t, account, "pro 6.00 of which 0.00, , ends true", "pro 6.00 of which 0.00, , ends false")
	for range 2 {
		if _, err := f.planInvoices.RefundPlanInvoice(t.Context(), &billingv1.RefundPlanInvoiceRequest{InvoiceId: invoice,
			Memo: "asked for it"}); err != nil {
			t.Fatal(err)
		}
	}
	f.standing(t, account, inState("ended"))
	until(t, func() bool { return f.scan(t, `SELECT count(*)::text FROM plan_return`) == "1" })
	until(t, func() bool {
		return f.scan(t, `SELECT count(*)::text FROM sandbox_subscription WHERE ended_at IS NOT NULL`) == "1"
	})
	f.wantInvoices(t, account, "pro 6.00 of which 6.00, operator, ends false", "pro 6.00 of which 0.00, , ends false")
	f.sound(t)
}

func TestAnybodySeesWhatIsSold(t *testing.T) {
	t.Parallel()
	f := assemble(t)
	got, err := f.plans.ListPlans(t.Context(), &billingv1.ListPlansRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all, both := []string{"free", "standard", "premium"}, []string{"free", "standard"}
	want := &billingv1.ListPlansResponse{Plans: []*billingv1.Plan{{Id: "pro", Name: "Pro", PriceUsdStr: "6.00",
		Covers: []*billingv1.PlanCoverage{{PricingUnit: "per_1m_tokens", Tiers: both},
			{PricingUnit: "per_image", Tiers: both}},
		Limits: []*billingv1.PlanLimit{{Kind: "concurrent", Period: "none", Cap: 8, Tiers: all},
			{Kind: "images", Period: "day", Cap: 75, Tiers: all}, {Kind: "requests", Period: "day", Cap: 1500, Tiers: all},
			{Kind: "requests", Period: "minute", Cap: 50, Tiers: all},
			{Kind: "tokens", Period: "week", Cap: 40_000_000, Tiers: []string{"standard"}}}}}}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A page of a plan leads where the consumer says, as a page of a top-up does, and nowhere else.
func TestThePageOfAPlanLeadsWhereTheConsumerSays(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	account := f.consumer(t, "1").account
	subscribe := func(key, address string) (string, error) {
		resp, err := f.subscriptions.Subscribe(as(t, account, "idempotency-key", key),
			&billingv1.SubscribeRequest{Plan: "pro", ReturnUrl: address})
		return resp.GetUrl(), err
	}
	for _, address := range []string{"javascript:alert(1)", "/app/plan", "ftp://example.org/", "https://user@example.org/",
		"https://", "https://example.org/" + strings.Repeat("x", 1024), "https://exa mple.org/"} {
		if _, err := subscribe("k0", address); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%.40s: got the error %v, want %s", address, err, fault.InvalidValue)
		}
	}
	const plan = "https://console.example.org/app/plan"
	url, err := subscribe("k1", plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.scan(t, `SELECT string_agg(return_url, ' ') FROM checkout`); got != plan {
		t.Errorf("return_url: got %q, want %q", got, plan)
	}
	again, err := subscribe("k1", plan)
	if err != nil {
		t.Fatal(err)
	}
	if again != url {
		t.Errorf("a repeat: got %q, want %q", again, url)
	}
	if _, err := subscribe("k2", "javascript:alert(1)"); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("beside a page that can be paid: got the error %v, want %s", err, fault.InvalidValue)
	}
}

// wantInvoices reads the invoices of an account as an operator does.
func (f *fleet) wantInvoices(t *testing.T, account string, want ...string) {
	t.Helper()
	list, err := f.planInvoices.ListPlanInvoices(t.Context(), &billingv1.ListPlanInvoicesRequest{AccountId: account})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range list.GetList() {
		got = append(got, fmt.Sprintf("%s %s of which %s, %s, ends %t", i.GetPlan(), i.GetAmountUsdStr(),
			i.GetReturnedUsdStr(), i.GetRefundCause(), i.GetEndsSubscription()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("invoices: got %q, want %q", got, want)
	}
}

func TestAnOperatorSeesTheInvoicesOfOneAccountAlone(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	account, other := f.consumer(t, "1").account, f.consumer(t, "2").account
	f.press(t, f.subscribe(t, account, "k1"), pay)
	f.standing(t, account, inState("active"))
	f.wantInvoices(t, account, "pro 6.00 of which 0.00, , ends true")
	f.wantInvoices(t, other)
	for _, nobody := range []string{"", "x", newUUID(t)} {
		_, err := f.planInvoices.ListPlanInvoices(t.Context(), &billingv1.ListPlanInvoicesRequest{AccountId: nobody})
		if !fault.Is(err, fault.AccountNotFound) {
			t.Errorf("account %q: got the error %v, want %s", nobody, err, fault.AccountNotFound)
		}
	}
}

// scan reads a text as the owner.
func (f *fleet) scan(t *testing.T, sql string) (value string) {
	t.Helper()
	if err := f.db.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAPlanThatIsNotPaidIsPastDueUntilItsCardIsTaken(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	account := f.consumer(t, "1").account
	session := f.subscribe(t, account, "k1")
	f.press(t, session, pay)
	f.standing(t, account, inState("active"))
	f.press(t, session, billingv1.SandboxAction_SANDBOX_ACTION_DECLINES)
	f.press(t, session, billingv1.SandboxAction_SANDBOX_ACTION_MONTH)
	// The books' own clock has the period end, too.
	f.arrange(t, `UPDATE subscription SET period_start = period_start - interval '2 months',
		period_end = now() - interval '1 hour', due_at = now();
		UPDATE plan_invoice SET period_start = period_start - interval '2 months', period_end = (SELECT period_end
			FROM subscription), paid_at = paid_at - interval '1 month'`)
	f.standing(t, account, inState("past_due"))
	f.press(t, session, billingv1.SandboxAction_SANDBOX_ACTION_ACCEPTS)
	s := f.standing(t, account, inState("active"))
	if !s.GetPeriodEnd().AsTime().After(time.Now().Add(27 * 24 * time.Hour)) {
		t.Errorf("period: got its end at %v, want it a month ahead", s.GetPeriodEnd().AsTime())
	}
}

func TestNobodyElseSeesASubscription(t *testing.T) {
	t.Parallel()
	f, _ := startWithCards(t)
	account := f.consumer(t, "1").account
	f.subscribe(t, account, "k1")
	other := f.consumer(t, "1").account
	if s := f.standing(t, other, inState("none")); s.GetUrl() != "" {
		t.Errorf("url: got %q, want none", s.GetUrl())
	}
	if _, err := f.subscriptions.CancelSubscription(as(t, other), &billingv1.CancelSubscriptionRequest{}); !fault.Is(err,
		fault.SubscriptionNotFound) {
		t.Errorf("got the error %v, want %s", err, fault.SubscriptionNotFound)
	}
	if _, err := f.subscriptions.GetSubscription(t.Context(), &billingv1.GetSubscriptionRequest{}); !fault.Is(err,
		fault.InvalidSession) {
		t.Errorf("without a user: got the error %v, want %s", err, fault.InvalidSession)
	}
	if _, err := f.subscriptions.Subscribe(as(t, ids.AccountID{1}.String(), "idempotency-key", "k"),
		&billingv1.SubscribeRequest{Plan: "none"}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("no plan: got the error %v, want %s", err, fault.InvalidValue)
	}
}

// arrange acts as the owner with triggers off, to arrange what only time brings about.
func (f *fleet) arrange(t *testing.T, sql string) {
	t.Helper()
	tx, err := pgtest.Owner(t, f.db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for statement := range strings.SplitSeq(`SET LOCAL session_replication_role = replica;`+sql, ";") {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
