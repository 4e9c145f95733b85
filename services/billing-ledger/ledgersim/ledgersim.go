// Package ledgersim makes billing-ledger for a simulator: the real admission, settlement,
// reports, leases and reviews, behind the real RPC handlers and the real consumer of
// usage, on tables in memory (see package memstore) and a bus that the simulator
// provides. Its owner of slices is a simple one, which admits from memory whenever it may, so
// that requests have tickets.
//
// A Database outlives the processes that work on it. Nothing here takes real time or runs
// by itself, except one goroutine of each Ledger that commits admissions while Admit
// waits for it. Stop ends that goroutine.
package ledgersim

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/events"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/memstore"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/price"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Names for the simulator.
type (
	// Bus is a connection to NATS.
	Bus = events.Bus
	// Line is a settled request.
	Line = usage.Line
	// EvidenceSource names whose count a line rests on.
	EvidenceSource = usage.EvidenceSource
	// Hold is an admitted request.
	Hold = memstore.Hold
	// Wallet is the credit of an account.
	Wallet = memstore.Wallet
	// Reject is a quarantined event.
	Reject = usage.Reject
)

// The states of holds, and the sources and evidence sources of lines.
const (
	Open     = hold.Open
	Settled  = hold.Settled
	Released = hold.Released
	Expired  = hold.Expired

	Orphan  = usage.Orphan
	Hub     = usage.Hub
	Gateway = usage.Gateway
	Receipt = usage.WorkReceipt
)

// The times of billing-ledger in production.
const (
	Lease        = time.Minute
	OrphanFor    = 10 * time.Minute
	MaxHold      = time.Hour
	LookInterval = 5 * time.Second
	grace        = time.Minute
	lookBatch    = 500
)

// ticketKey is the ledger's secret.
var ticketKey = [32]byte{1}

// Model is a model of the catalog.
type Model struct {
	ID      string
	Version ids.PriceVersionID
	Rates   money.Rates
}

// Prices is the price book.
type Prices struct{ prices *price.Book }

// NewPrices makes the price book of models.
func NewPrices(models ...Model) Prices {
	b := Prices{&price.Book{}}
	all := map[string]price.Model{}
	for _, m := range models {
		all[m.ID] = price.Model{ID: m.ID, Class: limit.LLM, Version: m.Version, Rates: m.Rates}
	}
	b.prices.Replace(all)
	return b
}

// Ledger is one process of billing-ledger.
type Ledger struct {
	db        *Database
	admission *rpc.Admission
	consumer  *events.Consumer
	expirer   *hold.Expirer
	owner     *owner
	stop      context.CancelFunc
	stopped   chan struct{}
}

// Deps are the parts a process works with.
type Deps struct {
	Database *Database
	Bus      Bus
	Prices   Prices
	// Connected reports whether the process reaches NATS.
	Connected func() bool
	// Clock is the process's own. Even is its clock that never jumps.
	Clock, Even clock.Clock
	// Owner names the process as an owner of slices.
	Owner [16]byte
}

// Start starts a process on db. connected reports whether the process reaches NATS, and
// process is its clock.
func Start(deps Deps) *Ledger {
	db, conn, log := deps.Database, deps.Bus, slog.New(slog.DiscardHandler)
	own, tickets := newOwner(deps.Owner, db, deps.Even), usage.NewTickets(ticketKey)
	admitter := hold.NewAdmitter(hold.Config{Batch: 256, Writers: 1, Queue: 4096, Timeout: time.Hour},
		hold.Deps{Prices: deps.Prices.prices, Store: db, Slices: own, Observe: func(hold.Outcome, int) {}})
	l := &Ledger{
		db: db,
		admission: &rpc.Admission{
			Admitter: admitter, Renewer: &hold.Renewer{Store: db, Pins: own},
			Concluder: &hold.Concluder{Store: db, Pins: own, Clock: deps.Clock, Observe: func(int) {}},
			Tickets:   tickets, Pins: own,
		},
		consumer: &events.Consumer{Bus: conn, Log: log,
			Settler: &usage.Settler{Store: db, Tickets: tickets, Pins: own, Clock: deps.Clock},
			Observe: func(usage.Result) {}, ObserveHeld: func(usage.Rule) {}},
		owner:   own,
		stopped: make(chan struct{}),
	}
	reviewer := &orphan.Reviewer{Store: db, Publish: events.Reviews{Bus: conn}.Publish, Log: log}
	l.expirer = &hold.Expirer{
		Interval: LookInterval, Batch: lookBatch, Grace: grace, Clock: deps.Clock, Log: log,
		Ready: func(ctx context.Context) (time.Time, error) {
			if !deps.Connected() {
				return time.Time{}, unavailable()
			}
			asOf, err := db.time()
			if err == nil {
				err = l.consumer.UpToDate(ctx)
			}
			return asOf, err
		},
		Steps: []hold.Step{
			{Name: "expire", Do: db.ExpireHolds}, {Name: "reclaim", Do: db.ReclaimSlices},
			{Name: "review", Do: hold.Whenever(reviewer.Open)}, {Name: "publish again", Do: hold.Whenever(reviewer.Settled)},
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		defer close(l.stopped)
		admitter.Run(ctx)
	}()
	for !admitter.Running() {
		runtime.Gosched()
	}
	return l
}

// Stop ends the process and loses what it had in memory.
func (l *Ledger) Stop() {
	l.stop()
	<-l.stopped
}

// Admit answers gateways, as Renew and Conclude do.
func (l *Ledger) Admit(ctx context.Context, r *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	return l.admission.Admit(ctx, r)
}

// Renew extends leases.
func (l *Ledger) Renew(ctx context.Context, r *billingv1.RenewRequest) (*billingv1.RenewResponse, error) {
	return l.admission.Renew(ctx, r)
}

// Conclude stores reports.
func (l *Ledger) Conclude(ctx context.Context, r *billingv1.ConcludeRequest) (*billingv1.ConcludeResponse, error) {
	return l.admission.Conclude(ctx, r)
}

// Handle settles a batch of usage. After an error the batch must be delivered again.
func (l *Ledger) Handle(ctx context.Context, batch []bus.Msg) error {
	return l.consumer.Handle(ctx, batch)
}

// Look closes or reviews the holds that are over, as the service does every LookInterval.
func (l *Ledger) Look(ctx context.Context) { l.expirer.Tick(ctx) }

// Turn writes what was admitted from memory, as the service does every TurnInterval. HasSlices reports whether
// that is needed.
func (l *Ledger) Turn(ctx context.Context) { l.owner.turns(ctx) }

// HasSlices reports whether the process has slices or wants some.
func (l *Ledger) HasSlices() bool { return len(l.owner.accounts) > 0 }

func unavailable() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "the store cannot be reached").After(time.Second)
}
