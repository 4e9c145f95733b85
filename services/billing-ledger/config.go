package billingledger

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/config"
	"svc.internal/services/billing-ledger/internal/idempotency"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/oidc"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

// Unlimited is the value of a limit that does not exist.
const Unlimited = limit.Unlimited

// Config is the service's configuration. The limits of requests apply to accounts without
// limits of their own.
type Config struct {
	// Pepper hashes consumer keys. Losing it invalidates every key.
	Pepper apikey.Pepper `yaml:"pepper" env:"SVC_PEPPER"`
	// PepperPrevious is accepted too while an installation changes its pepper: first it is the next
	// pepper, and after the two were swapped it is the one before. See deploy/runbooks/rotation.md.
	PepperPrevious apikey.Pepper `yaml:"pepper_previous" env:"SVC_PEPPER_PREVIOUS"`

	// Requests per key and minute by the model's category; Unlimited for none.
	LLMPerMinute        int32 `yaml:"llm_per_minute" env:"SVC_BILLING_LLM_PER_MINUTE"`
	MultimodalPerMinute int32 `yaml:"multimodal_per_minute" env:"SVC_BILLING_MULTIMODAL_PER_MINUTE"`
	EmbeddingPerMinute  int32 `yaml:"embedding_per_minute" env:"SVC_BILLING_EMBEDDING_PER_MINUTE"`
	ImagePerMinute      int32 `yaml:"image_per_minute" env:"SVC_BILLING_IMAGE_PER_MINUTE"`
	AudioPerMinute      int32 `yaml:"audio_per_minute" env:"SVC_BILLING_AUDIO_PER_MINUTE"`
	// ZeroPricedPerMinute is shared by all models that cost nothing and by all keys of an
	// account.
	ZeroPricedPerMinute int32 `yaml:"zero_priced_per_minute" env:"SVC_BILLING_ZERO_PRICED_PER_MINUTE"`
	// ConcurrentPerKey bounds the open holds of an account whose end no gateway has
	// reported; Unlimited for none.
	ConcurrentPerKey int32 `yaml:"concurrent_per_key" env:"SVC_BILLING_CONCURRENT_PER_KEY"`
	// MaxKeys bounds the active keys of an account.
	MaxKeys int `yaml:"max_keys" env:"SVC_BILLING_MAX_KEYS"`

	// HoldLease is how long a hold stays open without a renewal. Gateways renew every
	// quarter of it.
	HoldLease time.Duration `yaml:"hold_lease" env:"SVC_BILLING_HOLD_LEASE"`
	// OrphanAfter is how long a hold of which something was served waits for its hub's
	// usage, from the gateway's last report or renewal on. After that the gateway's count
	// settles it.
	OrphanAfter time.Duration `yaml:"orphan_after" env:"SVC_BILLING_ORPHAN_AFTER"`
	// MaxHold is the age beyond which no renewal carries a hold. It must be
	// longer than the longest request that gateways allow.
	MaxHold time.Duration `yaml:"max_hold" env:"SVC_BILLING_MAX_HOLD"`
	// ExpireInterval is the pause between two looks for holds that are over, and
	// ExpireBatch the largest number of holds in one transaction.
	ExpireInterval time.Duration `yaml:"expire_interval" env:"SVC_BILLING_EXPIRE_INTERVAL"`
	ExpireBatch    int           `yaml:"expire_batch" env:"SVC_BILLING_EXPIRE_BATCH"`
	// ExpireGrace is how long usage must have been able to arrive, and the store must
	// have answered, before any hold expires. So after an outage, what was served
	// meanwhile is settled first, and gateways renew what still runs. Half a lease
	// suffices for the latter.
	ExpireGrace time.Duration `yaml:"expire_grace" env:"SVC_BILLING_EXPIRE_GRACE"`

	// AdmitBatch bounds the requests of one transaction. AdmitQueue bounds the requests
	// that wait; more are refused. AdmitWriters is the number of batches that may be under
	// way, and AdmitTimeout bounds the decision of each.
	AdmitBatch   int           `yaml:"admit_batch" env:"SVC_BILLING_ADMIT_BATCH"`
	AdmitQueue   int           `yaml:"admit_queue" env:"SVC_BILLING_ADMIT_QUEUE"`
	AdmitWriters int           `yaml:"admit_writers" env:"SVC_BILLING_ADMIT_WRITERS"`
	AdmitTimeout time.Duration `yaml:"admit_timeout" env:"SVC_BILLING_ADMIT_TIMEOUT"`

	// Slices has this replica admit the requests of busy accounts from memory, on credit that it has set
	// aside for them, and write their holds down at the next turn, which begins within 200 ms. Without it
	// each request waits for a commit of the database.
	Slices bool `yaml:"slices" env:"SVC_BILLING_SLICES"`

	// SettleBatch bounds the usage events of one transaction, at most
	// bus.MaxBatch.
	SettleBatch int `yaml:"settle_batch" env:"SVC_BILLING_SETTLE_BATCH"`
	// PartitionDays is how many days ahead partitions of settled usage are made, at most
	// 31. PartitionInterval is the pause between two looks.
	PartitionDays     int           `yaml:"partition_days" env:"SVC_BILLING_PARTITION_DAYS"`
	PartitionInterval time.Duration `yaml:"partition_interval" env:"SVC_BILLING_PARTITION_INTERVAL"`

	// KeptBytes bounds, in bytes over all accounts, the answers to requests with an
	// Idempotency-Key that are kept for 24 hours. Each account may have 64 MiB of it, and
	// accounts that never paid may have half of it together. An answer beyond it is not
	// kept.
	KeptBytes int64 `yaml:"kept_bytes" env:"SVC_BILLING_KEPT_BYTES"`

	// VerificationDailyUSD bounds, in whole US dollars, what the house accounts that pay
	// for hidden probes are given together within any 24 hours; 0 gives them nothing.
	VerificationDailyUSD int64 `yaml:"verification_daily_usd" env:"SVC_BILLING_VERIFICATION_DAILY_USD"`

	// PlaygroundDailyUSD bounds, in whole US dollars, what requests of visitors without a key
	// may cost on a day (UTC); 0 switches the playground off.
	PlaygroundDailyUSD int64 `yaml:"playground_daily_usd" env:"SVC_BILLING_PLAYGROUND_DAILY_USD"`

	// WalletChains are the ids, separated by commas, of the chains that the text for a wallet may
	// name. The first is used when the caller names none. The chains themselves are not asked.
	WalletChains string `yaml:"wallet_chains" env:"SVC_BILLING_WALLET_CHAINS"`

	// OpenID has the OpenID providers at which users may sign in: at most 8, one a line. A line has
	// five fields with spaces between: the provider's name in our routes, the issuer's https
	// address, our client id there, our client secret there, and the address of our callback. For
	// example: google https://accounts.google.com ID SECRET
	// https://api.example.com/api/v1/user/oidc/google/callback
	OpenID config.Secret `yaml:"openid" env:"SVC_BILLING_OPENID"`
	// OpenIDDevelopmentCA is a file of PEM certificates, and empty in production. If it is set, every
	// OpenID provider must be on loopback, and only certificates that these authorities have signed
	// are trusted.
	OpenIDDevelopmentCA string `yaml:"openid_development_ca" env:"SVC_BILLING_OPENID_DEVELOPMENT_CA"`

	// Card says how cards are charged.
	Card CardConfig `yaml:"card"`
	// Mail says how letters reach users.
	Mail MailConfig `yaml:"mail"`
	// Webhooks says how accounts are told what happens to them.
	Webhooks WebhookConfig `yaml:"webhooks"`

	// Passbook says what documents have of their seller, and how soon consumers see their money.
	Passbook PassbookConfig `yaml:"passbook"`

	// RetentionDays is for how many whole days after its own a closed request is kept
	// with its hold and everything that gateways and providers said of it, at least 8.
	// Settled lines are kept for ever. Plans are verified for windows that began within
	// it, so 35 days cover a month.
	RetentionDays int `yaml:"retention_days" env:"SVC_BILLING_RETENTION_DAYS"`

	// SealInterval is the pause between two looks for days to seal, and SealAfter how
	// long a day must have been over. What is recorded after a day was closed belongs to
	// the next day, so SealAfter decides only when a day is sealed.
	SealInterval time.Duration `yaml:"seal_interval" env:"SVC_BILLING_SEAL_INTERVAL"`
	SealAfter    time.Duration `yaml:"seal_after" env:"SVC_BILLING_SEAL_AFTER"`
	// ReconcileInterval is the pause between two comparisons of a part of the ledger with
	// itself.
	ReconcileInterval time.Duration `yaml:"reconcile_interval" env:"SVC_BILLING_RECONCILE_INTERVAL"`
}

