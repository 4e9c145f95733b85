package openai

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

type gotEvent struct {
	name, data string
	done       bool
}

// collect feeds the pieces and gives all events, that of an unfinished end
// included.
func collect(t testing.TB, limit int, pieces ...[]byte) ([]gotEvent, error) {
	t.Helper()
	r := SSEReader{MaxEvent: limit}
	var events []gotEvent
	keep := func(e Event) { events = append(events, gotEvent{string(e.Name), string(e.Data), e.Done}) }
	for _, piece := range pieces {
		r.Feed(piece)
		for {
			e, ok := r.Next()
			if !ok {
				break
			}
			keep(e)
		}
	}
	if e, ok := r.End(); ok {
		keep(e)
	}
	return events, r.Err()
}

func equalEvents(a, b []gotEvent) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestSSEReaderYieldsEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		feed string
		want []gotEvent
	}{
		"plain": {"data: {\"a\":1}\n\ndata: [DONE]\n\n", []gotEvent{{"", `{"a":1}`, false},
			{"", "[DONE]", true}}},
		"CRLF":               {"data: a\r\n\r\ndata: b\r\n\r\n", []gotEvent{{"", "a", false}, {"", "b", false}}},
		"CR":                 {"data: a\r\rdata: b\r\r", []gotEvent{{"", "a", false}, {"", "b", false}}},
		"comments":           {": keep-alive\n\n: x\ndata: a\n: y\n\n", []gotEvent{{"", "a", false}}},
		"several lines join": {"data: a\ndata: b\ndata:\ndata: c\n\n", []gotEvent{{"", "a\nb\n\nc", false}}},
		"no space":           {"data:a\n\ndata:  b\n\n", []gotEvent{{"", "a", false}, {"", " b", false}}},
		"names": {"event: error\ndata: {}\n\ndata: x\n\n",
			[]gotEvent{{"error", "{}", false}, {"", "x", false}}},
		"name without data": {"event: ping\n\ndata: x\n\n", []gotEvent{{"", "x", false}}},
		"field without colon": {"data\n\nfoo\nid: 3\nretry: 1\ndata: x\n\n",
			[]gotEvent{{"", "", false}, {"", "x", false}}},
		"byte order mark":        {"\uFEFFdata: a\n\n", []gotEvent{{"", "a", false}}},
		"no blank line at end":   {"data: a\n\ndata: [DONE]", []gotEvent{{"", "a", false}, {"", "[DONE]", true}}},
		"blank lines":            {"\n\n\r\n\r\ndata: a\n\n\n\n", []gotEvent{{"", "a", false}}},
		"done with spaces":       {"data:  [DONE] \n\n", []gotEvent{{"", " [DONE] ", true}}},
		"nothing":                {"", nil},
		"data in another's name": {"datax: a\ndata : b\n\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collect(t, 0, []byte(tc.feed))
			if err != nil || !equalEvents(got, tc.want) {
				t.Fatalf("got %+v, %v; want %+v", got, err, tc.want)
			}
			for cut := range tc.feed {
				again, err := collect(t, 0, []byte(tc.feed[:cut]), []byte(tc.feed[cut:]))
				if err != nil || !equalEvents(again, tc.want) {
					t.Fatalf("cut at %d: got %+v, %v; want %+v", cut, again, err, tc.want)
				}
			}
		})
	}
}

func TestSSEReaderRefusesAnEventAboveItsBound(t *testing.T) {
	for name, feed := range map[string]string{
		"a line without end":  "data: " + strings.Repeat("x", 200),
		"a long line":         "data: " + strings.Repeat("x", 200) + "\n\n",
		"many lines":          strings.Repeat("data: x\n", 50) + "\n",
		"comments after data": "data: x\n" + strings.Repeat(": y\n", 50) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(feed)} {
				events, err := collect(t, 100, split([]byte(feed), size)...)
				if !errors.Is(err, ErrEventTooLarge) || len(events) != 0 {
					t.Errorf("pieces of %d: %d events, %v", size, len(events), err)
				}
			}
		})
	}
	comments := strings.Repeat(": keep-alive\n\n", 100_000) + "data: a\n\n"
	if events, err := collect(t, 100, split([]byte(comments), 1000)...); err != nil || len(events) != 1 {
		t.Errorf("comments between events count: %d events, %v", len(events), err)
	}
}

func TestSSEReaderKeepsNoMoreThanBoundAndPiece(t *testing.T) {
	const bound, piece = 64 << 10, 4 << 10
	r := SSEReader{MaxEvent: bound}
	line := bytes.Repeat([]byte{'x'}, piece)
	for r.Err() == nil {
		r.Feed(line)
		r.Next()
		if cap(r.own) > 4*bound {
			t.Fatalf("buffer grew to %d", cap(r.own))
		}
	}
	r.Feed(line)
	if _, ok := r.Next(); ok || !errors.Is(r.Err(), ErrEventTooLarge) {
		t.Error("the error does not stick")
	}
}

