package contracts_test

import (
	"bytes"
	"testing"

	"svc.internal/services/settlement/contracts"
)

func TestTheCodeOnAChainIsThatOfItsArtifact(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		code := w.code()
		if !collateral(t).Matches(code) {
			t.Error("the code matches its artifact: got false, want true")
		}
	})
}

func TestOtherCodeDoesNotMatch(t *testing.T) {
	t.Parallel()
	a, w := collateral(t), dollars(t)
	code := w.code()
	free := 0 // bytes that belong to immutable values
	for at := range code {
		changed := bytes.Clone(code)
		changed[at] ^= 1
		if a.Matches(changed) {
			free++
		}
	}
	want := 0
	for _, p := range a.Immutables {
		want += p.Length
	}
	if free != want {
		t.Errorf("bytes that may differ: got %d, want the %d of immutable values", free, want)
	}
	for name, other := range map[string][]byte{"no code": nil, "a longer code": append(code, 0),
		"another contract": w.token.code()} {
		if a.Matches(other) {
			t.Errorf("%s matches: got true, want false", name)
		}
	}
}

func TestABrokenArtifactIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `{"creation":"60"}`, `{"runtime":"0x6"}`, `{"runtime":"0x6000","immutables":[{"start":1,"length":2}]}`,
		`{"runtime":"0x6000","immutables":[{"start":-1,"length":1}]}`,
		`{"runtime":"0x6000","immutables":[{"start":0,"length":0}]}`,
		`{"runtime":"0x6000","immutables":[{"start":1,"length":1},{"start":0,"length":1}]}`,
	} {
		if _, err := contracts.Parse([]byte(text)); err == nil {
			t.Errorf("the artifact %q: got no error, want one", text)
		}
	}
}
