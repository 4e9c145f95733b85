package position

import (
	"context"
	"errors"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// MaxCards bounds the providers whose card collateral is read in one pass.
const MaxCards = 50

// CardChange is one event of collateral that was paid by card.
type CardChange struct {
	Number   int64
	Provider ids.ProviderID
	// Reversed reports whether money went back to the card's owner.
	Reversed bool
	// Failed is an attempt that a card did not take; its Attempt is 0 for none.
	Failed CardFailure
}

// CardFailure is an attempt of the ledger to give a payment back that its card did not take.
type CardFailure struct {
	// Part is the part of a refund, a UUID.
	Part    string
	Attempt int
}

// CardBalance is what the ledger has of a provider's collateral by card.
type CardBalance struct {
	// Free is the balance, as far as payments that count stand behind it.
	Free money.NanoUSD
	// Owed is what the provider owes.
	Owed money.NanoUSD
}

// StaleCard is a provider whose balance is to be read. Version is that of what is known.
type StaleCard struct {
	Provider ids.ProviderID
	Version  int64
}

// Cards are payments by card, and the books of them.
type Cards interface {
	// Changes lists what happened behind a number. more reports whether there is more.
	Changes(ctx context.Context, after int64) (changes []CardChange, more bool, err error)
	Balance(ctx context.Context, provider ids.ProviderID, liveOnly bool) (CardBalance, error)
}

// CardStore keeps what is known of collateral by card.
type CardStore interface {
	CardCursor(ctx context.Context) (int64, error)
	// Heard records changes: the balances of their providers are stale.
	Heard(ctx context.Context, changes []CardChange) error
	// Stale lists providers whose balance is to be read, the longest waiting first. It lets the other providers wait
	// meanwhile.
	// A provider of which something is about to be posted is left out.
	Stale(ctx context.Context, limit int) ([]StaleCard, error)
	// Known records a balance that was read, unless something has changed since the version.
	Known(ctx context.Context, card StaleCard, b CardBalance) error
}

// FollowCards hears what happened to collateral by card, and reads the balances that changed.
func FollowCards(ctx context.Context, rules CardRules, cards Cards, store CardStore) error {
	for range MaxBatches {
		after, err := store.CardCursor(ctx)
		if err != nil {
			return err
		}
		changes, more, err := cards.Changes(ctx, after)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			if err := store.Heard(ctx, changes); err != nil {
				return err
			}
		}
		if !more {
			break
		}
	}
	stale, err := store.Stale(ctx, MaxCards)
	if err != nil {
		return err
	}
	var faults []error
	for _, card := range stale {
		b, err := cards.Balance(ctx, card.Provider, rules.LiveOnly)
		if err == nil {
			err = store.Known(ctx, card, b)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
