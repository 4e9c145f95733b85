package courier

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// desk has the events that came, in order.
type desk struct {
	mu  sync.Mutex
	all []string
}

func (d *desk) came() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

func start(t *testing.T) (*Courier, *desk) {
	t.Helper()
	d := &desk{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, r.URL.Path+" "+r.Header.Get("X-Signature")+" "+string(body))
	}))
	t.Cleanup(server.Close)
	c, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.To(server.URL)
	return c, d
}

// send sends an event and returns the status of the answer.
func send(t *testing.T, c *Courier, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/hook", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Signature", "s")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

func TestEventsArePassedOnAsTheMannerIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manner     Manner
		then, ends []string
	}{
		"honest":    {Honest, []string{"1", "2", "3"}, nil},
		"losing":    {Losing, nil, nil},
		"twice":     {Twice, []string{"1", "1", "2", "2", "3", "3"}, nil},
		"reversing": {Reversing, []string{"2", "1"}, []string{"3"}},
	} {
		one, d := start(t)
		mend := one.Behave(c.manner)
		for _, body := range []string{"1", "2", "3"} {
			if got := send(t, one, body); got != http.StatusOK {
				t.Errorf("%s: what the processor heard: got %d, want 200", name, got)
			}
		}
		var want []string
		for _, body := range c.then {
			want = append(want, "/hook s "+body)
		}
		if got := d.came(); !slices.Equal(got, want) {
			t.Errorf("%s: passed on: got %q, want %q", name, got, want)
		}
		if err := mend(t.Context()); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
		for _, body := range append(c.ends, "4") {
			want = append(want, "/hook s "+body)
		}
		send(t, one, "4")
		if got := d.came(); !slices.Equal(got, want) {
			t.Errorf("%s: passed on at the end: got %q, want %q", name, got, want)
		}
		if got := one.Taken(); got != 4 {
			t.Errorf("%s: events that came: got %d, want 4", name, got)
		}
	}
}

func TestAnEventThatNobodyTakesIsNoneThatIsWell(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	c.To("http://127.0.0.1:1")
	if got := send(t, c, "1"); got != http.StatusBadGateway {
		t.Errorf("what the processor heard: got %d, want %d", got, http.StatusBadGateway)
	}
}
