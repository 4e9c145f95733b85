package external

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/dialguard"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

func TestTheModelsNameIsReplacedWhereverABodyIsSplit(t *testing.T) {
	t.Parallel()
	const body, want = `{"model":"acme/one","x":1}`, `{"model":"local \"1\"","x":1}`
	for i := range len(body) {
		for j := i; j < len(body); j++ {
			pieces := [][]byte{[]byte(body[:i]), []byte(body[i:j]), []byte(body[j:])}
			out, size, err := spliced(pieces, 9, 10, `local "1"`, false)
			if err != nil {
				t.Fatalf("split at %d and %d: got the error %v, want none", i, j, err)
			}
			if got := string(bytes.Join(out, nil)); got != want {
				t.Fatalf("split at %d and %d: got %q, want %q", i, j, got, want)
			}
			if size != int64(len(want)) {
				t.Fatalf("split at %d and %d: size: got %d, want %d", i, j, size, len(want))
			}
		}
	}
	for _, bad := range [][2]int{{-1, 3}, {0, 0}, {20, 10}, {0, 3}} {
		if _, _, err := spliced([][]byte{[]byte(body)}, bad[0], bad[1], "x", false); !errors.Is(err, errSpan) {
			t.Errorf("%v: got the error %v, want %v", bad, err, errSpan)
		}
	}
	out, _, _ := spliced([][]byte{[]byte("a name b")}, 2, 4, "local", true)
	if got := string(bytes.Join(out, nil)); got != "a local b" {
		t.Errorf("a form: got %q, want %q", got, "a local b")
	}
}

func TestAListOfModelsIsReadOrRefused(t *testing.T) {
	t.Parallel()
	models := []Model{{ID: "a", Local: "llama3"}, {ID: "b", Local: "other"}}
	names, _ := readList([]byte(`{"object":"list","data":[{"id":"llama3:latest"},{"id":"x"}]}`))
	if got := listed(models, names); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v, want the model a", got)
	}
	if names, ok := readList([]byte(`{"object":"list","data":null}`)); !ok {
		t.Error("an empty list is taken for none")
	} else if got := listed(models, names); len(got) != 0 {
		t.Errorf("an empty list: got %v, want no model", got)
	}
	for _, bad := range []string{"", "[]", "<html>", `{"data":7}`, `{}`} {
		if _, ok := readList([]byte(bad)); ok {
			t.Errorf("%q is taken for a list", bad)
		}
	}
}

// A server may have run a request, and billed its owner for it, although the connection ends before
// its answer. The gateway decides whether another provider is asked.
func TestARequestThatAServerReadIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	var read atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if read.Add(1) == 1 {
			_, _ = io.WriteString(w, "{}") // on a connection that is kept
			return
		}
		panic(http.ErrAbortHandler) // closes it without an answer
	}))
	t.Cleanup(s.Close)
	client := (&dialguard.Dialer{Allow: netip.Addr.IsLoopback}).KeepingClient(dialguard.Kept{Idle: 1, IdleFor: time.Minute,
		HeaderBytes: 4 << 10})
	j := job{endpoint: &Endpoint{BaseURL: s.URL, Models: []Model{{ID: "acme/one", Local: "one"}}},
		Request: &session.Request{Kind: meter.Chat, Model: "acme/one", ModelOffset: 9, ModelLength: 10},
		body:    [][]byte{[]byte(`{"model":"acme/one"}`)}}
	if end := forward(t.Context(), client, j, io.Discard); end.Error != "" {
		t.Fatalf("the first request: got %q, want no error", end.Error)
	}
	if end := forward(t.Context(), client, j, io.Discard); end.Error == "" {
		t.Error("the second request: got no error, want one")
	}
	if got := read.Load(); got != 2 {
		t.Errorf("requests that the server read: got %d, want 2", got)
	}
}

// FuzzReadList reads lists of any content and never panics.
func FuzzReadList(f *testing.F) {
	f.Add([]byte(`{"object":"list","data":[{"id":"a"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if names, ok := readList(body); !ok && names != nil {
			t.Fatalf("got names of what is no list: %q", names)
		}
	})
}