func TestSSEReaderAllocatesNothingForContiguousEvents(t *testing.T) {
	frame := []byte(strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", 10))
	var r SSEReader
	if n := testing.AllocsPerRun(100, func() {
		r.Feed(frame)
		for {
			e, ok := r.Next()
			if !ok {
				return
			}
			if len(e.Data) == 0 {
				t.Fatal("no data")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}

func TestSSEReaderIsLinearInLineEnds(t *testing.T) {
	feed := bytes.Repeat([]byte{'\r'}, 8<<20)
	if events, err := collect(t, 0, feed); err != nil || len(events) != 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func TestSSEStreamReadsAnyReader(t *testing.T) {
	const feed = "data: a\n\ndata: b\n\ndata: [DONE]"
	for name, from := range map[string]io.Reader{
		"whole":    strings.NewReader(feed),
		"bytes":    iotest.OneByteReader(strings.NewReader(feed)),
		"data+EOF": iotest.DataErrReader(strings.NewReader(feed)),
	} {
		s := NewSSEStream(from, 0)
		for _, want := range []string{"a", "b", "[DONE]"} {
			if e, err := s.Next(); err != nil || string(e.Data) != want {
				t.Errorf("%s: %q, %v; want %q", name, e.Data, err, want)
			}
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: end is %v", name, err)
		}
	}
	broken := NewSSEStream(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(io.ErrUnexpectedEOF)),
		0)
	if _, err := broken.Next(); err != nil {
		t.Fatal(err)
	}
	if e, err := broken.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut event was given: %q, %v", e.Data, err)
	}
}

func TestAppendEventReadsBack(t *testing.T) {
	for _, data := range []string{`{"a":1}`, "", "a\nb", "a\r\nb\rc", "\n"} {
		wire := AppendEvent(nil, []byte(data))
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		got, err := collect(t, 0, wire)
		if err != nil || len(got) != 1 || got[0].data != want {
			t.Errorf("%q became %+v, %v", data, got, err)
		}
	}
	if got := string(AppendDone(AppendEvent(nil, []byte("{}")))); got != "data: {}\n\ndata: [DONE]\n\n" {
		t.Errorf("got %q", got)
	}
}

func split(b []byte, size int) [][]byte {
	var pieces [][]byte
	for len(b) > size {
		pieces = append(pieces, b[:size])
		b = b[size:]
	}
	return append(pieces, b)
}

func FuzzSSEReaderIsIndifferentToCuts(f *testing.F) {
	for _, feed := range []string{
		"data: a\n\n", "\uFEFFdata: a\r\n\r\nevent: x\rdata\r\r", "data: a\ndata: b\n: c\n\n\n",
		"data: 12345678901234567890\n\n", "event: error\ndata: {\"error\":{}}\n\ndata: [DONE]\n",
	} {
		f.Add([]byte(feed), uint16(3), uint16(5))
	}
	f.Fuzz(func(t *testing.T, feed []byte, a, b uint16) {
		const bound = 64
		want, wantErr := collect(t, bound, feed)
		check := func(pieces ...[]byte) {
			got, err := collect(t, bound, pieces...)
			if !equalEvents(got, want) || !errors.Is(err, wantErr) {
				t.Fatalf("cut: %+v, %v; whole: %+v, %v", got, err, want, wantErr)
			}
		}
		check(split(bytes.Clone(feed), 1)...)
		i, j := int(a)%(len(feed)+1), int(b)%(len(feed)+1)
		i, j = min(i, j), max(i, j)
		check(feed[:i], feed[i:j], feed[j:])
	})
}

func TestMemoryOfALargeEventIsGivenBack(t *testing.T) {
	for name, event := range map[string]string{
		"one line":  "data: " + strings.Repeat("x", 4<<20) + "\n\n",
		"two lines": "data: a\ndata: " + strings.Repeat("x", 4<<20) + "\n\n",
	} {
		r := SSEReader{MaxEvent: 8 << 20}
		events := 0
		feed := func(piece string) {
			r.Feed([]byte(piece))
			for _, ok := r.Next(); ok; _, ok = r.Next() {
				events++
			}
		}
		feed(event[:3<<20])
		if n := r.Buffered(); n != 3<<20 {
			t.Errorf("%s: %d bytes wait", name, n)
		}
		feed(event[3<<20:] + "data: y\n\ndata: half")
		if events != 2 || r.Buffered() != len("data: half") || cap(r.own) > keepBuffer || cap(r.joined) > keepBuffer {
			t.Errorf("%s: %d events, %d bytes wait in %d and %d", name, events, r.Buffered(), cap(r.own), cap(r.joined))
		}
	}
}

func TestOfALargeNameLittleIsKept(t *testing.T) {
	r := SSEReader{MaxEvent: 8 << 20}
	r.Feed([]byte("event: " + strings.Repeat("x", 4<<20) + "\ndata: y\n\nevent: short\ndata: half"))
	event, ok := r.Next()
	if !ok || string(event.Name) != strings.Repeat("x", 65) {
		t.Errorf("a name of %d bytes, %v", len(event.Name), ok)
	}
	if _, ok := r.Next(); ok || cap(r.name) > 1<<10 || cap(r.own) > keepBuffer {
		t.Errorf("%d bytes are kept for names, %d for what waits", cap(r.name), cap(r.own))
	}
}

func TestBufferedCountsJoinedLinesToo(t *testing.T) {
	r := SSEReader{MaxEvent: 8 << 20}
	line := "data: " + strings.Repeat("x", 1<<20) + "\n"
	r.Feed([]byte(line + line))
	_, ok := r.Next()
	if n := r.Buffered(); ok || n < 4<<20 {
		t.Errorf("%d bytes are held of 2 MiB and their joined copy", n)
	}
	r.Feed([]byte("\n"))
	if event, ok := r.Next(); !ok || len(event.Data) != 2<<20+1 || r.Buffered() < len(event.Data) {
		t.Errorf("the event of %d bytes is not counted: %d, %v", len(event.Data), r.Buffered(), ok)
	}
	if _, ok := r.Next(); ok || r.Buffered() != 0 {
		t.Errorf("%d bytes are held of nothing", r.Buffered())
	}
}

func BenchmarkSSEReader(b *testing.B) {
	frame := []byte(
		strings.Repeat(
			"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hello\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", 16))
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	var r SSEReader
	for b.Loop() {
		r.Feed(frame)
		for {
			if _, ok := r.Next(); !ok {
				break
			}
		}
	}
}
