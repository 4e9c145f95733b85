package events

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/usageseal"
)

// Times of keys.
const (
	// keyLife is how long a key seals.
	keyLife = 24 * time.Hour
	// handAgain is the pause after which an accepted key is handed over again, because a
	// database that failed over may have lost it.
	handAgain = time.Minute
	// handTime bounds one call; handMin and handMax the pause after a failure.
	handTime = 5 * time.Second
	handMin  = 200 * time.Millisecond
	handMax  = 10 * time.Second
	// handRefused is the pause after a refusal with too_many_keys: this hub has restarted
	// too often.
	handRefused = time.Minute
)

// KeyReceiver is a service that checks the seals of usage.
type KeyReceiver struct {
	Name string
	Hand func(ctx context.Context, hub string, key usageseal.Key) error
}

// Keys seal the usage of a hub. A key belongs to this process alone: usage that an
// earlier process left in the journal is sealed when it is published. A key is made at
// start and every 24 hours. billing-ledger accepts at most 300 keys of a hub within 24
// hours; a hub that is refused asks again every minute. Usage waits in the journal until
// billing-ledger has the key.
type Keys struct {
	hub       string
	receivers []KeyReceiver
	random    io.Reader
	clock     clock.Clock
	log       *slog.Logger

	current atomic.Pointer[usageseal.Key]
	made    time.Time // of current, for Run only
	ready   chan struct{}
	once    sync.Once
}

// NewKeys returns keys. Usage is sealed with a key once the first of the receivers has
// it, so that billing-ledger never meets a key that it does not know. The others leave
// usage in the stream until they have the key.
func NewKeys(hub string, receivers []KeyReceiver, random io.Reader, c clock.Clock, log *slog.Logger) *Keys {
	return &Keys{hub: hub, receivers: receivers, random: random, clock: c, log: log, ready: make(chan struct{})}
}

// wait returns true once there is a key, and false when ctx ends first.
func (k *Keys) wait(ctx context.Context) bool {
	if k == nil {
		return true
	}
	select {
	case <-k.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// seal is for a payload that is published after wait.
func (k *Keys) seal(payload []byte) []byte {
	if k == nil {
		return payload
	}
	return k.current.Load().Seal(payload)
}

// Run makes keys and hands them over until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	var next *usageseal.Key
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := handMin
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if next == nil && (k.current.Load() == nil || k.clock.Now().Sub(k.made) >= keyLife) {
			key, err := usageseal.NewKey(k.random)
			if err != nil {
				return fmt.Errorf("seal usage: %w", err)
			}
			next = &key
		}
		handing := next
		if handing == nil {
			handing = k.current.Load()
		}
		taken, refused, all := k.hand(ctx, *handing)
		if taken && next != nil {
			k.current.Store(next)
			k.made, next = k.clock.Now(), nil
			k.once.Do(func() { close(k.ready) })
		}
		if all {
			pause = handMin
			timer.Reset(handAgain)
			continue
		}
		if refused {
			pause = handRefused
		}
		timer.Reset(pause)
		pause = min(2*pause, handMax)
	}
}

// hand gives the key to all receivers. It reports whether the first has it, whether one
// of them has too many, and whether all have it.
func (k *Keys) hand(ctx context.Context, key usageseal.Key) (first, refused, all bool) {
	all = true
	for i, receiver := range k.receivers {
		callCtx, cancel := context.WithTimeout(ctx, handTime)
		err := receiver.Hand(callCtx, k.hub, key)
		cancel()
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			k.log.Warn("the key that seals usage was not taken", "by", receiver.Name, "error", err)
		}
		all, refused = false, refused || fault.Is(err, fault.TooManyKeys)
		if i == 0 {
			return false, refused, false
		}
	}
	return true, refused, all
}
