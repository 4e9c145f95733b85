// Package actor names who acts in a context, for audit entries.
//
// A gRPC server puts the operator of a call into its context (see serve.Operator). A
// store writes the actor down in the transaction that makes the change. The domain
// between the two passes the context on and knows of neither.
package actor

import (
	"context"
	"strings"
)

// Operator is the actor when the operator's name is not known. Otherwise the actor is
// operator:name.
const Operator = "operator"

type key struct{}

// WithOperator returns a context in which an operator acts under a name. An empty name
// changes nothing.
func WithOperator(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, name)
}

// OfOperator returns the actor of an operator's call.
func OfOperator(ctx context.Context) string {
	if name, ok := ctx.Value(key{}).(string); ok {
		return Operator + ":" + name
	}
	return Operator
}

// IsPerson reports whether an actor is an operator who signed in. Only such an operator's
// name, name@id, has an '@'.
func IsPerson(of string) bool {
	return strings.HasPrefix(of, Operator+":") && strings.Contains(of, "@")
}
