package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// reported serves an order and returns what the attempt reports.
func reported(t testing.TB, o *Order, answer []byte) Report {
	t.Helper()
	return reportedBy(t, "", o, answer)
}

// reportedBy is reported for an agent that declared what its engine calls the model.
func reportedBy(t testing.TB, declared string, o *Order, answer []byte) Report {
	t.Helper()
	s := &scripted{pieces: [][]byte{answer}, end: session.End{Status: 200, Complete: true}, ready: make(chan struct{}),
		named: declared}
	close(s.ready)
	var all []Report
	d := New(Config{}, Env{
		Find:  func(*Order) (Session, bool) { return s, true },
		After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
	}, &ledger{}, func(r Report) { all = append(all, r) }, clock.System, slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.Open()
	if err := d.Serve(t.Context(), o, &listener{commits: make(chan struct{})}); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if len(all) != 1 {
		t.Fatalf("len(all): got %d, want 1", len(all))
	}
	return all[0]
}

// Every kind of answer may name a model, whole or in events, in whatever shape.
func TestHostile35_EveryKindOfAnswerIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		kind   meter.Kind
		stream bool
		answer string
	}{
		{meter.Chat, false, `{"model":%s,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`},
		{meter.Chat, true, `data: {"model":%s,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}` +
			"\n\ndata: [DONE]\n\n"},
		{meter.Chat, true, `data: {"choices":[{"index":0,"delta":{"role":"assistant"}}],"mod\u0065l":%s}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"},
		{meter.Embeddings, false, `{"model":%s,"data":[{"embedding":[1]},{"embedding":[2]}]}`},
		{meter.Images, false, `{"data":[{"url":"x"}],"model":%s}`},
		{meter.Images, true, `data: {"type":"image_generation.completed","b64_json":"QQ==","model":%s}` +
			"\n\ndata: [DONE]\n\n"},
		{meter.Transcriptions, false, `{"text":"x","model":%s}`},
		{meter.Transcriptions, true, `data: {"type":"transcript.text.done","text":"x","model":%s}` + "\n\n"},
	} {
		for raw, want := range map[string]string{`"cheap\/other"`: "cheap/other", `"acme/m"`: "", `"acme\/m"`: "",
			`"tiny"`: "", `null`: "", `["x"]`: ""} {
			o := orderOf(c.kind, c.stream, false)
			o.Body, o.ModelOffset, o.ModelLength = []byte(`{"model":"tiny"}`), 9, 6
			if got := reported(t, o, fmt.Appendf(nil, c.answer, raw)); got.AnsweredAs != want {
				t.Errorf("%v %v %s: AnsweredAs: got %q, want %q", c.kind, c.stream, raw, got.AnsweredAs, want)
			} else if got.Outcome != Served {
				t.Errorf("%v %v %s: Outcome: got %v, want %v", c.kind, c.stream, raw, got.Outcome, Served)
			}
		}
	}
}

// A provider may say beforehand what its engine calls the model.
func TestHostile35_TheNameThatWasDeclaredMayStand(t *testing.T) {
	for raw, want := range map[string]string{`"llama3:8b"`: "", `"llam\u00613:8b"`: "", `"llama3:8b "`: "", `"acme/m"`: "",
		`"other"`: "other"} {
		answer := fmt.Appendf(nil, `{"model":%s,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, raw)
		if got := reportedBy(t, "llama3:8b", orderOf(meter.Chat, false, false), answer); got.AnsweredAs != want {
			t.Errorf("%s: got %q, want %q", raw, got.AnsweredAs, want)
		}
	}
}

