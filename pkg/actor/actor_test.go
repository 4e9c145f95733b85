package actor

import "testing"

func TestAnOperatorIsNamedWhereTheNameIsKnown(t *testing.T) {
	for name, want := range map[string]string{"": "operator", "alice@ops": "operator:alice@ops"} {
		if got := OfOperator(WithOperator(t.Context(), name)); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestAPersonHasAnID(t *testing.T) {
	for of, want := range map[string]bool{
		"operator:alice@0189": true, "operator:bot": false, "operator": false, "platform": false, "user@0189": false,
	} {
		if got := IsPerson(of); got != want {
			t.Errorf("%q: got %v, want %v", of, got, want)
		}
	}
}
