package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// clockSkew is how far the clock of another service may be ahead, and revisionLead how
// far its revisions.
const (
	clockSkew    = time.Minute
	revisionLead = day
)

// BenchmarkReport is the verifier's word on whether a benchmark of a provider counts.
type BenchmarkReport struct {
	Passed bool
	// PassedAt is when it was passed; without meaning unless Passed is set.
	PassedAt time.Time
	// Revision grows with every report of a provider, from 1. It is at most the Unix time
	// of tomorrow in microseconds.
	Revision int64
}

// ReportBenchmark records the verifier's word, and the status follows by itself. Only a
// revision that is newer than every one before changes anything. So a benchmark that Lift
// or FailProbation used up counts again by a newer report alone. Nobody else says whether a
// benchmark counts. ReportBenchmark fails with provider_not_found, with invalid_value for a
// benchmark that was passed longer than BenchmarkValidity ago, and with time_in_future, which
// passes, for one that by this clock is still to be passed.
func (d *Directory) ReportBenchmark(
	ctx context.Context, id ids.ProviderID, said BenchmarkReport, reason string,
) (Account, error) {
	if err := d.checkRevision(said.Revision); err != nil {
		return Account{}, err
	}
	if said.Passed && said.PassedAt.IsZero() {
		return Account{}, fault.New(fault.Invalid, fault.InvalidValue, "passed_at is missing").On("passed_at")
	}
	// The store keeps microseconds.
	said.PassedAt = said.PassedAt.Truncate(time.Microsecond)
	return d.change(ctx, id, ByPlatform, reason, func(c *change) error { return c.reported(said) })
}

// SetCollateral records the word of settlement on collateral, and the status follows by
// itself. Only a revision that is newer than every one before changes anything. An
// operator's word holds until the next word of settlement. SetCollateral fails with
// provider_not_found and invalid_value.
func (d *Directory) SetCollateral(
	ctx context.Context, id ids.ProviderID, confirmed bool, revision int64, reason string,
) (Account, error) {
	if err := d.checkRevision(revision); err != nil {
		return Account{}, err
	}
	return d.change(ctx, id, ByPlatform, reason, func(c *change) error {
		f := &c.account.Facts
		if revision <= f.CollateralRevision {
			return nil
		}
		f.CollateralRevision = revision
		return c.collateral(confirmed)
	})
}

// checkRevision refuses revisions that nobody counts up to. One that is far too large
// would make every later word an older one.
func (d *Directory) checkRevision(revision int64) error {
	if limit := d.clock.Now().Add(revisionLead).UnixMicro(); revision < 1 || revision > limit {
		return fault.New(fault.Invalid, fault.InvalidValue, "revision must be 1 to %d", limit).On("revision")
	}
	return nil
}

// reported applies a report that is newer than every one before.
func (c *change) reported(said BenchmarkReport) error {
	f := &c.account.Facts
	if said.Revision <= f.BenchmarkRevision {
		return nil
	}
	switch ahead := said.PassedAt.Sub(c.now) - clockSkew; {
	case said.Passed && ahead > 0:
		return fault.New(fault.Precondition, fault.TimeInFuture, "passed_at is in the future").On("passed_at").After(ahead)
	case said.Passed && c.now.Sub(said.PassedAt) > BenchmarkValidity:
		return fault.New(fault.Invalid, fault.InvalidValue, "passed_at is more than %d days ago",
			BenchmarkValidity/day).On("passed_at")
	}
	f.BenchmarkRevision = said.Revision
	if !said.Passed {
		return c.benchmark(time.Time{})
	}
	return c.benchmark(said.PassedAt)
}
