package billingledger

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/events"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// WebhookConfig says how accounts are told what happens to them.
type WebhookConfig struct {
	// Development lets endpoints be http on loopback. It is for a machine of one's own: with it
	// every account may have this machine call any of its own ports.
	Development bool `yaml:"development" env:"SVC_BILLING_WEBHOOK_DEVELOPMENT"`
}

// webhookMetrics count what was sent.
type webhookMetrics struct{ tries, dropped metric.Int64Counter }

func newWebhookMetrics(meter metric.Meter) (*webhookMetrics, error) {
	var errs [2]error
	m := &webhookMetrics{}
	m.tries, errs[0] = meter.Int64Counter("svc.billing.webhook_tries",
		metric.WithDescription("Messages sent to webhooks of accounts, by what was wrong with them; empty for nothing."))
	m.dropped, errs[1] = meter.Int64Counter("svc.billing.webhook_events_dropped",
		metric.WithDescription("Messages that were dropped because an account had too many waiting."))
	return m, errors.Join(errs[:]...)
}

func (m *webhookMetrics) tried(r webhook.Result) {
	m.tries.Add(context.Background(), 1,
		metric.WithAttributeSet(attribute.NewSet(attribute.String("problem", string(r.Problem)))))
}

func (m *webhookMetrics) lost(n int) { m.dropped.Add(context.Background(), int64(n)) }

// webhookWork tells accounts what happens to them.
type webhookWork struct {
	endpoints *webhook.Endpoints
	deliverer *webhook.Deliverer
	consumer  *events.AccountEvents
}

// webhookDeps are what the work on webhooks needs of the service.
type webhookDeps struct {
	store  *store.Store
	bus    *bus.Conn
	sealer *webhook.Sealer
	clock  clock.Clock
	random io.Reader
	log    *slog.Logger
	meter  metric.Meter
}

func newWebhookWork(cfg WebhookConfig, deps webhookDeps) (*webhookWork, error) {
	m, err := newWebhookMetrics(deps.meter)
	if err != nil {
		return nil, err
	}
	kept := store.Webhooks{Store: deps.store}
	d := webhook.NewDeliverer()
	d.Queue, d.Log, d.Observe, d.Dropped = kept, deps.log, m.tried, m.lost
	d.Still = deps.store.Due(store.DueTurns)
	d.Send = webhook.NewSender(deps.sealer, deps.clock, nil, cfg.Development).Send
	return &webhookWork{
		deliverer: d,
		endpoints: &webhook.Endpoints{Store: kept, Sealer: deps.sealer, Clock: deps.clock, Random: deps.random,
			Development: cfg.Development, Wake: d.Wake},
		consumer: &events.AccountEvents{Bus: deps.bus, Keep: kept.KeepEvents, Mark: deps.store.Mark, Wake: d.Wake,
			Log: deps.log},
	}, nil
}

func (w *webhookWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterWebhookServiceServer(r, &rpc.Webhooks{Endpoints: w.endpoints})
}

// loops are what runs until ctx ends.
func (w *webhookWork) loops() []func(context.Context) {
	return []func(context.Context){w.deliverer.Run}
}
