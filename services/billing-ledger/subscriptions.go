package billingledger

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// subscriptionWork sells plans by the month.
type subscriptionWork struct {
	offers *plan.Offers
	sales  *subscription.Sales
	worker *subscription.Worker
}

// subscriptionDeps are what the work on subscriptions needs of the service.
type subscriptionDeps struct {
	store    *store.Store
	cards    *cardWork
	counters subscription.Counters
	clock    clock.Clock
	random   io.Reader
	log      *slog.Logger
	observe  func(card.AlarmReason)
}

// newSubscriptionWork makes the work on subscriptions.
func newSubscriptionWork(deps subscriptionDeps) *subscriptionWork {
	keeper := store.Subscriptions{Store: deps.store}
	offers := plan.NewOffers(deps.store, deps.clock)
	w := &subscriptionWork{offers: offers, worker: subscription.NewWorker(subscription.Worker{
		Store: keeper, Processor: planProcessor{deps.cards.checkouts.Processors}, Clock: deps.clock, Random: deps.random,
		Log: deps.log, Still: deps.store.Due(store.DueSubscriptions),
		Alarm: func(ctx context.Context, invoice, detail string) error {
			fresh, err := store.Cards{Store: deps.store}.Raise(ctx, card.Alarm{Reason: card.AlarmRefundFailed,
				Object: invoice, Detail: detail})
			if fresh {
				deps.observe(card.AlarmRefundFailed)
				deps.log.ErrorContext(ctx, "an invoice of a plan needs a person", "invoice", invoice, "detail", detail)
			}
			return err
		},
	})}
	w.sales = &subscription.Sales{
		Store: keeper, Pages: planPages{deps.cards.checkouts, deps.cards.returnURL, deps.clock}, Counters: deps.counters,
		Clock: deps.clock, Random: deps.random, Wake: w.worker.Wake,
	}
	return w
}

func (w *subscriptionWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterPlanServiceServer(r, &rpc.Plans{Offers: w.offers})
	billingv1.RegisterSubscriptionServiceServer(r, &rpc.Subscriptions{Sales: w.sales})
	billingv1.RegisterSubscriptionAdminServiceServer(r, &rpc.SubscriptionAdmin{Sales: w.sales})
}

// planNews commits what the card worker hears of plans.
type planNews struct {
	store    store.Subscriptions
	newEntry func() (ids.EntryID, error)
}

var _ card.Plans = planNews{}

// Heard implements card.Plans.
func (p planNews) Heard(ctx context.Context, c card.Checkout, s card.Subscription, i card.Invoice) error {
	news := subscription.News{Checkout: c.ID.String(), Object: s.ID, Account: c.Account,
		Over: s.State == card.SubscriptionEnded}
	if i.State == card.InvoicePaid {
		news.Invoice = &subscription.Invoice{ID: i.ID, PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, Paid: i.Paid,
			Payment: subscription.Payment{ID: i.Charge.PaymentID, CostID: i.Charge.CostID, Total: i.Charge.Total.Nano(),
				Cost: i.Charge.Cost.Nano()}}
		if i.Charge.Fingerprint != "" {
			news.Invoice.Payment.Card = []byte(i.Charge.Fingerprint)
		}
	}
	err := p.store.Hear(ctx, news, p.newEntry)
	if errors.Is(err, subscription.ErrDiffers) {
		_, err = store.Cards{Store: p.store.Store}.Raise(ctx, card.Alarm{Reason: card.AlarmDiffers, Object: s.ID,
			Detail: "another subscription of the checkout, or another payment of the invoice, is known"})
	}
	return err
}

// Returned implements card.Plans.
func (p planNews) Returned(ctx context.Context, _ card.Checkout, r card.Return) error {
	err := p.store.GiveBack(ctx, planReturn(r), p.newEntry)
	switch {
	case errors.Is(err, subscription.ErrNoInvoice):
		return card.ErrNotPaid
	case errors.Is(err, subscription.ErrDiffers):
		return card.ErrReused
	case errors.Is(err, subscription.ErrExceeds):
		return card.ErrExceeds
	}
	return err
}

func planReturn(r card.Return) subscription.Return {
	return subscription.Return{ID: r.ID, Payment: r.PaymentID, Amount: r.Amount.Nano(),
		Disputed: r.Kind == card.DisputeObject, Over: r.State == card.ReturnWon || r.State == card.ReturnLost}
}

// planPages opens pages on which plans are bought.
type planPages struct {
	checkouts *card.Checkouts
	returnURL string
	clock     clock.Clock
}

// CheckReturn implements subscription.Pages.
func (p planPages) CheckReturn(address string) error {
	return p.checkouts.CheckReturnURL(cmp.Or(address, p.returnURL))
}

// Open implements subscription.Pages.
func (p planPages) Open(
	ctx context.Context, account ids.AccountID, o subscription.Order, price money.NanoUSD,
) (subscription.Page, error) {
	c, err := p.checkouts.OpenPlan(ctx, card.Checkout{ID: card.CheckoutOf(account, card.PlanPurpose, o.Key),
		Account: account, Plan: o.Plan, Amount: card.Cents(price / card.Cents(1).Nano()),
		ReturnURL: cmp.Or(o.ReturnURL, p.returnURL)})
	return p.page(c), err
}

// Page implements subscription.Pages.
func (p planPages) Page(ctx context.Context, checkout string) (subscription.Page, error) {
	var id card.CheckoutID
	if err := id.UnmarshalText([]byte(checkout)); err != nil {
		return subscription.Page{}, err
	}
	c, err := p.checkouts.Get(ctx, id)
	return p.page(c), err
}

// pageMargin is how long before its end a page is no longer shown.
const pageMargin = time.Minute

func (p planPages) page(c card.Checkout) subscription.Page {
	return subscription.Page{Checkout: c.ID.String(), URL: c.URL,
		Open: c.State == card.Created && c.URL != "" && p.clock.Now().Add(pageMargin).Before(c.Expires)}
}

// planProcessor is what the card processors do for subscriptions.
type planProcessor struct{ all card.Processors }

// SetCancel implements subscription.Processor.
func (p planProcessor) SetCancel(ctx context.Context, b subscription.Subscription) error {
	return p.on(b, func(one card.Processor) error { return one.EndAtPeriodEnd(ctx, b.Object, b.Cancel) })
}

// End implements subscription.Processor.
func (p planProcessor) End(ctx context.Context, b subscription.Subscription) error {
	return p.on(b, func(one card.Processor) error { return one.EndNow(ctx, b.Object) })
}

func (p planProcessor) on(b subscription.Subscription, do func(card.Processor) error) error {
	one, err := p.all.Of(b.Processor)
	if err != nil {
		return err
	}
	if err := do(one); !errors.Is(err, card.ErrNoObject) {
		return err
	}
	return subscription.ErrGone
}

// Refund implements subscription.Processor.
func (p planProcessor) Refund(
	ctx context.Context, r subscription.Refund,
) (back subscription.Return, made bool, err error) {
	one, err := p.all.Of(r.Processor)
	if err != nil {
		return back, false, err
	}
	answer, err := one.Refund(ctx, card.PlanKey+r.Invoice, r.Payment, card.Cents(r.Amount/card.Cents(1).Nano()))
	switch {
	case errors.Is(err, card.ErrRefused):
		return back, false, subscription.ErrRefused
	case err != nil:
		return back, false, err
	case answer.State == card.ReturnFailed:
		return back, false, subscription.ErrFailed
	}
	return planReturn(answer), answer.State == card.ReturnMade, nil
}
