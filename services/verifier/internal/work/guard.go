package work

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

const (
	// guardInterval is the pause between two looks for common causes.
	guardInterval = 5 * time.Minute
	// guardDay is how far back exceedances count.
	guardDay = 24 * time.Hour
	// voidFor is how long the observations of a suspicion are voided again, so that those of
	// an offer that failed, or of all when a replica ended meanwhile, are void too.
	voidFor = time.Hour
	// maxOffers bounds the offers that a suspicion voids observations of.
	maxOffers = 100_000
)

// Guard looks for causes that several providers of a stratum share. While one is suspected,
// the ladder of the stratum's model stands still, and the observations since the last good
// check are void. Accounts that share a user, a wallet or a payout address count as one
// owner, so that a cheat does not stop the ladder by many accounts. Strata without a
// reference or a calibration are passed over, so that nobody stops it by an invented engine.
type Guard struct {
	Store *store.Store
	Mover *Mover
	Log   *slog.Logger
	Haste Haste
	// Suspected is told how many strata are suspected.
	Suspected func(ctx context.Context, n int)
}

// Run looks until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	for range clock.Every(ctx, g.Haste.Of(guardInterval)) {
		warn(ctx, g.Log, "common causes could not be looked for", g.Pass(ctx))
	}
}

// Pass looks at every stratum. One that cannot be looked at stays as it is, and keeps no other
// waiting.
func (g *Guard) Pass(ctx context.Context) error {
	now, err := g.Store.Now(ctx)
	if err != nil {
		return err
	}
	var after store.StratumKey
	var bad faults
	suspected := 0
	for {
		list, err := g.Store.Strata(ctx, "", after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, t := range list {
			cause, err := g.look(ctx, t, now, &bad)
			if err := bad.add(ctx, err); err != nil {
				return err
			}
			if cause != calibration.NoCommon || err != nil && !t.SuspectedSince.IsZero() {
				suspected++
			}
			after = t.Key
		}
		if len(list) < store.MaxPage {
			break
		}
	}
	g.Suspected(ctx, suspected)
	return bad.err()
}

// look checks one stratum and acts on what it finds. A stratum by which nobody is judged has
// no cause in common: its providers may have invented it.
func (g *Guard) look(
	ctx context.Context, t store.Stratum, now time.Time, bad *faults,
) (calibration.Common, error) {
	if !t.Judged {
		if t.SuspectedSince.IsZero() {
			return calibration.NoCommon, nil
		}
		return calibration.NoCommon, g.Store.Cleared(ctx, t.Key, now)
	}
	seen, err := g.Store.Exceedances(ctx, t.Key, now.Add(-guardDay))
	if err != nil {
		return calibration.NoCommon, err
	}
	signs, err := g.signs(ctx, t, seen, bad)
	if err != nil {
		return calibration.NoCommon, err
	}
	cause := signs.Cause()
	if cause == calibration.NoCommon {
		return cause, g.Store.Cleared(ctx, t.Key, now)
	}
	since, fresh, err := g.Store.Suspect(ctx, t.Key, string(cause))
	if err != nil {
		return cause, err
	}
	if fresh {
		g.Log.ErrorContext(ctx, "a common cause is suspected, and the ladder of the model stands still",
			"model", t.Stratum.Model, "class", int(t.Stratum.Class), "engine", t.Stratum.Engine, "gpu", t.Stratum.GPU,
			"cause", string(cause))
	}
	if since.IsZero() || now.Sub(since) > voidFor {
		return cause, nil
	}
	return cause, g.void(ctx, t, seen, since, bad)
}

// signs gathers what speaks for a common cause. An offer whose standing cannot be read is left
// out of the median.
func (g *Guard) signs(
	ctx context.Context, t store.Stratum, seen []store.Exceedance, bad *faults,
) (calibration.Signs, error) {
	owners, err := g.Store.Owners(ctx, providersOf(seen))
	if err != nil {
		return calibration.Signs{}, err
	}
	signs := calibration.Signs{Owners: owners.Len(), ReferenceX: t.Apart}
	exceeded := map[ids.ProviderID]bool{}
	for _, e := range seen {
		owner := owners.Of(e.Provider)
		if e.Exceeded > 0 {
			exceeded[owner] = true
		}
		st, err := g.Store.Standing(ctx, probe.Offer{Provider: ids.ProviderID(e.Provider), Model: t.Stratum.Model})
		if isNone(err) {
			continue
		}
		if err != nil {
			if err := bad.add(ctx, err); err != nil {
				return calibration.Signs{}, err
			}
			continue
		}
		if n, full := st.State.Last.Exceeded(); full {
			signs.Offers = append(signs.Offers, calibration.Offer{Owner: owner.String(), Exceeded: n})
		}
	}
	signs.Exceeded = len(exceeded)
	return signs, nil
}

func providersOf(seen []store.Exceedance) []ids.ProviderID {
	all := make([]ids.ProviderID, len(seen))
	for i, e := range seen {
		all[i] = e.Provider
	}
	return all
}

// void voids the observations of the stratum's offers since the last good check. The time of
// the suspicion is the key, so that an offer's are voided once.
func (g *Guard) void(
	ctx context.Context, t store.Stratum, seen []store.Exceedance, suspected time.Time, bad *faults,
) error {
	since := t.CheckedAt
	if since.IsZero() {
		since = suspected.Add(-guardDay)
	}
	key := store.EventKey("common/" + strconv.FormatInt(suspected.UnixMicro(), 10))
	for _, e := range seen[:min(len(seen), maxOffers)] {
		o := probe.Offer{Provider: ids.ProviderID(e.Provider), Model: t.Stratum.Model}
		_, err := g.Mover.Move(ctx, o, key, standing.Event{Voided: &standing.Voiding{By: "platform", Since: since}})
		if isNone(err) {
			continue
		}
		if err := bad.add(ctx, err); err != nil {
			return err
		}
	}
	return nil
}
