package house

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/prompt"
)

// The times of a key.
const (
	// MinWeek and MaxWeek bound how long a key is the newest of its account.
	MinWeek = 5 * 24 * time.Hour
	MaxWeek = 7 * 24 * time.Hour
	// Overlap is how long it is good after that.
	Overlap = 48 * time.Hour
	// replaceEvery is how often a key that the gateway refuses is replaced at most.
	replaceEvery = time.Hour
)

// MaxAccounts bounds the accounts, as the ledger does.
const MaxAccounts = 256

// Errors of this package.
var (
	// ErrNoKey is the error where no account has a key.
	ErrNoKey = errors.New("no house account has a key")
	// ErrSealed is the error for a key that cannot be opened.
	ErrSealed = errors.New("a house key was sealed with another secret, or altered")
	// ErrConfig is the error for settings out of range.
	ErrConfig = errors.New("settings of house accounts")
)

// Text is a key. It prints as nothing.
type Text struct{ value string }

// NewText returns a key of its characters.
func NewText(key string) Text { return Text{key} }

// Reveal returns the key's characters.
func (t Text) Reveal() string { return t.value }

// Format keeps the key out of everything that is printed, whatever the verb.
func (Text) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "house key") }

// MarshalJSON keeps the key out of logs in JSON.
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"house key"`), nil }

// Key is a key of an account.
type Key struct {
	Account ids.AccountID
	ID      ids.KeyID
	Text    Text
}

// Stored is a key as the store keeps it.
type Stored struct {
	Account ids.AccountID
	ID      ids.KeyID
	// CreatedAt is the store's. PutHouseKey does not read it.
	CreatedAt, ExpiresAt time.Time
	// Sealed has 29 to 1,024 bytes.
	Sealed []byte
}

// Store keeps accounts and keys.
type Store interface {
	// PutHouseAccount keeps the account of a number from 1. A repeat changes nothing.
	PutHouseAccount(ctx context.Context, number int, account ids.AccountID) error
	// HouseKeys returns the keys that are not forgotten.
	HouseKeys(ctx context.Context) ([]Stored, error)
	// PutHouseKey keeps a key of an account that is kept.
	PutHouseKey(ctx context.Context, k Stored) error
	// ForgetHouseKey forgets the sealed bytes of a key that was revoked. A key that is
	// forgotten, or was never kept, is no error.
	ForgetHouseKey(ctx context.Context, id ids.KeyID) error
}

// Ledger has the accounts.
type Ledger interface {
	// Open opens an account once for each idempotency key.
	Open(ctx context.Context, name, idempotencyKey string) (ids.AccountID, error)
	// Fund gives credit once for each idempotency key, and returns the balance.
	Fund(ctx context.Context, account ids.AccountID, amount money.NanoUSD, idempotencyKey string) (money.NanoUSD, error)
	// Issue makes a key.
	Issue(ctx context.Context, account ids.AccountID, expires time.Time) (Key, error)
	// Revoke ends a key.
	Revoke(ctx context.Context, id ids.KeyID) error
}

// Config are the settings.
type Config struct {
	// Accounts is the number of accounts: 3 in development, at least 20 in production.
	Accounts int
	// TopUp is what an account is given at first, and when it has less than Low.
	TopUp, Low money.NanoUSD
}

func (c Config) check() error {
	switch {
	case c.Accounts < 1 || c.Accounts > MaxAccounts:
		return fmt.Errorf("%w: %d accounts are not 1 to %d", ErrConfig, c.Accounts, MaxAccounts)
	case c.TopUp <= 0 || c.TopUp > 1_000*money.USD:
		return fmt.Errorf("%w: a top-up must be above 0 and at most $1,000", ErrConfig)
	case c.Low <= 0 || c.Low > c.TopUp:
		return fmt.Errorf("%w: the low balance must be above 0 and at most a top-up", ErrConfig)
	}
	return nil
}

// House has the accounts and keys of this process. It is safe for concurrent use.
type House struct {
	cfg    Config
	ledger Ledger
	store  Store
	clock  clock.Clock
	random io.Reader
	secret prompt.Secret

	mu sync.Mutex
	// keys are the newest key of each account, ordered by account.
	keys []Key
	// refused are keys that the gateway does not take, and replaced is when the key of an
	// account was last replaced for that.
	refused  map[ids.KeyID]bool
	replaced map[ids.AccountID]time.Time
	// opened are the accounts, once they are open. One Tend runs at a time.
	opened  []ids.AccountID
	tending sync.Mutex
}
