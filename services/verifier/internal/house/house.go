// Package house keeps the platform's own consumer accounts, which pay for hidden probes,
// and their keys.
//
// # Accounts
//
// There are as many accounts as the settings say, numbered from 1. Each is opened once,
// under a name and an idempotency key that follow from its number, so that replicas,
// restarts and an installation that lost its secret find the same accounts. An account
// whose balance is low is funded, at most once an hour, by an amount that the settings say.
// The ledger bounds what all accounts get in a day.
//
// # Keys
//
// A key is the newest of its account for five to seven days, which is drawn, so that
// accounts do not renew their keys together. The old key stays good for two days more, so
// that probes under way and other replicas go on with it. Then it is revoked and
// forgotten. Two replicas that renew at the same moment make two keys, of which both use
// the newest; the other one expires unused. A key that the gateway refuses, or that cannot
// be opened, is replaced, at most once an hour for an account.
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
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

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
	if err := h.openLocked(ctx); err != nil {
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

// openLocked opens the accounts that are not open.
func (h *House) openLocked(ctx context.Context) error {
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
