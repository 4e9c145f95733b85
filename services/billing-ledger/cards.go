package billingledger

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/sandbox"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
)

// cardWork takes money by card.
type cardWork struct {
	checkouts *card.Checkouts
	refunds   *card.Refunds
	receiver  *card.Receiver
	worker    *card.Worker
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
	cards, url := store.Cards{Store: deps.store}, strings.TrimRight(cfg.SandboxURL, "/")
	pages := &sandbox.Sandbox{Store: store.Sandbox{Store: deps.store}, URL: url, Tariff: cfg.tariff()}
	only := card.Processors{Default: card.Bounded{Processor: pages}}
	w := &cardWork{
		checkouts: &card.Checkouts{Store: cards, Processors: only, Tariff: cfg.tariff()},
		refunds:   &card.Refunds{Store: cards, Processors: only},
		sandbox:   pages,
		returnURL: cfg.ReturnURL,
		sender: sandbox.NewSender(sandbox.Sender{
			Store: pages.Store, Renew: pages.Renew, Keys: keys, Clock: deps.clock, URL: url + "/webhooks/card", Log: deps.log,
			Client: &http.Client{Timeout: 10 * time.Second, CheckRedirect: refuseRedirects},
		}),
	}
	w.worker = card.NewWorker(card.Worker{
		Store: cards, Processors: only, Checkouts: w.checkouts, Refunds: w.refunds, Plans: deps.plans,
		Fingerprints: deps.fingerprints, Clock: deps.clock,
		Random: deps.random, Log: deps.log, Observe: deps.observe,
	})
	w.receiver = &card.Receiver{Processor: sandbox.Name, Store: cards, Keys: keys, Clock: deps.clock, Wake: w.worker.Wake}
	return w, nil
}

func refuseRedirects(*http.Request, []*http.Request) error {
	return errors.New("a webhook follows no redirect")
}

func (w *cardWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterCardServiceServer(r, &rpc.Cards{Checkouts: w.checkouts, Refunds: w.refunds})
	billingv1.RegisterCheckoutServiceServer(r, &rpc.ConsumerCheckouts{Checkouts: w.checkouts, ReturnURL: w.returnURL})
	billingv1.RegisterCardWebhookServiceServer(r, &rpc.CardWebhooks{Receiver: w.receiver})
	billingv1.RegisterCardSandboxServiceServer(r, &rpc.CardSandbox{Sandbox: w.sandbox, Wake: w.sender.Wake})
}

// loops are what runs until ctx ends.
func (w *cardWork) loops() []func(context.Context) {
	return []func(context.Context){w.worker.Run, w.sender.Run}
}
