package billingledger

import (
	"context"

	"google.golang.org/grpc"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/stats"
	"svc.internal/services/billing-ledger/internal/store"
)

// statsWork makes and shows the public figures of the service. They are folded as often as
// passbooks are, because both wait for the same transactions.
type statsWork struct {
	folder *passbook.Folder
	cache  *stats.Cache
}

func newStatsWork(cfg PassbookConfig, st *store.Store, deps Deps) *statsWork {
	sums := store.Stats{Store: st}
	return &statsWork{
		folder: &passbook.Folder{Store: sums, Name: "stats", Interval: cfg.FoldInterval, Lag: cfg.FoldLag, Log: deps.Log,
			Still: st.Still(passbook.IdleInterval)},
		cache: stats.NewCache(sums, deps.Clock, deps.Log),
	}
}

func (w *statsWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterStatsServiceServer(r, &rpc.Stats{Cache: w.cache})
}

func (w *statsWork) loops() []func(context.Context) {
	return []func(context.Context){w.folder.Run, w.cache.Run}
}
