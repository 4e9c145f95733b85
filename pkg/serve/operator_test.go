package serve

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
)

func TestOnlyOnePlainNameIsAnOperators(t *testing.T) {
	for want, md := range map[string]metadata.MD{
		"alice@ops": OperatorMetadata("alice@ops"),
	} {
		if got := Operator(metadata.NewIncomingContext(t.Context(), md)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, md := range map[string]metadata.MD{
		"none": {}, "two": metadata.Pairs(operatorKey, "a", operatorKey, "b"), "markup": OperatorMetadata("<b>"),
		"capitals": OperatorMetadata("Alice"), "long": OperatorMetadata(strings.Repeat("a", maxOperator+1)),
	} {
		if got := Operator(metadata.NewIncomingContext(t.Context(), md)); got != "" {
			t.Errorf("%s: got %q, want no name", name, got)
		}
	}
	if got := Operator(context.Background()); got != "" {
		t.Errorf("got %q outside of a call, want no name", got)
	}
}

func TestAServiceGetsWhatTheGatewaySaysOfAnOperatorsCall(t *testing.T) {
	for name, want := range map[string]OperatorCall{
		"signed in": {Name: "alice@ops", Session: "s", Network: "n"}, "nobody yet": {Network: "n"},
		"a machine": {Name: "bot"},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), OperatorCallMetadata(want))
		if got := OperatorCaller(ctx); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	odd := metadata.Pairs(operatorSessionKey, "a", operatorSessionKey, "b", networkKey, strings.Repeat("n", maxCallerID+1))
	if got := OperatorCaller(metadata.NewIncomingContext(t.Context(), odd)); got != (OperatorCall{}) {
		t.Errorf("two sessions and a long network: got %+v, want none", got)
	}
}
