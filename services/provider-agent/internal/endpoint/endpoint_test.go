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
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestOnlyWhatIsDeclaredIsServedButForChat(t *testing.T) {
	for _, e := range all() {
		if got := e.Declared([]string{"images"}); got != (e == Chat || e == Images) {
			t.Errorf("%v: %v", e, got)
		}
	}
}

func TestEndpointsHaveTheirOwnPathsAndNames(t *testing.T) {
	paths, names := map[string]bool{}, map[string]bool{}
	for _, e := range all() {
		paths[e.Path()], names[e.String()] = true, true
	}
	if len(paths) != len(all()) || len(names) != len(all()) {
		t.Errorf("%v %v", paths, names)
	}
}
