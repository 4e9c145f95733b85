package rpc

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/usageseal"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// retryKey is the wait for a hub that hands over too many keys. Its usage waits with it,
// in its journal.
const retryKey = time.Minute

// UsageKeys takes the keys of hubs.
type UsageKeys struct {
	billingv1.UnimplementedUsageKeyServiceServer
	Ring *usageseal.Ring
}

// HandUsageKey makes a hub's key known. Only the hub itself may hand it over; otherwise
// any hub could seal for any other.
func (s *UsageKeys) HandUsageKey(
	ctx context.Context, req *billingv1.HandUsageKeyRequest,
) (*billingv1.HandUsageKeyResponse, error) {
	hub := req.GetHubId()
	if !bus.ValidHubID(hub) {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "hub_id is malformed").On("hub_id")
	}
	if !serve.Proves(ctx, bus.HubName(hub)) {
		return nil, fault.New(fault.Denied, fault.CallerNotAllowed, "the caller's certificate does not name %s",
			bus.HubName(hub))
	}
	key, err := usageseal.ParseKey(req.GetKeyId(), req.GetKey())
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, fault.InvalidValue, "the key is malformed").On("key")
	}
	switch err := s.Ring.Take(ctx, hub, key); {
	case errors.Is(err, usageseal.ErrOtherKey):
		return nil, fault.Wrap(err, fault.Conflict, fault.AlreadyExists, "the id of the key stands for another key").On(
			"key_id")
	case errors.Is(err, usageseal.ErrTooManyKeys):
		return nil, fault.Wrap(err, fault.Exhausted, fault.TooManyKeys, "%s has handed over too many new keys within a day",
			hub).After(retryKey)
	case err != nil:
		return nil, err
	}
	return &billingv1.HandUsageKeyResponse{}, nil
}
