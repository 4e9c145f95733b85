package dialguard

import (
	"net/http"
	"testing"
)

func TestAMarkOfAHubIsKnownWhateverStandsBeforeOrBehindIt(t *testing.T) {
	t.Parallel()
	marked := http.Header{}
	MarkHub(marked)
	if !HubMarked(marked) {
		t.Error("both marks: got no mark, want one")
	}
	for _, c := range []struct {
		header http.Header
		want   bool
	}{
		{http.Header{"User-Agent": {"svc-hub"}}, true},
		{http.Header{"Cdn-Loop": {"svc-hub"}}, true},
		{http.Header{"User-Agent": {"curl/8"}, "Cdn-Loop": {"cloudflare; subreqs=1", `other;a="b", SVC-Hub ; x=1`}}, true},
		{http.Header{"User-Agent": {"svc-hub-of-another"}, "Cdn-Loop": {"cloudflare, svc-hub2"}}, false},
		{http.Header{}, false},
	} {
		if got := HubMarked(c.header); got != c.want {
			t.Errorf("%v: got %v, want %v", c.header, got, c.want)
		}
	}
}
