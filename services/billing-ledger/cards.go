package billingledger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

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
}

// newCardWork makes the work on cards. own is a secret that all replicas have.
func newCardWork(cfg CardConfig, st *store.Store, own []byte, m *metrics, deps Deps) (*cardWork, error) {
	keys, err := cfg.keys(own)
	if err != nil {
		return nil, err
	}
	cards, url := store.Cards{Store: st}, strings.TrimRight(cfg.SandboxURL, "/")
	processor := &sandbox.Sandbox{Store: store.Sandbox{Store: st}, URL: url, Tariff: cfg.tariff()}
	w := &cardWork{
		checkouts: &card.Checkouts{Store: cards, Processor: processor},
		refunds:   &card.Refunds{Store: cards, Processor: processor},
		sandbox:   processor,
		sender: sandbox.NewSender(sandbox.Sender{
			Store: processor.Store, Keys: keys, Clock: deps.Clock, URL: url + "/webhooks/card", Log: deps.Log,
			Client: &http.Client{Timeout: 10 * time.Second, CheckRedirect: refuseRedirects},
		}),
	}
	w.worker = card.NewWorker(card.Worker{
		Store: cards, Processor: processor, Checkouts: w.checkouts, Refunds: w.refunds, Clock: deps.Clock,
		Random: deps.Random, Log: deps.Log, Observe: m.cardAlarm,
	})
	w.receiver = &card.Receiver{Store: cards, Keys: keys, Clock: deps.Clock, Wake: w.worker.Wake}
	return w, nil
}

func refuseRedirects(*http.Request, []*http.Request) error {
	return errors.New("a webhook follows no redirect")
}

func (w *cardWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterCardServiceServer(r, &rpc.Cards{Checkouts: w.checkouts, Refunds: w.refunds})
	billingv1.RegisterCardWebhookServiceServer(r, &rpc.CardWebhooks{Receiver: w.receiver})
	billingv1.RegisterCardSandboxServiceServer(r, &rpc.CardSandbox{Sandbox: w.sandbox, Wake: w.sender.Wake})
}

// loops are what runs until ctx ends.
func (w *cardWork) loops() []func(context.Context) {
	return []func(context.Context){w.worker.Run, w.sender.Run}
}
