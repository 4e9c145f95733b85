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
