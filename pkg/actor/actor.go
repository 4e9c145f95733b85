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

// WithOperator returns a context in which an operator acts under a name. An empty
// name means an operator whose name is not known; it replaces no name that ctx has.
func WithOperator(ctx context.Context, name string) context.Context {
	if name == "" && InOperatorsCall(ctx) {
		return ctx
	}
	return context.WithValue(ctx, key{}, name)
}

// InOperatorsCall reports whether an operator acts in a context, with or without a name. Stores use
// it to tell an operator's call from the platform's own work.
func InOperatorsCall(ctx context.Context) bool {
	_, ok := ctx.Value(key{}).(string)
	return ok
}

// OfOperator returns the actor of an operator's call.
func OfOperator(ctx context.Context) string {
	if name, _ := ctx.Value(key{}).(string); name != "" {
		return Operator + ":" + name
	}
	return Operator
}

// IsOperator reports whether an actor is an operator, with or without a name.
func IsOperator(of string) bool { return of == Operator || strings.HasPrefix(of, Operator+":") }

// OperatorName returns the name in the actor of an operator; empty where the name is not known.
func OperatorName(of string) string { return strings.TrimPrefix(strings.TrimPrefix(of, Operator), ":") }

// IsPerson reports whether an actor is an operator who signed in. Only such an operator's
// name, name@id, has an '@'.
func IsPerson(of string) bool {
	return strings.HasPrefix(of, Operator+":") && strings.Contains(of, "@")
}