// DefaultConfig returns the agreed numbers and a zero pepper.
func DefaultConfig() Config {
	return Config{
		LLMPerMinute: 200, MultimodalPerMinute: 200, EmbeddingPerMinute: 500, ZeroPricedPerMinute: 10,
		ImagePerMinute: 60, AudioPerMinute: 60,
		ConcurrentPerKey: 100, MaxKeys: 100,
		HoldLease: time.Minute, OrphanAfter: 10 * time.Minute, MaxHold: time.Hour,
		ExpireInterval: 5 * time.Second, ExpireBatch: 500, ExpireGrace: time.Minute,
		AdmitBatch: 256, AdmitQueue: 4096, AdmitWriters: 1, AdmitTimeout: 5 * time.Second, Slices: true,
		SettleBatch: bus.MaxBatch, PartitionDays: 7, PartitionInterval: time.Hour,
		KeptBytes: 16 << 30, VerificationDailyUSD: 100, PlaygroundDailyUSD: 10,
		WalletChains: "1,8453,254", Card: defaultCardConfig(),
		Mail: defaultMailConfig(), RetentionDays: 35, Passbook: defaultPassbookConfig(),
		SealInterval: time.Minute, SealAfter: 15 * time.Minute, ReconcileInterval: time.Minute,
	}
}

