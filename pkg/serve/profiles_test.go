package serve

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
)

func get(t *testing.T, h http.Handler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code
}

func TestWaitingIsSampledOnlyWhileAProfileIsTaken(t *testing.T) {
	on, during := false, []bool{}
	h := &sampled{sample: func(to bool) { on = to }, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		during = append(during, on)
	})}
	get(t, h, "/?seconds=1")
	if on {
		t.Error("after a profile: got sampling, want none")
	}
	get(t, h, "/")
	if !during[0] {
		t.Error("while a profile of a second is taken: got no sampling, want some")
	}
	if during[1] {
		t.Error("while what there is is shown: got sampling, want none")
	}
}

func TestOneProfileOfAKindIsTakenAtATime(t *testing.T) {
	h := &sampled{sample: func(bool) {}}
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := get(t, h, "/?seconds=1"); got != http.StatusConflict {
			t.Errorf("a second profile: got status %d, want %d", got, http.StatusConflict)
		}
	})
	if got := get(t, h, "/?seconds=1"); got != http.StatusOK {
		t.Errorf("the first profile: got status %d, want %d", got, http.StatusOK)
	}
	h.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if got := get(t, h, "/?seconds=1"); got != http.StatusOK {
		t.Errorf("the next profile: got status %d, want %d", got, http.StatusOK)
	}
}

func TestAProfileOfLocksLeavesTheProcessAsItWas(t *testing.T) {
	if got := get(t, profileHandler(), "/debug/pprof/mutex?seconds=1"); got != http.StatusOK {
		t.Errorf("got status %d, want %d", got, http.StatusOK)
	}
	if got := runtime.SetMutexProfileFraction(-1); got != 0 {
		t.Errorf("waits for locks sampled afterwards: got one of %d, want none", got)
	}
}
