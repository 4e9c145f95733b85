package earning

import (
	"context"
	"time"

	"svc.internal/pkg/money"
)

// Books is what the platform holds and what it owes, of all accounts together.
type Books struct {
	// Tokens are the units of a:crypto by token.
	Tokens map[string]int64
	// Crypto, Card and Bank are what a:crypto, a:card_clearing and a:bank are worth.
	Crypto, Card, Bank money.NanoUSD
	// Consumers and Providers are what they may claim. What plans owe providers before their month is closed counts with
	// the pools of plans, which bound it: they are in Others, with vendors and money that waits for its owner.
	Consumers, Providers, Others money.NanoUSD
	At                           time.Time
}

// BooksStore reads the books as a whole.
type BooksStore interface {
	Books(ctx context.Context) (Books, error)
}