func (c Config) terms() store.Terms {
	return store.Terms{Lease: c.HoldLease, Orphan: c.OrphanAfter, MaxHold: c.MaxHold}
}

func (c Config) limits() limit.Defaults {
	return limit.Defaults{
		LLMPerMinute: c.LLMPerMinute, MultimodalPerMinute: c.MultimodalPerMinute,
		EmbeddingPerMinute: c.EmbeddingPerMinute, ZeroPricedPerMinute: c.ZeroPricedPerMinute,
		ImagePerMinute: c.ImagePerMinute, AudioPerMinute: c.AudioPerMinute,
		Concurrent: c.ConcurrentPerKey,
	}
}

// Validate returns every fault at once.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, text string) {
		if !ok {
			faults = append(faults, errors.New("billing-ledger: "+text))
		}
	}
	check(c.PepperPrevious.IsZero() || c.PepperPrevious != c.Pepper, "Pepper and PepperPrevious must differ")
	check(c.limits().Valid(), "limits must be above zero, or Unlimited")
	check(c.MaxKeys > 0, "MaxKeys must be above zero")
	check(c.HoldLease >= time.Second, "HoldLease must be at least a second")
	check(c.OrphanAfter > 0, "OrphanAfter must be above zero")
	check(c.MaxHold > 0 && c.MaxHold >= c.HoldLease, "MaxHold must be at least HoldLease")
	check(c.ExpireInterval > 0 && c.ExpireBatch > 0, "ExpireInterval and ExpireBatch must be above zero")
	check(c.ExpireGrace >= 0, "ExpireGrace must not be negative")
	check(c.AdmitBatch > 0 && c.AdmitQueue > 0 && c.AdmitWriters > 0,
		"AdmitBatch, AdmitQueue and AdmitWriters must be above zero")
	check(c.AdmitTimeout > 0, "AdmitTimeout must be above zero")
	check(c.SettleBatch > 0 && c.SettleBatch <= bus.MaxBatch, "SettleBatch must be 1 to bus.MaxBatch")
	check(c.PartitionDays > 0 && c.PartitionDays <= 31 && c.PartitionInterval > 0,
		"PartitionDays must be 1 to 31 and PartitionInterval above zero")
	check(c.KeptBytes >= idempotency.KeptOfAccount, "KeptBytes must be at least the 64 MiB of one account")
	check(c.PlaygroundDailyUSD >= 0 && c.PlaygroundDailyUSD <= 1_000_000,
		"PlaygroundDailyUSD must be 0 to 1000000")
	check(c.VerificationDailyUSD >= 0 && c.VerificationDailyUSD <= 1_000_000,
		"VerificationDailyUSD must be 0 to 1000000")
	check(c.RetentionDays >= store.RetentionLeast && c.RetentionDays <= 36500, "RetentionDays must be 8 to 36500")
	check(c.SealInterval > 0 && c.SealAfter >= 0 && c.ReconcileInterval > 0,
		"SealInterval and ReconcileInterval must be above zero, SealAfter not below")
	_, errChains := c.walletChains()
	_, errIssuers := c.issuers()
	_, errCA := c.openIDTransport()
	return errors.Join(append(faults, errChains, errIssuers, errCA, c.Card.Validate(), c.Mail.Validate(),
		c.Passbook.Validate())...)
}

// issuers are those of OpenID.
func (c Config) issuers() ([]oidc.Issuer, error) {
	all, err := oidc.ParseIssuers(c.OpenID.Reveal())
	if err != nil {
		return nil, fmt.Errorf("billing-ledger: OpenID: %w", err)
	}
	for _, i := range all {
		if c.OpenIDDevelopmentCA != "" && !i.OnLoopback() {
			return nil, fmt.Errorf("billing-ledger: OpenIDDevelopmentCA is for providers on loopback, and %s is not", i.Name)
		}
	}
	return all, nil
}

// openIDTransport returns the transport for OpenID providers; nil is the default one.
func (c Config) openIDTransport() (http.RoundTripper, error) {
	if c.OpenIDDevelopmentCA == "" {
		return nil, nil
	}
	authorities, err := os.ReadFile(c.OpenIDDevelopmentCA)
	if err != nil {
		return nil, fmt.Errorf("billing-ledger: OpenIDDevelopmentCA: %w", err)
	}
	transport, err := oidc.Development(authorities)
	if err != nil {
		return nil, fmt.Errorf("billing-ledger: OpenIDDevelopmentCA: %w", err)
	}
	return transport, nil
}

// maxWalletChains bounds the chains that wallets may name.
const maxWalletChains = 32

// walletChains are those of WalletChains.
func (c Config) walletChains() (user.Chains, error) {
	parts := strings.Split(c.WalletChains, ",")
	if len(parts) > maxWalletChains {
		return nil, fmt.Errorf("billing-ledger: WalletChains must be at most %d chains", maxWalletChains)
	}
	chains := make(user.Chains, len(parts))
	for i, part := range parts {
		id, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || id < 1 {
			return nil, fmt.Errorf("billing-ledger: WalletChains: %.32q is no id of a chain", part)
		}
		chains[i] = id
	}
	return chains, nil
}
