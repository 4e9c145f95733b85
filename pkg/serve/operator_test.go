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
