package settlement

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/quote"
	"svc.internal/services/settlement/internal/screen"
)

// Config of the service.
type Config struct {
	// ReconcileInterval is the pause between two comparisons with the ledger.
	ReconcileInterval time.Duration `yaml:"reconcile_interval" env:"SVC_SETTLEMENT_RECONCILE_INTERVAL"`
	// FillAfter is how long ago billing-ledger must have settled a request before its
	// line is filled in from there: 2 minutes, because usage comes by itself within
	// seconds.
	FillAfter time.Duration `yaml:"fill_after" env:"SVC_SETTLEMENT_FILL_AFTER"`
	// DevelopmentCollateral confirms to the hub the collateral of every provider, although
	// nobody holds any. A process that listens anywhere but on loopback refuses it, and a
	// hub that does not consent (hub.development_collateral) takes none. Without it, what
	// was confirmed so is withdrawn at the start.
	DevelopmentCollateral bool `yaml:"development_collateral" env:"SVC_SETTLEMENT_DEVELOPMENT_COLLATERAL"`
	// Chains are the chains on which providers are paid, collateral stands and consumers deposit: a list, in the
	// environment as JSON. Without any there are no payouts, deposits and collateral on chains.
	Chains chain.Configs `yaml:"chains" env:"SVC_SETTLEMENT_CHAINS"`
	// Development allows what must not be where dollars move: a single RPC on chains 1 and 8453, and fixed quotes. A
	// process that listens anywhere but on loopback refuses it.
	Development bool `yaml:"development" env:"SVC_SETTLEMENT_DEVELOPMENT"`
	// DepositXpub is the extended public key of m/44'/60'/0', of which 0/index are the deposit addresses. Without it
	// the chain-signer is asked. Whoever has it can tell which addresses belong together, so it is a secret.
	DepositXpub config.Secret `yaml:"deposit_xpub" env:"SVC_SETTLEMENT_DEPOSIT_XPUB"`
	// MaxDepositAddresses bounds the deposit addresses that are given: each is in the memory of whoever watches a chain.
	MaxDepositAddresses int64 `yaml:"max_deposit_addresses" env:"SVC_SETTLEMENT_MAX_DEPOSIT_ADDRESSES"`
	// Quotes are the sources of coins' prices; in the environment as JSON.
	Quotes quote.Config `yaml:"quotes" env:"SVC_SETTLEMENT_QUOTES"`
	// Screen says with which addresses the platform does not deal.
	Screen screen.Config `yaml:"screen"`
	// Batch is how days are batched.
	Batch BatchConfig `yaml:"batch"`
	// Payouts is how payouts are approved.
	Payouts PayoutConfig `yaml:"payouts"`
	// Collateral is on which terms it is taken by card.
	Collateral CollateralConfig `yaml:"collateral"`
	// Reserves is how what is held is compared with what is owed.
	Reserves ReserveConfig `yaml:"reserves"`
}

// Deps are the parts the service works with.
type Deps struct {
	Log      *slog.Logger
	Meters   metric.MeterProvider
	Clock    clock.Clock
	Bus      *bus.Conn
	DB       *pgxpool.Pool
	Accruals billingv1.AccrualServiceClient
	Posting  billingv1.PostingServiceClient
	Balances billingv1.BalanceServiceClient
	// Payees says where providers are paid. Without it no share has a beneficiary.
	Payees hubv1.PayeeServiceClient
	// Signer signs statements. Without it they stay unsigned.
	Signer signerv1.SignerServiceClient
	// Cards takes collateral by card; nil where nobody does.
	Cards billingv1.CardServiceClient
	// Collateral is the hub.
	Collateral hubv1.ProviderCollateralServiceClient
}

// BatchConfig is how days are batched.
type BatchConfig struct {
	// Start is the first day that is batched, YYYY-MM-DD, and not after the first earnings; empty for the day of the
	// oldest earning line.
	Start string `yaml:"start" env:"SVC_SETTLEMENT_BATCH_START"`
	// Interval is the pause between two looks for a sealed day, and for what is to be posted and signed.
	Interval time.Duration `yaml:"interval" env:"SVC_SETTLEMENT_BATCH_INTERVAL"`
	// Patience is how long a day waits for earning lines that are missing or differ, before their providers are blocked.
	Patience time.Duration `yaml:"patience" env:"SVC_SETTLEMENT_BATCH_PATIENCE"`
}

