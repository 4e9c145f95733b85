// Package peers asks other replicas of the ledger: the owners of slices, which admit the requests of
// their accounts from memory (package slice).
package peers

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

const (
	// believed is how long a replica is asked as the owner before the database is asked again. A replica
	// that is the owner no longer decides by the exact path.
	believed = time.Minute
	// maxKnown bounds the keys whose owners are known. Beyond it all are forgotten.
	maxKnown = 10_000
	// patience is the time after which no other try begins. An owner that cannot be reached counts as dead
	// before that, after slice.Lease. pause is between two tries.
	patience = slice.Lease + time.Second
	pause    = 200 * time.Millisecond
	// callTimeout bounds one call of an owner. A request that the owner admitted all the same is admitted
	// once more here, and has one hold.
	callTimeout = 2 * time.Second
)

// Owners knows who decides about requests of keys. Own is the id of this replica.
type Owners struct {
	Own   [16]byte
	Dial  func(address string) (billingv1.SliceServiceClient, error)
	Clock clock.Clock

	mu    sync.Mutex
	known map[ids.KeyID]known
}

type known struct {
	address string
	until   time.Time
}

// Decide is one decision of this replica. Its error wraps hold.SliceOpen where another replica decides.
type Decide func(ctx context.Context) (*billingv1.AdmitResponse, error)

// Admit has the owner of the key's account decide, and this replica where there is none. An owner that
// cannot be reached is waited for until it counts as dead.
func (o *Owners) Admit(
	ctx context.Context, key ids.KeyID, req *billingv1.AdmitRequest, here Decide,
) (*billingv1.AdmitResponse, error) {
	began := o.Clock.Now()
	for {
		resp, err := o.ask(ctx, key, req)
		if resp != nil || err != nil {
			return resp, err
		}
		resp, err = here(ctx)
		open, ok := hold.AsSliceOpen(err)
		if !ok {
			return resp, err
		}
		if o.learn(key, open) {
			if resp, err := o.ask(ctx, key, req); resp != nil || err != nil {
				return resp, err
			}
		}
		if o.Clock.Now().Sub(began) > patience {
			return nil, fault.Wrap(err, fault.Unavailable, fault.AdmissionUnavailable,
				"the replica that decides about this account cannot be reached").After(time.Second)
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// ask asks the owner that is known for the key. It returns nothing where none is known, or where it cannot
// be reached and is forgotten.
func (o *Owners) ask(
	ctx context.Context, key ids.KeyID, req *billingv1.AdmitRequest,
) (*billingv1.AdmitResponse, error) {
	address, ok := o.find(key)
	if !ok {
		return nil, nil //nolint:nilnil // nobody to ask is no error
	}
	client, err := o.Dial(address)
	if err != nil {
		o.forget(key)
		return nil, nil //nolint:nilnil // this replica decides
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := client.AdmitHere(call, &billingv1.AdmitHereRequest{Request: req})
	switch {
	case err == nil && resp.GetResponse() != nil:
		return resp.GetResponse(), nil
	case err != nil && (!silent(err) || ctx.Err() != nil):
		return nil, err
	}
	o.forget(key)
	return nil, nil //nolint:nilnil // this replica decides
}

// silent reports whether a replica gave no answer to a call. One that is too busy answers.
func silent(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.Unavailable && f.Reason == fault.ServiceUnavailable || f.Kind == fault.Timeout)
}

func (o *Owners) find(key ids.KeyID) (address string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.known[key]
	if ok && !o.Clock.Now().Before(k.until) {
		delete(o.known, key)
		return "", false
	}
	return k.address, ok
}

// learn keeps who decides about a key. It returns false for an owner that has no address, or is this
// replica.
func (o *Owners) learn(key ids.KeyID, open hold.SliceOpen) bool {
	if open.Address == "" || open.Owner == o.Own {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxKnown {
		o.known = map[ids.KeyID]known{}
	}
	o.known[key] = known{address: open.Address, until: o.Clock.Now().Add(believed)}
	return true
}

func (o *Owners) forget(key ids.KeyID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, key)
}

// Recall has the owner of an open slice give it back. It returns nil once the owner has, or once the owner
// cannot be reached and counts as dead.
func (o *Owners) Recall(ctx context.Context, open hold.SliceOpen) error {
	if open.Address != "" {
		if done, err := o.recall(ctx, open); done || err != nil {
			return err
		}
	}
	return clock.Sleep(ctx, slice.Lease)
}

// recall asks an owner. It returns false where the owner gave no answer, or another process answered.
func (o *Owners) recall(ctx context.Context, open hold.SliceOpen) (done bool, err error) {
	client, err := o.Dial(open.Address)
	if err != nil {
		return false, err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := client.Recall(call, &billingv1.RecallRequest{AccountId: open.Account.String(), Owner: open.Owner[:]})
	if err != nil && !silent(err) {
		return false, err
	}
	return err == nil && !resp.GetOtherProcess(), nil
}
