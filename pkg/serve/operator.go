package serve

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// operatorKey is the metadata key of an operator's name. Gateways set it, and never pass
// it on from their own callers. Callers decides which service may make an operator's call
// at all.
const operatorKey = "x-svc-operator"

// operatorSessionKey is the metadata key of the session that an operator's call is made in.
const operatorSessionKey = "x-svc-operator-session"

// maxOperator bounds a name in bytes.
const maxOperator = 64

// OperatorMetadata returns the metadata of a call that is made for an operator.
func OperatorMetadata(name string) metadata.MD { return metadata.Pairs(operatorKey, name) }

// Operator returns the name of the operator for whom the call in ctx is made, for audit
// entries. It is empty when there is none, or when it is not a name that gateways give.
func Operator(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, operatorKey)
	if len(values) != 1 || len(values[0]) > maxOperator {
		return ""
	}
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-@"
	if strings.Trim(values[0], allowed) != "" {
		return ""
	}
	return values[0]
}

// OperatorCall is what a gateway says of an operator's call to a service that keeps operators.
type OperatorCall struct {
	// Name is empty while nobody has signed in, and Session also for a caller with a token of
	// the gateway's settings.
	Name, Session string
	// Network is a digest of the network that the call comes from.
	Network string
}

// OperatorCallMetadata returns the metadata of an operator's call.
func OperatorCallMetadata(c OperatorCall) metadata.MD {
	md := metadata.MD{}
	for key, value := range map[string]string{operatorKey: c.Name, operatorSessionKey: c.Session, networkKey: c.Network} {
		if value != "" {
			md.Set(key, value)
		}
	}
	return md
}

// OperatorCaller returns what the gateway says of the call in ctx. A value that no gateway
// gives is empty.
func OperatorCaller(ctx context.Context) OperatorCall {
	return OperatorCall{Operator(ctx), only(ctx, operatorSessionKey), only(ctx, networkKey)}
}

// only returns the one value of a metadata key, if it is bounded.
func only(ctx context.Context, key string) string {
	values := metadata.ValueFromIncomingContext(ctx, key)
	if len(values) != 1 || len(values[0]) > maxCallerID {
		return ""
	}
	return values[0]
}