// validate returns every fault.
func (c BatchConfig) validate() error {
	var faults []error
	if _, err := c.start(); err != nil {
		faults = append(faults, errors.New("settlement: batch.start must be empty or a day, YYYY-MM-DD"))
	}
	if c.Interval <= 0 {
		faults = append(faults, errors.New("settlement: batch.interval must be above zero"))
	}
	if c.Patience < 0 {
		faults = append(faults, errors.New("settlement: batch.patience must not be below zero"))
	}
	return errors.Join(faults...)
}

func (c BatchConfig) start() (time.Time, error) {
	if c.Start == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, c.Start)
}

// PayoutConfig is how payouts are approved and sent.
type PayoutConfig struct {
	// AloneUSD is the most of one payout, in dollars, that is approved without an operator: at most 1,000.
	AloneUSD int64 `yaml:"alone_usd" env:"SVC_SETTLEMENT_PAYOUTS_ALONE_USD"`
	// AloneDailyUSD is the most of all payouts of a day (UTC), in dollars, that are approved without an operator.
	AloneDailyUSD int64 `yaml:"alone_daily_usd" env:"SVC_SETTLEMENT_PAYOUTS_ALONE_DAILY_USD"`
	// RecheckInterval is the pause between two looks at what ended, at nonces and at costs.
	RecheckInterval time.Duration `yaml:"recheck_interval" env:"SVC_SETTLEMENT_PAYOUTS_RECHECK_INTERVAL"`
}

func defaultPayoutConfig() PayoutConfig {
	return PayoutConfig{AloneUSD: 1_000, AloneDailyUSD: 5_000, RecheckInterval: time.Minute}
}

// maxRecheck bounds RecheckInterval, because a final transaction that is gone is found by that look.
const maxRecheck = time.Hour

func (c PayoutConfig) validate() error {
	var faults []error
	if c.AloneUSD < 0 || money.NanoUSD(c.AloneUSD) > payout.Alone/money.USD {
		faults = append(faults, fmt.Errorf("settlement: payouts: alone_usd must be 0 to %d", payout.Alone/money.USD))
	}
	if c.AloneDailyUSD < 0 || c.AloneDailyUSD > maxAloneDaily {
		faults = append(faults, fmt.Errorf("settlement: payouts: alone_daily_usd must be 0 to %d", maxAloneDaily))
	}
	if c.RecheckInterval < time.Second || c.RecheckInterval > maxRecheck {
		faults = append(faults, fmt.Errorf("settlement: payouts: recheck_interval must be %v to %v", time.Second, maxRecheck))
	}
	return errors.Join(faults...)
}

// maxAloneDaily bounds AloneDailyUSD.
const maxAloneDaily = 1_000_000

// CollateralConfig is on which terms collateral is taken by card. Those of a chain stand with the chain.
type CollateralConfig struct {
	// Card takes collateral by card.
	Card bool `yaml:"card" env:"SVC_SETTLEMENT_CARD_COLLATERAL"`
	// CardMinimumCents is what must be free of it for a confirmation.
	CardMinimumCents int64 `yaml:"card_minimum_cents" env:"SVC_SETTLEMENT_CARD_MINIMUM_CENTS"`
}

// maxCardMinimum is the most that one payment by card can be, in cents.
const maxCardMinimum = 1_000_000

func (c CollateralConfig) validate() error {
	if c.CardMinimumCents < 500 || c.CardMinimumCents > maxCardMinimum {
		return fmt.Errorf("settlement: collateral: card_minimum_cents must be 500 to %d", maxCardMinimum)
	}
	return nil
}

// ReserveConfig is how reserves are read.
type ReserveConfig struct {
	// Interval is the pause between two readings of what is held and what is owed. A shortfall is read again a minute
	// later, and every minute until it has ended.
	Interval time.Duration `yaml:"interval" env:"SVC_SETTLEMENT_RESERVES_INTERVAL"`
	// OwnFundsUSD is the money of the platform's owner, in dollars, that stands for what the books have given away and
	// lost: credit as goodwill, probes, orphan work. Where more is given, no payout is sent. Development has any amount.
	OwnFundsUSD int64 `yaml:"own_funds_usd" env:"SVC_SETTLEMENT_RESERVES_OWN_FUNDS_USD"`
}

// maxOwnFunds bounds OwnFundsUSD, and is what development has.
const maxOwnFunds = 1_000_000_000

func (c ReserveConfig) validate() error {
	var faults []error
	if c.Interval < time.Second || c.Interval > 24*time.Hour {
		faults = append(faults, errors.New("settlement: reserves: interval must be a second to 24 hours"))
	}
	if c.OwnFundsUSD < 0 || c.OwnFundsUSD > maxOwnFunds {
		faults = append(faults, fmt.Errorf("settlement: reserves: own_funds_usd must be 0 to %d", maxOwnFunds))
	}
	return errors.Join(faults...)
}
