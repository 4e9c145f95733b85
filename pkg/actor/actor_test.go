package actor

import "testing"

func TestAnOperatorIsNamedWhereTheNameIsKnown(t *testing.T) {
	for name, want := range map[string]string{"": "operator", "alice@ops": "operator:alice@ops"} {
		if got := OfOperator(WithOperator(t.Context(), name)); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestACallIsAnOperatorsWithoutANameToo(t *testing.T) {
	if InOperatorsCall(t.Context()) {
		t.Error("no call: got an operator's")
	}
	nameless := WithOperator(t.Context(), "")
	if !InOperatorsCall(nameless) {
		t.Error("a call without a name: got no operator's")
	}
	if got, want := OfOperator(WithOperator(WithOperator(nameless, "alice"), "")), "operator:alice"; got != want {
		t.Errorf("an empty name after alice: got %s, want %s", got, want)
	}
}

func TestOperatorsAreToldFromOthers(t *testing.T) {
	for of, want := range map[string]bool{
		"operator": true, "operator:bot": true, "operators": false, "platform": false, "common cause": false,
	} {
		if got := IsOperator(of); got != want {
			t.Errorf("%q: got %v, want %v", of, got, want)
		}
	}
}

func TestAnOperatorsActorHasItsName(t *testing.T) {
	for of, want := range map[string]string{"operator:alice@0189": "alice@0189", "operator:bot": "bot", "operator": ""} {
		if got := OperatorName(of); got != want {
			t.Errorf("%q: got %q, want %q", of, got, want)
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
