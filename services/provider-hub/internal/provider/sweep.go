package provider

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/uptime"
)

const (
	// sweepBatch is how many providers a sweep judges of each kind, and measureBatch how
	// many it measures. measureInterval is how old a measurement may be.
	sweepBatch      = 500
	measureBatch    = 200
	measureRounds   = 25
	measureInterval = 10 * time.Minute
	// forgetTime bounds the time in which a sweep deletes old rows. The next sweep
	// deletes more.
	forgetTime = 10 * time.Second
)

// sweepStore is what a sweep needs of a store.
type sweepStore interface {
	// Overdue reads four lists of providers, at most limit of each: active providers
	// whose probation has ended by now, active providers without a benchmark that was
	// passed after expired, providers that wait for nothing more to be activated, and
	// providers whose proposals took effect or lapsed by the store's clock.
	Overdue(ctx context.Context, now, expired time.Time, limit int) (Overdue, error)
	// Qualified reads only the providers that wait for nothing more to be activated.
	Qualified(ctx context.Context, expired time.Time, limit int) ([]ids.ProviderID, error)
	// ToMeasure reads at most limit providers that were measured before a time, and marks
	// them as measured now, so that no other hub measures them too.
	ToMeasure(ctx context.Context, before, now time.Time, limit int) ([]ids.ProviderID, error)
	// EndSilentHubs ends the runs that were silent for HubSilence, by the store's clock,
	// and the connections that they left open, as of when they were seen.
	EndSilentHubs(ctx context.Context) error
	// Forget deletes, some at a time, the connections, runs and keys that ended before
	// kept, except keys that the history names and keys that a removal may give back; the
	// names that engines gave last before kept; the machines that were seen last before nodes; and the nonces that expired
	// before nonces.
	Forget(ctx context.Context, kept, nodes, nonces time.Time) error
}

// Overdue are the providers that a sweep looks at. Proposals count, and lapse, without a
// sweep, which only writes that down.
type Overdue struct{ Probations, Benchmarks, Qualified, Proposals []ids.ProviderID }

// Sweep applies what time alone brings: it ends the runs of silent hubs, judges
// probations, expires benchmarks, activates providers that qualify, and measures uptime.
// It returns the accounts that changed. Every hub sweeps once a minute, and row locks
// make that harmless. A failure for one provider does not stop the others.
func (d *Directory) Sweep(ctx context.Context) ([]Account, error) {
	now := d.clock.Now()
	faults := []error{d.store.EndSilentHubs(ctx)}
	due, err := d.store.Overdue(ctx, now, now.Add(-BenchmarkValidity), sweepBatch)
	faults = append(faults, err)
	var changed []Account
	for _, kind := range []struct {
		all []ids.ProviderID
		do  func(context.Context, ids.ProviderID) (Account, bool, error)
	}{{due.Probations, d.judge}, {due.Benchmarks, d.expire}, {due.Qualified, d.follow}, {due.Proposals, d.follow}} {
		accounts, err := each(ctx, kind.all, kind.do)
		changed, faults = append(changed, accounts...), append(faults, err)
	}
	faults = append(faults, d.forget(ctx, now), d.measureDue(ctx, now))
	return changed, errors.Join(faults...)
}

// forget has a time of its own, so that a large deletion keeps nobody from being
// measured.
func (d *Directory) forget(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, forgetTime)
	defer cancel()
	return d.store.Forget(ctx, now.Add(-PresenceKept), now.Add(-NodeKept), now.Add(-nonceKept))
}

// Qualify activates the providers that wait for nothing more, without waiting for a
// sweep, because machines that were seen just now may be what was missing. It returns
// their accounts.
func (d *Directory) Qualify(ctx context.Context) ([]Account, error) {
	due, err := d.store.Qualified(ctx, d.clock.Now().Add(-BenchmarkValidity), sweepBatch)
	if err != nil {
		return nil, err
	}
	return each(ctx, due, d.follow)
}

// each applies do to every provider, whatever fails for the others, and returns the
// accounts that changed. Another hub may have been faster.
func each(
	ctx context.Context, all []ids.ProviderID, do func(context.Context, ids.ProviderID) (Account, bool, error),
) ([]Account, error) {
	var done []Account
	var faults []error
	for _, id := range all {
		a, changed, err := do(ctx, id)
		switch {
		case err != nil:
			faults = append(faults, err)
		case changed:
			done = append(done, a)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return done, errors.Join(faults...)
}

func (d *Directory) expire(ctx context.Context, id ids.ProviderID) (Account, bool, error) {
	return d.stroke(ctx, id, ByPlatform, "", (*change).expire)
}

// follow applies what the facts lead to, which change does by itself.
func (d *Directory) follow(ctx context.Context, id ids.ProviderID) (Account, bool, error) {
	return d.stroke(ctx, id, ByPlatform, "", func(*change) error { return nil })
}

// seen is the uptime of a provider between two times, of which the later may be now.
func (d *Directory) seen(ctx context.Context, id ids.ProviderID, from, to time.Time) (uptime.Uptime, error) {
	since, now := from.Add(-uptime.Grace), d.clock.Now()
	presences, err := d.store.Presences(ctx, []ids.ProviderID{id}, since, now)
	if err != nil {
		return uptime.Uptime{}, err
	}
	runs, err := d.store.HubRuns(ctx, since, now)
	if err != nil {
		return uptime.Uptime{}, err
	}
	return uptime.Measure(uptime.Span{From: from, To: to}, presences[id].Connections, runs), nil
}

// judge measures a probation and ends it. The measured time is over, so no lock is
// needed. A probation that a removal interrupted is judged by all its parts.
func (d *Directory) judge(ctx context.Context, id ids.ProviderID) (Account, bool, error) {
	a, err := d.store.Get(ctx, id)
	if err != nil || !a.InProbation() {
		return a, false, err
	}
	from, to := a.ActiveSince, a.ProbationEndsAt
	seen, err := d.seen(ctx, id, from, to)
	if err != nil {
		return Account{}, false, err
	}
	up := a.Rest.Before.Plus(seen).Fraction()
	return d.stroke(ctx, id, ByPlatform, probationReason(up), func(c *change) error {
		if !c.account.ProbationEndsAt.Equal(to) {
			return nil // it is another probation by now
		}
		return c.judge(up)
	})
}

// measureDue renews measurements of uptime that are older than measureInterval.
func (d *Directory) measureDue(ctx context.Context, now time.Time) error {
	for range measureRounds {
		due, err := d.store.ToMeasure(ctx, now.Add(-measureInterval), now, measureBatch)
		if err != nil || len(due) == 0 {
			return err
		}
		measured, err := d.measure(ctx, due, now)
		if err != nil {
			return err
		}
		if err := d.store.KeepUptime(ctx, measured, now); err != nil {
			return err
		}
	}
	return nil
}
