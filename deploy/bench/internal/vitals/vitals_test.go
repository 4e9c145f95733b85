package vitals

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAGaugeIsSummedOverItsLabelsAndNoOther(t *testing.T) {
	text := []byte("# HELP x some\n# TYPE x gauge\nx{a=\"1 } 2\"} 3\nx{a=\"2\"} 4.5 1700000000\nx_total 100\nxy 7\n")
	if v, err := gauge(text, "x"); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if v != 7.5 {
		t.Errorf(`gauge(text, "x"): got %v, want 7.5`, v)
	}
	if v, err := gauge([]byte("x 9\n"), "x"); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if v != 9 {
		t.Errorf("gauge(…): got %v, want 9", v)
	}
	for _, bad := range []string{"", "y 1\n", "x \n", "x one\n", "x{a=\"1\"}\n"} {
		if v, err := gauge([]byte(bad), "x"); err == nil {
			t.Errorf("%q is %v", bad, v)
		}
	}
}

func TestWhatIsLeftIsReadFromAProfile(t *testing.T) {
	text := []byte(
		"heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 5\n# HeapAlloc = 120\n# HeapSys = 999\n" +
			"# Stack = 30 / 40\n")
	if l, err := live(text); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if l != (Live{Heap: 120, Stacks: 30}) {
		t.Errorf("live(text): got %+v, want %+v", l, Live{Heap: 120, Stacks: 30})
	}
	for _, bad := range []string{"", "\n# HeapAlloc = 1\n", "\n# HeapAlloc = x\n# Stack = 1 / 2\n", "\n# HeapAlloc = "} {
		if l, err := live([]byte(bad)); err == nil {
			t.Errorf("%q is %+v", bad, l)
		}
	}
}

func FuzzReadingWhatAProcessSays(f *testing.F) {
	f.Add([]byte("x{a=\"1\"} 3\n# HeapAlloc = 120\n# Stack = 30 / 40\n"))
	f.Add([]byte("x}\nx "))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = gauge(text, "x")
		_, _ = live(text)
	})
}

func TestAGaugeIsAwaitedUntilItIsThatMuch(t *testing.T) {
	looks := 0
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		looks++
		fmt.Fprintf(w, "sessions %d\n", looks)
	}))
	defer program.Close()
	p := Process{Admin: program.URL}
	if err := p.AwaitGauge(t.Context(), "sessions", 3, time.Minute); err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	if looks != 3 {
		t.Errorf("looks: got %d, want 3", looks)
	}
	if err := p.AwaitGauge(t.Context(), "sessions", 0, 0); err == nil {
		t.Error("a gauge that has passed is awaited: got no error")
	} else if !strings.Contains(err.Error(), "sessions is 4, not 0") {
		t.Errorf("got the error %v, want what the gauge is", err)
	}
}
