package admission

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

const (
	// deciderTime bounds a call of the replica that decided last. After it any replica is asked: the request
	// has one hold all the same, because Admit is idempotent by the request's id.
	deciderTime = 2 * time.Second
	// maxDeciders bounds the keys whose deciders are known. Beyond it all are forgotten.
	maxDeciders = 10_000
)

// deciders knows which replica of billing-ledger admitted the last request of each key from memory. That
// replica decides about the next request, too, so a gateway that asks another pays for a call from replica
// to replica. What is known here decides nothing: each replica has the one decide that may.
type deciders struct {
	mu    sync.Mutex
	byKey map[string]string
}

func (d *deciders) find(keyID string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byKey[keyID]
}

// learn keeps the address of a key's decider; an empty address forgets it.
func (d *deciders) learn(keyID, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known, ok := d.byKey[keyID]; {
	case address == "":
		delete(d.byKey, keyID)
		return
	case known == address:
		return
	case d.byKey == nil, !ok && len(d.byKey) >= maxDeciders:
		d.byKey = map[string]string{}
	}
	d.byKey[keyID] = address
}

// admit asks billing-ledger for a hold: the replica that decided last about the key, or any replica where
// that one is not known, not connected, or does not answer.
func (a *Admitter) admit(ctx context.Context, req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	resp, err := a.admitByDecider(ctx, req)
	if resp == nil && err == nil || silent(err) && ctx.Err() == nil {
		a.deciders.learn(req.GetKeyId(), "")
		resp, err = a.ledger.Admit(ctx, req)
	}
	if err == nil {
		a.deciders.learn(req.GetKeyId(), resp.GetDeciderAddress())
	}
	return resp, err
}

// admitByDecider asks the replica that decided last. It returns nothing where there is none to ask.
func (a *Admitter) admitByDecider(ctx context.Context, req *billingv1.AdmitRequest) (*billingv1.AdmitResponse, error) {
	address := a.deciders.find(req.GetKeyId())
	if address == "" || a.cfg.Ledger == nil {
		return nil, nil
	}
	ledger, ok := a.cfg.Ledger(address)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, deciderTime)
	defer cancel()
	return ledger.Admit(ctx, req)
}

// silent reports whether a replica gave no answer to a call. One that is too busy answers.
func silent(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.Unavailable && f.Reason == fault.ServiceUnavailable || f.Kind == fault.Timeout)
}
