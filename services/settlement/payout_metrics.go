package settlement

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// payoutMetrics are those of payouts, and of all transactions that are sent.
type payoutMetrics struct {
	open, waiting, stuck, conversions, calls, fees, refused, halted, wallet metric.Int64Gauge
}

func newPayoutMetrics(meters metric.MeterProvider) (*payoutMetrics, error) {
	meter := meters.Meter("svc.internal/services/settlement")
	m := &payoutMetrics{}
	for _, g := range []struct {
		into       *metric.Int64Gauge
		name, says string
	}{
		{&m.open, "payouts_open", "Payouts that are not final, by their state."},
		{&m.waiting, "payouts_waiting", "Payouts that are not final, by what keeps them."},
		{&m.stuck, "payouts_stuck",
			"Payouts that have not changed for an hour, although nobody is asked."},
		{&m.conversions, "conversions_stuck",
			"Conversions that the books have not taken for half an hour."},
		{&m.calls, "transactions_stuck",
			"Transactions, by chain, that cannot be moved on or wait longer than they should."},
		{&m.fees, "transactions_fee_bound",
			"Transactions, by chain, whose fees cannot be raised any more."},
		{&m.refused, "transactions_refused",
			"Transactions, by chain, that the chain-signer's settings do not allow."},
		{&m.halted, "sending_halted", "Whether nothing new is sent on a chain, by chain and cause."},
		{&m.wallet, "hot_wallet_units",
			"What the hot wallet of a chain holds of what it pays, in units of the books."},
	} {
		var err error
		if *g.into, err = meter.Int64Gauge("svc.settlement."+g.name, metric.WithDescription(g.says)); err != nil {
			return nil, fmt.Errorf("make metrics: %w", err)
		}
	}
	return m, nil
}

func (m *payoutMetrics) backlog(ctx context.Context, b payout.Backlog) {
	for _, state := range payout.States() {
		if !state.Final() {
			m.open.Record(ctx, int64(b.Open[state]), metric.WithAttributes(attribute.String("state", string(state))))
		}
	}
	for _, word := range payout.Waits() {
		m.waiting.Record(ctx, int64(b.Waiting[word]), metric.WithAttributes(attribute.String("for", word)))
	}
	m.stuck.Record(ctx, int64(b.Stuck))
	m.conversions.Record(ctx, int64(b.StuckConversions))
}

func onChain(id chain.ID) attribute.KeyValue { return attribute.String("chain", id.String()) }

func (m *payoutMetrics) stuckCalls(ctx context.Context, id chain.ID, s sending.Stuck) {
	m.calls.Record(ctx, int64(s.Calls), metric.WithAttributes(onChain(id)))
	m.fees.Record(ctx, int64(s.Fees), metric.WithAttributes(onChain(id)))
	m.refused.Record(ctx, int64(s.Refused), metric.WithAttributes(onChain(id)))
}

// halts measures every cause on every chain, so that a lifted halt is seen.
func (m *payoutMetrics) halts(ctx context.Context, open []sending.Halt) {
	now := map[sending.Halt]bool{}
	for _, h := range open {
		now[sending.Halt{Chain: h.Chain, Cause: h.Cause}] = true
	}
	for _, id := range []chain.ID{chain.Ethereum, chain.SVC, chain.Base} {
		for _, cause := range sending.Causes() {
			value := int64(0)
			if now[sending.Halt{Chain: id, Cause: cause}] {
				value = 1
			}
			m.halted.Record(ctx, value, metric.WithAttributes(onChain(id), attribute.String("cause", string(cause))))
		}
	}
}

func (m *payoutMetrics) holds(ctx context.Context, a chain.Asset, units int64) {
	m.wallet.Record(ctx, units, metric.WithAttributes(onChain(a.Chain), attribute.String("token", a.Name())))
}
