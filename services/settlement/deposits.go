package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/quote"
)

const (
	// depositInterval is the pause between two looks for transfers that can be credited.
	depositInterval = 5 * time.Second
	// quoteInterval is the pause between two questions to the sources of prices.
	quoteInterval = time.Minute
	// growthInterval is the pause between two looks whether an hour's look at balances is due.
	growthInterval = time.Minute
	// xpubTimeout bounds the question for the extended public key.
	xpubTimeout = 10 * time.Second
)

// depositWork credits what arrives at deposit addresses.
type depositWork struct {
	chains  []chain.ID
	decider *deposit.Decider
	poster  *deposit.Poster
	growth  *deposit.Growth
	quotes  *quote.Keeper
	log     *slog.Logger
	meters  *chainMetrics
}

// run works until ctx ends. Without chains there is nothing to do.
func (w *depositWork) run(ctx context.Context) {
	if len(w.chains) == 0 {
		return
	}
	var group errgroup.Group
	each := func(d time.Duration, do func(context.Context)) {
		group.Go(func() error {
			do(ctx)
			for range clock.Every(ctx, d) {
				do(ctx)
			}
			return nil
		})
	}
	each(quoteInterval, w.price)
	each(depositInterval, w.credit)
	each(growthInterval, w.look)
	_ = group.Wait() // none returns an error
}

// price asks for prices, and measures for which coins there is none.
func (w *depositWork) price(ctx context.Context) {
	w.warn(ctx, "prices could not be asked for", w.quotes.Fetch(ctx))
	for _, id := range w.chains {
		_, err := w.quotes.Quote(ctx, id)
		w.meters.priced(ctx, id, err == nil)
	}
}

func (w *depositWork) credit(ctx context.Context) {
	_, err := w.decider.Pass(ctx)
	w.warn(ctx, "transfers could not be decided", err)
	_, err = w.poster.Pass(ctx)
	w.warn(ctx, "deposits could not be posted", err)
	waiting, err := w.decider.Store.Backlog(ctx)
	if err != nil {
		return // the next pass measures
	}
	w.meters.waiting(ctx, waiting)
}

func (w *depositWork) look(ctx context.Context) {
	for _, id := range w.chains {
		found, err := w.growth.Pass(ctx, id)
		w.warn(ctx, "balances could not be compared", err)
		if found > 0 {
			w.log.WarnContext(ctx, "coins arrived that no transaction brought", "chain", id.String(), "addresses", found)
		}
	}
}

func (w *depositWork) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, what, "error", err)
	}
}

// derivation derives deposit addresses from the extended public key of the settings, or else of the signer, which is
// asked when the key is first needed.
type derivation struct {
	xpub   config.Secret
	signer signerv1.SignerServiceClient

	mu      sync.Mutex
	deriver *deposit.Deriver
}

// at returns the address of an index.
func (d *derivation) at(ctx context.Context, index uint32) (chain.Address, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deriver == nil {
		made, err := d.make(ctx)
		if err != nil {
			return chain.Address{}, err
		}
		d.deriver = made
	}
	return d.deriver.At(index)
}

func (d *derivation) make(ctx context.Context) (*deposit.Deriver, error) {
	if d.xpub.IsSet() {
		return deposit.NewDeriver(d.xpub.Reveal())
	}
	if d.signer == nil {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "no deposit addresses are configured")
	}
	ctx, cancel := context.WithTimeout(ctx, xpubTimeout)
	defer cancel()
	resp, err := d.signer.GetDepositXpub(ctx, &signerv1.GetDepositXpubRequest{})
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "the deposit addresses are not available")
	}
	return deposit.NewDeriver(resp.GetXpub())
}

// maxDepositAddresses bounds MaxDepositAddresses.
const maxDepositAddresses = 10_000_000

// checkDeposits returns every fault of what deposits need.
func (c Config) checkDeposits() error {
	var faults []error
	if err := c.Quotes.Validate(c.Development); err != nil {
		faults = append(faults, fmt.Errorf("settlement: quotes: %w", err))
	}
	if err := c.Screen.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("settlement: screen: %w", err))
	}
	if c.MaxDepositAddresses < 1 || c.MaxDepositAddresses > maxDepositAddresses {
		faults = append(faults, fmt.Errorf("settlement: max_deposit_addresses must be 1 to %d", maxDepositAddresses))
	}
	if c.DepositXpub.IsSet() {
		if _, err := deposit.NewDeriver(c.DepositXpub.Reveal()); err != nil {
			faults = append(faults, fmt.Errorf("settlement: deposit_xpub: %w", err))
		}
	}
	return errors.Join(faults...)
}
