package admission

import (
	"sync"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/lru"
)

const (
	// deciderTime bounds a call of the replica that decided last. After it any replica is asked: the request
	// has one hold all the same, because Admit is idempotent by the request's id.
	deciderTime = 2 * time.Second
	// maxDeciders bounds the keys whose deciders are known.
	maxDeciders = 10_000
)

// deciders knows which replica of billing-ledger admitted the last request of each key from memory. That
// replica decides about the next request, too, so a gateway that asks another pays for a call from replica
// to replica. What is known here decides nothing: each replica has the one decide that may.
type deciders struct {
	mu    sync.Mutex
	byKey *lru.Map[string, string] // addresses; nil for none
}

func (d *deciders) find(keyID string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil {
		return ""
	}
	address, _ := d.byKey.Get(keyID)
	return address
}

// learn keeps the address of a key's decider; an empty address forgets it.
func (d *deciders) learn(keyID, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case address != "":
		if d.byKey == nil {
			d.byKey = lru.New[string, string](maxDeciders, nil)
		}
		d.byKey.Add(keyID, address)
	case d.byKey != nil:
		d.byKey.Remove(keyID)
	}
}

// silent reports whether a replica gave no answer to a call. One that is too busy answers.
func silent(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.Unavailable && f.Reason == fault.ServiceUnavailable || f.Kind == fault.Timeout)
}
