package billingledger

import (
	"context"
	"fmt"
	"io"

	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/peers"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/store"
)

// sliceWork admits from memory, and asks the replicas that do so for other accounts.
type sliceWork struct {
	store *store.Store
	// own is nil where this replica has no slices.
	own    *slice.Slices
	owners *peers.Owners
	failed metric.Int64Counter
}

func newSliceWork(on bool, deps Deps, st *store.Store) (*sliceWork, error) {
	dial := func(address string) (billingv1.SliceServiceClient, error) {
		conn, err := deps.Replica(address)
		if err != nil {
			return nil, err
		}
		return billingv1.NewSliceServiceClient(conn), nil
	}
	w := &sliceWork{store: st, owners: &peers.Owners{Clock: deps.Clock, Dial: dial,
		RecallByRow: st.RecallByRow}}
	if _, err := io.ReadFull(deps.Random, w.owners.Own[:]); err != nil {
		return nil, fmt.Errorf("make the id of an owner of slices: %w", err)
	}
	st.OnRecall(w.recall)
	if !on {
		return w, nil
	}
	w.own = slice.New(slice.DefaultConfig(slice.Owner{ID: w.owners.Own, Address: deps.Address}), slice.Deps{
		Keeper: st, Writer: st.WritePins, Clock: deps.Clock, Log: deps.Log, Observe: func(t slice.Turned) {
			if t.Err != nil {
				w.failed.Add(context.Background(), 1)
			}
		}})
	return w, w.watch(deps.Meters.Meter("svc.internal/services/billing-ledger"))
}

func (w *sliceWork) watch(meter metric.Meter) (err error) {
	if w.failed, err = meter.Int64Counter("svc.billing.slice_turns_failed", metric.WithDescription(
		"Transactions of slices' turns that failed.")); err != nil {
		return err
	}
	w.failed.Add(context.Background(), 0) // so that the first failure is seen as an increase
	open, err := meter.Int64ObservableGauge("svc.billing.slices_open",
		metric.WithDescription("Accounts that have a slice of this replica, or are about to."))
	if err != nil {
		return err
	}
	unwritten, err := meter.Int64ObservableGauge("svc.billing.holds_unwritten",
		metric.WithDescription("Requests that were admitted from memory and whose holds may not be written yet."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(open, int64(w.own.Open()))
		o.ObserveInt64(unwritten, int64(w.own.Waiting()))
		return nil
	}, open, unwritten)
	return err
}

// slices is what an admitter uses: nil without slices.
func (w *sliceWork) slices() hold.Slices {
	if w.own == nil {
		return nil
	}
	return w.own
}

// Write writes the holds of pins; see hold.PinWriter.
func (w *sliceWork) Write(ctx context.Context, pins []hold.Pin) error {
	if w.own == nil {
		return w.store.WritePins(ctx, pins)
	}
	return w.own.Write(ctx, pins)
}

// promptWriter writes holds for callers whose clients wait.
type promptWriter struct{ *sliceWork }

// Write writes the holds of pins at once; see hold.PinWriter.
func (w promptWriter) Write(ctx context.Context, pins []hold.Pin) error {
	if w.own == nil {
		return w.store.WritePins(ctx, pins)
	}
	return w.own.WriteNow(ctx, pins)
}

// recall has the owner of a slice close it.
func (w *sliceWork) recall(ctx context.Context, open hold.SliceOpen) error {
	if w.own != nil && w.own.Owns(open) {
		return w.own.Recall(ctx, open.Account)
	}
	return w.owners.Recall(ctx, open)
}

// Recall closes the slice of an account, if it is one of this replica's.
func (w *sliceWork) Recall(ctx context.Context, account ids.AccountID) error {
	if w.own == nil {
		return nil
	}
	return w.own.Recall(ctx, account)
}

// run takes turns until ctx ends. Then it writes and closes all slices.
func (w *sliceWork) run(ctx context.Context) {
	if w.own != nil {
		w.own.Run(ctx)
	}
}
