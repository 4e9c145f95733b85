package billingledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/document"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
)

// PassbookConfig says what receipts and invoices have of their seller, and how soon consumers
// see what was recorded.
type PassbookConfig struct {
	// SellerName, SellerAddress (one line each, separated by line feeds or "|"), SellerEmail
	// and SellerTaxID are printed on every document that is made from then on. Without a name
	// documents say that they are of a test installation.
	SellerName    string `yaml:"seller_name" env:"SVC_BILLING_SELLER_NAME"`
	SellerAddress string `yaml:"seller_address" env:"SVC_BILLING_SELLER_ADDRESS"`
	SellerEmail   string `yaml:"seller_email" env:"SVC_BILLING_SELLER_EMAIL"`
	SellerTaxID   string `yaml:"seller_tax_id" env:"SVC_BILLING_SELLER_TAX_ID"`
	// TaxName and TaxBasisPoints (hundredths of a percent) are of a tax that prices include;
	// without a name invoices say nothing of tax.
	TaxName        string `yaml:"tax_name" env:"SVC_BILLING_TAX_NAME"`
	TaxBasisPoints int64  `yaml:"tax_basis_points" env:"SVC_BILLING_TAX_BASIS_POINTS"`
	// FoldInterval is the pause between two looks for what was recorded. What people see is
	// some two or three of it old, and FoldLag. While nothing is recorded it is up to passbook.IdleInterval
	// older.
	FoldInterval time.Duration `yaml:"fold_interval" env:"SVC_BILLING_FOLD_INTERVAL"`
	// FoldLag is how much longer a transaction may take, from when it begins until others see
	// that it runs. It must be far longer than a process waits for a processor.
	FoldLag time.Duration `yaml:"fold_lag" env:"SVC_BILLING_FOLD_LAG"`
}

func defaultPassbookConfig() PassbookConfig {
	return PassbookConfig{FoldInterval: 3 * time.Second, FoldLag: time.Second}
}

// Bounds of what documents have of the seller, in characters.
const (
	maxSeller        = 200
	maxSellerAddress = 1_000
)

// nameless is the seller where none is configured.
const nameless = "Test installation: no seller is configured"

func (c PassbookConfig) maker() document.Maker {
	m := document.Maker{
		Seller: document.Seller{Name: c.SellerName, Email: c.SellerEmail, TaxID: c.SellerTaxID},
		Tax:    document.Rate{Name: c.TaxName, BasisPoints: c.TaxBasisPoints},
	}
	if m.Seller.Name == "" {
		m.Seller.Name = nameless
	}
	for line := range strings.FieldsFuncSeq(c.SellerAddress, func(r rune) bool { return r == '\n' || r == '|' }) {
		m.Seller.Address = append(m.Seller.Address, strings.TrimSpace(line))
	}
	return m
}

// Validate returns every fault at once.
func (c PassbookConfig) Validate() error {
	var faults []error
	check := func(ok bool, text string) {
		if !ok {
			faults = append(faults, errors.New("billing-ledger: "+text))
		}
	}
	for name, text := range map[string]string{"SellerName": c.SellerName, "SellerEmail": c.SellerEmail,
		"SellerTaxID": c.SellerTaxID, "TaxName": c.TaxName} {
		check(utf8.ValidString(text) && utf8.RuneCountInString(text) <= maxSeller, name+" must have at most 200 characters")
	}
	check(utf8.ValidString(c.SellerAddress) && utf8.RuneCountInString(c.SellerAddress) <= maxSellerAddress,
		"SellerAddress must have at most 1000 characters")
	check(c.TaxBasisPoints >= 0 && c.TaxBasisPoints <= 10_000, "TaxBasisPoints must be 0 to 10000")
	check((c.TaxName == "") == (c.TaxBasisPoints == 0), "TaxName and TaxBasisPoints are set together")
	check(c.FoldInterval > 0 && c.FoldLag >= 0, "FoldInterval must be above zero, FoldLag not below")
	return errors.Join(faults...)
}

// passbookWork makes and shows passbooks, sums of usage and documents.
type passbookWork struct {
	folder  *passbook.Folder
	exports *passbook.Exports
	store   store.Passbook
	cursors *passbook.Cursors
	clock   clock.Clock
	log     *slog.Logger
	meter   metric.Meter
	lag     metric.Float64ObservableGauge
}

// passbookDeps are what the work on passbooks needs of the service. secret is one that all
// replicas have.
type passbookDeps struct {
	store  *store.Store
	clock  clock.Clock
	log    *slog.Logger
	meter  metric.Meter
	secret []byte
}

func newPassbookWork(cfg PassbookConfig, deps passbookDeps) (*passbookWork, error) {
	lag, err := deps.meter.Float64ObservableGauge("svc.billing.passbook_lag", metric.WithUnit("s"),
		metric.WithDescription("How old what consumers see of their ledger and usage is, in the database that all "+
			"replicas share."))
	if err != nil {
		return nil, fmt.Errorf("make the instruments: %w", err)
	}
	st := store.Passbook{Store: deps.store, Maker: cfg.maker()}
	return &passbookWork{
		store: st, exports: passbook.NewExports(), cursors: passbook.NewCursors(deps.secret), clock: deps.clock,
		folder: &passbook.Folder{Store: st, Name: "passbook", Interval: cfg.FoldInterval, Lag: cfg.FoldLag, Log: deps.log,
			Still: deps.store.Still(passbook.IdleInterval)},
		log: deps.log, meter: deps.meter, lag: lag,
	}, nil
}

// watch observes how old what people see is, until the registration ends.
func (w *passbookWork) watch() (metric.Registration, error) {
	watch, err := w.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, figuresTimeout)
		defer cancel()
		age, err := w.store.FoldAge(ctx)
		if err != nil {
			w.log.DebugContext(ctx, "the passbook's age cannot be read", "error", err)
			return nil
		}
		o.ObserveFloat64(w.lag, age.Seconds())
		return nil
	}, w.lag)
	if err != nil {
		return nil, fmt.Errorf("watch the passbook: %w", err)
	}
	return watch, nil
}

func (w *passbookWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterPassbookServiceServer(r, &rpc.Passbooks{Store: w.store, Documents: w.store, Cursors: w.cursors,
		Spending: &account.Spending{Store: w.store}, Clock: w.clock})
	billingv1.RegisterPassbookExportServiceServer(r, &rpc.PassbookExports{Store: w.store, Documents: w.store,
		Exports: w.exports, Clock: w.clock})
}

// loops are what runs until ctx ends.
func (w *passbookWork) loops() []func(context.Context) {
	return []func(context.Context){w.folder.Run, w.exports.Run}
}
