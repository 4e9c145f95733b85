package billingledger

import (
	"errors"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Unlimited stands for no limit where a limit is expected.
const Unlimited = limit.Unlimited

// Config of the service. Requests per minute and concurrency apply to each key
// of an account that has no limits of its own.
type Config struct {
	// Pepper hashes consumer keys. Losing it makes every key invalid.
	Pepper apikey.Pepper

	// Requests per key and minute by the model's category; Unlimited for none.
	LLMPerMinute        int32
	MultimodalPerMinute int32
	EmbeddingPerMinute  int32
	// ZeroPricedPerMinute is shared by all models of a key that cost nothing.
	ZeroPricedPerMinute int32
	// ConcurrentPerKey bounds the open holds of a key; Unlimited for none.
	ConcurrentPerKey int32
	// MaxKeys bounds the active keys of an account.
	MaxKeys int

	// HoldExpiry is how long a hold stays open when nobody closes it. It must
	// be longer than the longest request and the delivery of its usage.
	HoldExpiry time.Duration
	// ExpireEvery is the pause between two looks for holds that are over, and
	// ExpireBatch the most holds of one transaction.
	ExpireEvery time.Duration
	ExpireBatch int
	// ExpireGrace is how long usage must have been able to arrive before any
	// hold expires: after an outage, what was served meanwhile is settled first.
	ExpireGrace time.Duration

	// AdmitBatch bounds the requests of one transaction, AdmitQueue those that
	// wait; more are refused. AdmitWriters is how many transactions may be
	// under way, AdmitTimeout the time of each.
	AdmitBatch   int
	AdmitQueue   int
	AdmitWriters int
	AdmitTimeout time.Duration

	// SettleBatch bounds the usage events of one transaction, at most
	// bus.MaxBatch.
	SettleBatch int
	// PartitionDays is how many days ahead partitions of settled usage are
	// made, at most 31; PartitionEvery is how often.
	PartitionDays  int
	PartitionEvery time.Duration
}

// DefaultConfig has the agreed numbers and a zero pepper.
func DefaultConfig() Config {
	return Config{
		LLMPerMinute: 200, MultimodalPerMinute: 200, EmbeddingPerMinute: 500, ZeroPricedPerMinute: 10,
		ConcurrentPerKey: 100, MaxKeys: 100,
		HoldExpiry: 15 * time.Minute, ExpireEvery: 5 * time.Second, ExpireBatch: 500, ExpireGrace: time.Minute,
		AdmitBatch: 256, AdmitQueue: 4096, AdmitWriters: 1, AdmitTimeout: 5 * time.Second,
		SettleBatch: bus.MaxBatch, PartitionDays: 7, PartitionEvery: time.Hour,
	}
}

func (c Config) limits() limit.Defaults {
	return limit.Defaults{
		LLMPerMinute: c.LLMPerMinute, MultimodalPerMinute: c.MultimodalPerMinute,
		EmbeddingPerMinute: c.EmbeddingPerMinute, ZeroPricedPerMinute: c.ZeroPricedPerMinute,
		Concurrent: c.ConcurrentPerKey,
	}
}

// validate names every fault at once.
func (c Config) validate() error {
	var faults []error
	check := func(ok bool, text string) {
		if !ok {
			faults = append(faults, errors.New("billing-ledger: "+text))
		}
	}
	check(c.limits().Valid(), "limits must be above zero, or Unlimited")
	check(c.MaxKeys > 0, "MaxKeys must be above zero")
	check(c.HoldExpiry >= time.Second, "HoldExpiry must be at least a second")
	check(c.ExpireEvery > 0 && c.ExpireBatch > 0, "ExpireEvery and ExpireBatch must be above zero")
	check(c.ExpireGrace >= 0, "ExpireGrace must not be negative")
	check(c.AdmitBatch > 0 && c.AdmitQueue > 0 && c.AdmitWriters > 0, "AdmitBatch, AdmitQueue and AdmitWriters must be above zero")
	check(c.AdmitTimeout > 0, "AdmitTimeout must be above zero")
	check(c.SettleBatch > 0 && c.SettleBatch <= bus.MaxBatch, "SettleBatch must be 1 to bus.MaxBatch")
	check(c.PartitionDays > 0 && c.PartitionDays <= 31 && c.PartitionEvery > 0, "PartitionDays must be 1 to 31 and PartitionEvery above zero")
	return errors.Join(faults...)
}
