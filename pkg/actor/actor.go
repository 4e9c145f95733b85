// Package actor says who acts in a context, for audit entries.
//
// A gRPC server puts the operator of a call into its context (see serve.Operator),
// and a store writes the actor down in the transaction that makes the change. The
// domain between the two hands the context on and knows of neither.
package actor

import "context"

// Operator is the actor where the operator's name is not known: an operator whose
// name is known is operator:name.
const Operator = "operator"

type key struct{}

// WithOperator has what operators do in ctx be written down under a name; an empty
// one changes nothing.
func WithOperator(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, name)
}

// OfOperator is the actor of an operator's call.
func OfOperator(ctx context.Context) string {
	if name, ok := ctx.Value(key{}).(string); ok {
		return Operator + ":" + name
	}
	return Operator
}
