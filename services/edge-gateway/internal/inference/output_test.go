package inference

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/services/edge-gateway/internal/rewrite"
)

func TestEventNamesAreWrittenWhenTheyAreNames(t *testing.T) {
	for name, want := range map[string]string{
		"image_generation.completed": "event: image_generation.completed\ndata: {}\n\n",
		"":                           "data: {}\n\n", "a\nb": "data: {}\n\n", "a b": "data: {}\n\n", "é": "data: {}\n\n",
		strings.Repeat("x", 64): "event: " + strings.Repeat("x", 64) + "\ndata: {}\n\n",
		strings.Repeat("x", 65): "data: {}\n\n",
	} {
		w := httptest.NewRecorder()
		out := newOutput(w, time.Minute)
		out.event(rewrite.Event{Name: name, JSON: []byte("{}")})
		if err := out.flush(); err != nil {
			t.Fatal(err)
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
