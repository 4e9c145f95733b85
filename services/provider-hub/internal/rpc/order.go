package rpc

import (
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
)

// Order reads the message that opens an attempt.
func Order(m *hubv1.DispatchOpen) (*dispatch.Order, error) { return orderFromProto(m) }
