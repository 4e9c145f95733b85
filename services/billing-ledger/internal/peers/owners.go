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
	"svc.internal/pkg/lru"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

const (
	// believed is how long a replica is asked as the owner after it has decided last. A replica that is the
	// owner no longer decides by the exact path.
	believed = time.Minute
	// maxKnown bounds the keys whose owners are known.
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
	Own  [16]byte
	Dial func(address string) (billingv1.SliceServiceClient, error)
	// RecallByRow recalls a slice through the database, for an owner that lives and cannot be reached.
	RecallByRow func(ctx context.Context, open hold.SliceOpen) error
	Clock       clock.Clock

	mu    sync.Mutex
	known *lru.Map[ids.KeyID, known]
}

type known struct {
	address string
	until   time.Time
}

// Decide is one decision of this replica. Its error wraps hold.SliceOpen where another replica decides.
type Decide func(ctx context.Context) (*billingv1.AdmitResponse, error)

// Admit has the owner of the key's account decide, and this replica where there is none. An owner that
// cannot be reached is waited for until it counts as dead, or has given the slice back because it was
// recalled through the database.
func (o *Owners) Admit(
	ctx context.Context, key ids.KeyID, req *billingv1.AdmitRequest, here Decide,
) (*billingv1.AdmitResponse, error) {
	began, recalled := o.Clock.Now(), false
	for {
		d := o.ask(ctx, key, req)
		if d.decided {
			return d.resp, d.err
		}
		resp, err := here(ctx)
		open, ok := hold.AsSliceOpen(err)
		if !ok {
			return resp, err
		}
		if d.err == nil && o.learn(key, open) {
			if d = o.ask(ctx, key, req); d.decided {
				return d.resp, d.err
			}
		}
		if d.err != nil { // it is the owner, and cannot decide now
			return nil, d.err
		}
		if !recalled {
			_ = o.RecallByRow(ctx, open) // where that fails, the wait is as long as for a dead owner
			recalled = true
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

// answer is what came of asking an owner. Where it did not decide, err is what it said; nil where nobody was
// asked or nobody answered.
type answer struct {
	decided bool
	resp    *billingv1.AdmitResponse
	err     error
}

// ask asks the owner that is known for the key. An owner that does not decide is forgotten, because it may
// have given the slice back, and then this replica can decide.
func (o *Owners) ask(ctx context.Context, key ids.KeyID, req *billingv1.AdmitRequest) answer {
	address, ok := o.find(key)
	if !ok {
		return answer{}
	}
	client, err := o.Dial(address)
	if err != nil {
		o.forget(key)
		return answer{}
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := client.AdmitHere(call, &billingv1.AdmitHereRequest{Request: req})
	switch f, _ := fault.As(err); {
	case err == nil && resp.GetResponse() != nil:
		o.believe(key, address)
		return answer{decided: true, resp: resp.GetResponse()}
	case err != nil && (ctx.Err() != nil || f == nil || f.Kind != fault.Unavailable && f.Kind != fault.Timeout):
		return answer{decided: true, err: err}
	}
	o.forget(key)
	if err == nil || silent(err) {
		return answer{}
	}
	return answer{err: err}
}

// silent reports whether a replica gave no answer to a call. One that is too busy answers.
func silent(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.Unavailable && f.Reason == fault.ServiceUnavailable || f.Kind == fault.Timeout)
}

func (o *Owners) find(key ids.KeyID) (address string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		return "", false
	}
	k, ok := o.known.Get(key)
	if ok && !o.Clock.Now().Before(k.until) {
		o.known.Remove(key)
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
	o.believe(key, open.Address)
	return true
}

// believe has the replica at an address asked for the key, from now on for believed.
func (o *Owners) believe(key ids.KeyID, address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = lru.New[ids.KeyID, known](maxKnown, nil)
	}
	o.known.Add(key, known{address: address, until: o.Clock.Now().Add(believed)})
}

func (o *Owners) forget(key ids.KeyID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known != nil {
		o.known.Remove(key)
	}
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
