package admission

import (
	"sync"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/lru"
)

const (
	// ownerTime bounds a call to the owner. After that time any replica is asked: the request has one hold all the
	// same, because Admit is idempotent by the request's id.
	ownerTime = 2 * time.Second
	// maxOwners bounds the keys whose owners are known.
	maxOwners = 10_000
)

// owners keeps the address of the replica of billing-ledger that admitted the last request of each key from memory.
// That replica decides about the next request, too, so a gateway that asks another replica pays for a call from
// replica to replica. An address that is out of date costs time alone, because each replica has the owner decide.
type owners struct {
	mu    sync.Mutex
	byKey *lru.Map[string, string] // addresses; nil for none
}

func (o *owners) find(keyID string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey == nil {
		return ""
	}
	address, _ := o.byKey.Get(keyID)
	return address
}

// learn keeps the address of a key's owner; an empty address forgets it.
func (o *owners) learn(keyID, address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case address != "":
		if o.byKey == nil {
			o.byKey = lru.New[string, string](maxOwners, nil)
		}
		o.byKey.Add(keyID, address)
	case o.byKey != nil:
		o.byKey.Remove(keyID)
	}
}

// undecided reports whether a replica has not decided about a call: it was not reached, is starting or stopping, has no
// database, or is too busy. Another replica may decide, or has the owner say the same.
func undecided(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.Unavailable || f.Kind == fault.Timeout)
}