// A text that is no JSON names nothing, and the name in a form stands without quotes.
func TestHostile35_FormsAndTextAreNotMistaken(t *testing.T) {
	o := orderOf(meter.Transcriptions, false, true)
	o.Body, o.ModelOffset, o.ModelLength = []byte("tiny"), 0, 4
	if got := reported(t, o, []byte(`"model":"other"`)); got.AnsweredAs != "" {
		t.Errorf(`AnsweredAs: got %q, want ""`, got.AnsweredAs)
	} else if got.Outcome != Served {
		t.Errorf("Outcome: got %v, want %v", got.Outcome, Served)
	}
	o = orderOf(meter.Transcriptions, false, false)
	o.Body, o.ModelOffset, o.ModelLength = []byte("tiny"), 0, 4
	if got := reported(t, o, []byte(`{"text":"x","model":"tiny"}`)); got.AnsweredAs != "" {
		t.Errorf(`AnsweredAs: got %q, want ""`, got.AnsweredAs)
	}
}

func TestHostile35_NamesThatAgreeCostNoAllocation(t *testing.T) {
	for _, raw := range []string{`"acme/m"`, `"acme\/m"`, `"tiny"`, `"t\u0069ny"`, `null`} {
		n := modelNames{catalog: "acme/m", asked: "tiny"}
		event := []byte(`{"model":` + raw + `,"choices":[]}`)
		at := jsonscan.Span{Start: 9, End: 9 + len(raw)}
		n.look(event, at)
		if allocs := testing.AllocsPerRun(100, func() { n.look(event, at) }); allocs != 0 {
			t.Errorf("%s: allocs: got %v, want 0", raw, allocs)
		} else if n.other != "" {
			t.Errorf(`%s: n.other: got %q, want ""`, raw, n.other)
		}
	}
}

// A name of any length is read only as far as it could agree.
func TestHostile35_LongNamesAreCut(t *testing.T) {
	for _, unit := range []string{"x", `\n`, `\u00e9`, "é", `\ud83d\ude00`, `\\`} {
		for short := range 8 {
			raw := []byte(`"` + strings.Repeat("a", short) + strings.Repeat(unit, 100_000) + `"`)
			if !json.Valid(head(raw)) {
				t.Fatalf("%s is cut: json.Valid(head(raw)): got false, want true", unit)
			}
			if len(head(raw)) > maxRawName+6 {
				t.Fatalf("%s is cut: len(head(raw)): got %d, want at most %d, in %q", unit, len(head(raw)), maxRawName+6, head(raw))
			}
			n := modelNames{catalog: "acme/m"}
			n.look(raw, jsonscan.Span{End: len(raw)})
			if got := utf8.RuneCountInString(n.other); got > maxAnsweredAs {
				t.Errorf("%s: characters: utf8.RuneCountInString(n.other): got %d, want at most %d", unit, got, maxAnsweredAs)
			} else if unit == "x" && got != maxAnsweredAs {
				t.Errorf(`%s: characters: utf8.RuneCountInString(n.other): got %d, want %d, where unit == "x"`, unit, got,
					maxAnsweredAs)
			}
		}
	}
}

// FuzzNames has engines give any name: names that agree by encoding/json are never
// flagged, and a flagged name is bounded and printable.
func FuzzNames(f *testing.F) {
	for _, raw := range []string{`"acme/m"`, `"acme\/m"`, `"tiny"`, `"\u0061cme/m"`, `"other"`, `null`, `1`, `{}`, `""`,
		`" acme/m "`, "\"\xff\"", `"\ud800"`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if raw = bytes.TrimSpace(raw); !json.Valid(raw) {
			return
		}
		n := modelNames{catalog: "acme/m", asked: "tiny"}
		for range 2 {
			n.look(raw, jsonscan.Span{End: len(raw)})
		}
		var text string
		if json.Unmarshal(raw, &text) != nil || text == "acme/m" || text == "tiny" {
			if n.other != "" {
				t.Fatalf(`n.other: got %q, want "", with %q`, n.other, raw)
			}
			return
		}
		if !utf8.ValidString(n.other) || utf8.RuneCountInString(n.other) > maxAnsweredAs ||
			strings.ContainsFunc(n.other, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q is flagged as %q", raw, n.other)
		}
		if clean := session.Clean(text, maxAnsweredAs); len(raw) <= maxRawName && clean != "acme/m" && clean != "tiny" &&
			n.other != clean {
			t.Fatalf("%q is flagged: got %q, want %q", raw, n.other, clean)
		}
	})
}
