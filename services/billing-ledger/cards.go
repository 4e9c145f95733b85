package billingledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/sandbox"
	"svc.internal/services/billing-ledger/internal/card/stripe"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
)

// cardWork takes money by card.
type cardWork struct {
	checkouts *card.Checkouts
	refunds   *card.Refunds
	receiver  *card.Receiver
	worker    *card.Worker
	// sandbox and sender are nil where another card processor is set.
	sandbox   *sandbox.Sandbox
	sender    *sandbox.Sender
	returnURL string
}

// cardDeps are what the work on cards needs of the service. secret is one that all replicas
// have.
type cardDeps struct {
	store  *store.Store
	clock  clock.Clock
	random io.Reader
	log    *slog.Logger
	secret []byte
	// fingerprints is the key under which cards are told apart, and plans hears of subscriptions.
	fingerprints []byte
	plans        card.Plans
	observe      func(card.AlarmReason)
}

// newCardWork makes the work on cards.
func newCardWork(cfg CardConfig, deps cardDeps) (*cardWork, error) {
	keys, err := cfg.keys(deps.secret)
	if err != nil {
		return nil, err
	}
	cards := store.Cards{Store: deps.store}
	w := &cardWork{returnURL: cfg.ReturnURL}
	only, err := w.processors(cfg, deps, keys)
	if err != nil {
		return nil, err
	}
	newEntry := func() (ids.EntryID, error) { return ids.NewEntry(deps.clock.Now(), deps.random) }
	w.checkouts = &card.Checkouts{Store: cards, Processors: only, Tariff: cfg.tariff()}
	w.refunds = &card.Refunds{Store: cards, Processors: only, NewEntry: newEntry}
	w.worker = card.NewWorker(card.Worker{
		Store: cards, Processors: only, Checkouts: w.checkouts, Refunds: w.refunds, Plans: deps.plans,
		Fingerprints: deps.fingerprints, Clock: deps.clock,
		Random: deps.random, Log: deps.log, Observe: deps.observe,
		Still: deps.store.Due(store.DueCards),
	})
	w.receiver = &card.Receiver{Processor: only.Default.Name(), Store: cards, Keys: keys,
		Clock: deps.clock, Wake: w.worker.Wake}
	return w, nil
}

// processors returns the card processor that is set. Nobody pays in the sandbox where another one is
// set, because what is paid there is no money.
func (w *cardWork) processors(cfg CardConfig, deps cardDeps, keys card.Keys) (card.Processors, error) {
	if cfg.Processor == stripe.Name {
		p, err := stripe.New(cfg.StripeKey.Reveal(), cfg.StripeURL)
		if err != nil {
			return card.Processors{}, fmt.Errorf("card.stripe_key: %w", err)
		}
		return card.Processors{Default: card.Bounded{Processor: p}}, nil
	}
	url := strings.TrimRight(cfg.SandboxURL, "/")
	w.sandbox = &sandbox.Sandbox{Store: store.Sandbox{Store: deps.store}, URL: url, Tariff: cfg.tariff()}
	w.sender = sandbox.NewSender(sandbox.Sender{
		Store: w.sandbox.Store, Renew: w.sandbox.Renew, Keys: keys, Clock: deps.clock, URL: url + "/webhooks/card",
		Log: deps.log, Still: deps.store.Due(store.DueSandbox),
		Client: &http.Client{Timeout: 10 * time.Second, CheckRedirect: refuseRedirects},
	})
	return card.Processors{Default: card.Bounded{Processor: w.sandbox}}, nil
}

func refuseRedirects(*http.Request, []*http.Request) error {
	return errors.New("a webhook follows no redirect")
}

func (w *cardWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterCardServiceServer(r, &rpc.Cards{Checkouts: w.checkouts, Refunds: w.refunds})
	billingv1.RegisterCheckoutServiceServer(r, &rpc.ConsumerCheckouts{Checkouts: w.checkouts, Refunds: w.refunds,
		ReturnURL: w.returnURL})
	billingv1.RegisterCheckoutAdminServiceServer(r, &rpc.CheckoutAdmin{Checkouts: w.checkouts, Refunds: w.refunds})
	billingv1.RegisterCardWebhookServiceServer(r, &rpc.CardWebhooks{Receiver: w.receiver})
	pages := &rpc.CardSandbox{Sandbox: w.sandbox}
	if w.sender != nil {
		pages.Wake = w.sender.Wake
	}
	billingv1.RegisterCardSandboxServiceServer(r, pages)
}

// loops are what runs until ctx ends.
func (w *cardWork) loops() []func(context.Context) {
	if w.sender == nil {
		return []func(context.Context){w.worker.Run}
	}
	return []func(context.Context){w.worker.Run, w.sender.Run}
}
