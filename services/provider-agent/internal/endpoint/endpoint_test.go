package endpoint

import (
	"strings"
	"testing"
)

func TestCapabilitiesAreCheckedByName(t *testing.T) {
	if err := Check(Capabilities()); err != nil {
		t.Errorf("the default: %v", err)
	}
	for text, want := range map[string]string{
		"images":                           "",
		"chat stream cancel logprobs":      "",
		"transcriptions stream":            "",
		"":                                 "at least one",
		"stream cancel":                    "at least one",
		"chat Images":                      `"Images" is none of`,
		"chat chat":                        "twice",
		"chat embeddings images audio_in ": `"audio_in" is none of`,
	} {
		err := Check(strings.Fields(text))
		if (err == nil) != (want == "") {
			t.Errorf("%q: err == nil: got %t, want %t", text, err == nil, want == "")
		} else if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %q, want %q in it", text, err, want)
		}
	}
}

func TestOnlyWhatIsDeclaredIsServedButForChat(t *testing.T) {
	for _, e := range all() {
		if got := e.Declared([]string{"images"}); got != (e == Chat || e == Images) {
			t.Errorf("%v: got %t, want %t", e, got, e == Chat || e == Images)
		}
	}
}

func TestEndpointsHaveTheirOwnPathsAndNames(t *testing.T) {
	paths, names := map[string]bool{}, map[string]bool{}
	for _, e := range all() {
		paths[e.Path()], names[e.String()] = true, true
	}
	if want := len(all()); len(paths) != want {
		t.Errorf("len(paths): got %d, want %d, in %v", len(paths), want, paths)
	} else if want := len(all()); len(names) != want {
		t.Errorf("len(names): got %d, want %d, in %v", len(names), want, names)
	}
}
