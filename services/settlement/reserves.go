package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/store"
)

// reserveLook is the pause between two looks whether a reading of reserves is due.
const reserveLook = 5 * time.Second

// reserveWork compares what the platform holds with what it owes.
type reserveWork struct {
	store  store.Reserves
	keeper *reserve.Keeper
	log    *slog.Logger
	// short is 1 where a shortfall is confirmed, and age how old the last reading is, by subject. missing is which part of
	// what is owed lacks.
	short        metric.Int64Gauge
	age, missing metric.Float64Gauge
}

func newReserveWork(cfg Config, st *store.Store, reads *chainWork, deps Deps) (w *reserveWork, err error) {
	w = &reserveWork{store: store.Reserves{Store: st}, log: deps.Log}
	funds := money.NanoUSD(cfg.Reserves.OwnFundsUSD)
	if cfg.Development {
		funds = maxOwnFunds
	}
	w.keeper = &reserve.Keeper{Store: w.store, Ledger: peers.ReserveBooks{Accruals: deps.Accruals},
		Terms: reserve.Terms{OwnFunds: funds * money.USD}, Every: cfg.Reserves.Interval}
	for _, one := range cfg.Chains {
		looker := reserve.Looker{Rows: w.store, Node: reads.chains[one.ID], Config: one}
		w.keeper.Lookers = append(w.keeper.Lookers, looker)
	}
	meter := deps.Meters.Meter("svc.internal/services/settlement")
	if w.short, err = meter.Int64Gauge("svc.settlement.reserves_short", metric.WithDescription(
		"1 where less is held than owed, by two readings in a row, so that no payout is sent; by subject.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if w.missing, err = meter.Float64Gauge("svc.settlement.reserves_missing", metric.WithDescription(
		"What lacks, as a part of what is owed, by the last reading; by subject.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if w.age, err = meter.Float64Gauge("svc.settlement.reserves_age", metric.WithUnit("s"), metric.WithDescription(
		"How old the last reading of what is held and what is owed is, by subject.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return w, nil
}

// run looks at every interval until ctx ends. Without chains nothing is paid out, and nothing is held.
func (w *reserveWork) run(ctx context.Context) {
	if len(w.keeper.Lookers) == 0 {
		return
	}
	for range clock.Every(ctx, reserveLook) {
		w.pass(ctx)
	}
}

// pass makes the readings that are due, and measures what is known.
func (w *reserveWork) pass(ctx context.Context) {
	if err := w.keeper.Pass(ctx); err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "reserves could not be read", "error", err)
	}
	all, err := w.store.Findings(ctx)
	if err != nil {
		return // the next pass measures
	}
	for _, one := range all {
		w.measure(ctx, one)
	}
}

func (w *reserveWork) measure(ctx context.Context, s reserve.Finding) {
	var short int64
	if s.Confirmed {
		short = 1
	}
	of := metric.WithAttributes(attribute.String("subject", string(s.Subject)))
	w.short.Record(ctx, short, of)
	w.missing.Record(ctx, lacking(s.Reading), of)
	w.age.Record(ctx, s.Age.Seconds(), of)
}

// lacking is what lacks of what is owed, from 0 to 1.
func lacking(r reserve.Reading) float64 {
	lack, short := r.Owed.Sub(r.Held)
	if !short || lack.IsZero() {
		return 0
	}
	of := func(bytes [32]byte) *big.Float { return new(big.Float).SetInt(new(big.Int).SetBytes(bytes[:])) }
	part, _ := new(big.Float).Quo(of(lack.Bytes()), of(r.Owed.Bytes())).Float64()
	return part
}
