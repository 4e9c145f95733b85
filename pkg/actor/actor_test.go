package actor

import "testing"

func TestAnOperatorIsNamedWhereTheNameIsKnown(t *testing.T) {
	for name, want := range map[string]string{"": "operator", "alice@ops": "operator:alice@ops"} {
		if got := OfOperator(WithOperator(t.Context(), name)); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}
