package provideragent

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
)

// What an engine must not be made to do reaches none, and the hub may ask another
// provider.
func TestWhatTheOwnerDoesNotAllowNeverReachesTheEngine(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{})
	_, hub, _ := start(t, Model{ModelID: "m", EngineURL: engine.URL + "/v1"})
	s := hub.AcceptLive()
	for body, want := range map[string]int32{
		`{"model":"m","messages":[],"kv_transfer_params":{"remote_host":"10.0.0.1"}}`: http.StatusNotImplemented,
		`{"model":"m","messages":[],"chat_template":"{{ x }}"}`:                       http.StatusNotImplemented,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url",` +
			`"image_url":{"url":"http://169.254.169.254/"}}]}]}`: http.StatusBadRequest,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url",` +
			`"image_url":{"url":"file:///etc/passwd"}}]}]}`: http.StatusBadRequest,
	} {
		answer, end := s.Open("m", body).Answer()
		switch {
		case end.GetEngineStatus() != want:
			t.Errorf("%s: END: end.GetEngineStatus(): got %d, want %d", body, end.GetEngineStatus(), want)
		case !end.GetComplete():
			t.Errorf("%s: END: end.GetComplete(): got false, want true, with %v", body, end)
		case !strings.Contains(string(answer), `"error"`):
			t.Errorf("%s: answer: got %q, want %q in it", body, string(answer), `"error"`)
		}
	}
	if got := len(engine.Requests()); got != 0 {
		t.Errorf("requests reached the engine: got %d, want 0", got)
	}
}
