// Package house keeps the platform's own consumer accounts, which pay for hidden probes,
// and their keys.
//
// # Accounts
//
// There are as many accounts as the settings say, numbered from 1. Each is opened once,
// under a name and an idempotency key that follow from its number, so that replicas,
// restarts and an installation that lost its secret find the same accounts. An account whose balance is low is funded, at most once an hour, by an amount
// that the settings say. The ledger bounds what all accounts get in a day.
//
// # Keys
//
// A key is the newest of its account for five to seven days, which is drawn, so that
// accounts do not renew their keys together. The old key stays good for two days more, so
// that probes under way and other replicas go on with it. Then it is revoked and
// forgotten. Two replicas that renew at the same moment make two keys, of which both use
// the newest; the other one expires unused. A key that the gateway refuses is replaced, at
// most once an hour for an account.
//
// The store has keys sealed only: AES-256-GCM under a key that HKDF (RFC 5869) derives from
// the verifier's secret and the id of the house key. Whoever reads the database cannot
// spend our credit or find our probes by it.
//
// # Choice
//
// The account of a probe is drawn by the probe's id. So no account has a pattern of its
// own, in time, in models or in providers.
package house

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/probe"
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

// New returns a house without keys. Tend opens its accounts.
func New(
	cfg Config, ledger Ledger, store Store, c clock.Clock, random io.Reader, secret prompt.Secret,
) (*House, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &House{
		cfg: cfg, ledger: ledger, store: store, clock: c, random: random, secret: secret,
		refused: map[ids.KeyID]bool{}, replaced: map[ids.AccountID]time.Time{},
	}, nil
}

// Choose returns the key that a probe is sent with. It returns ErrNoKey where there is
// none.
func (h *House) Choose(id probe.ID) (Key, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := slices.DeleteFunc(slices.Clone(h.keys), func(k Key) bool { return h.refused[k.ID] })
	if len(keys) == 0 {
		return Key{}, ErrNoKey
	}
	return keys[dice.New(h.secret, "house account", id[:]).IntN(len(keys))], nil
}

// Refused takes note that the gateway does not take a key. It is not chosen any more, and
// Tend replaces it.
func (h *House) Refused(key Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.refused) < MaxAccounts*8 {
		h.refused[key.ID] = true
	}
}

// Ready returns nil once there is a key.
func (h *House) Ready(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.keys) == 0 {
		return ErrNoKey
	}
	return nil
}

// Tend opens accounts, funds them, renews their keys, and loads the keys that other
// replicas made. It is called every minute. What fails for one account is tried again for
// that account with the next call; the errors are joined.
func (h *House) Tend(ctx context.Context) error {
	h.tending.Lock()
	defer h.tending.Unlock()
	if err := h.open(ctx); err != nil {
		return err
	}
	stored, err := h.store.HouseKeys(ctx)
	if err != nil {
		return fmt.Errorf("read house keys: %w", err)
	}
	now := h.clock.Now()
	var faults []error
	var keys []Key
	for _, account := range h.opened {
		if err := h.fund(ctx, account, now); err != nil {
			faults = append(faults, err)
		}
		key, err := h.renew(ctx, account, keysOf(stored, account, now), now)
		if err != nil {
			faults = append(faults, err)
		}
		if !key.ID.IsZero() {
			keys = append(keys, key)
		}
	}
	h.mu.Lock()
	h.keys = keys
	h.mu.Unlock()
	return errors.Join(append(faults, h.retire(ctx, stored, now))...)
}

// open opens the accounts that are not open.
func (h *House) open(ctx context.Context) error {
	for number := len(h.opened) + 1; number <= h.cfg.Accounts; number++ {
		account, err := h.ledger.Open(ctx, name(number), fmt.Sprintf("house-%d", number))
		if err != nil {
			return fmt.Errorf("open a house account: %w", err)
		}
		if err := h.store.PutHouseAccount(ctx, number, account); err != nil {
			return fmt.Errorf("keep a house account: %w", err)
		}
		h.opened = append(h.opened, account)
	}
	return nil
}

// Names are made of these. Operators alone see them.
var (
	firstNames = []string{"north", "blue", "quiet", "copper", "lumen", "river", "stone", "harbor", "maple", "signal"}
	lastNames  = []string{"works", "labs", "studio", "systems", "data", "apps", "tools", "media", "research", "desk"}
)

func name(number int) string {
	d := dice.New(prompt.Secret{}, "house name", binary.BigEndian.AppendUint32(nil, uint32(number)))
	return firstNames[d.IntN(len(firstNames))] + " " + lastNames[d.IntN(len(lastNames))]
}

// fund gives an account its first credit, which is also how its balance is asked for, and
// more when it is low. An hour has one key, so that replicas do not fund twice.
func (h *House) fund(ctx context.Context, account ids.AccountID, now time.Time) error {
	first := fmt.Sprintf("house-%s-first-%d", account, h.cfg.TopUp)
	balance, err := h.ledger.Fund(ctx, account, h.cfg.TopUp, first)
	if err == nil && balance < h.cfg.Low {
		again := fmt.Sprintf("house-%s-%d-%d", account, now.Unix()/3600, h.cfg.TopUp)
		_, err = h.ledger.Fund(ctx, account, h.cfg.TopUp, again)
	}
	if err != nil {
		return fmt.Errorf("fund a house account: %w", err)
	}
	return nil
}
