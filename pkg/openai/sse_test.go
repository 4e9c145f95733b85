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
				if !errors.Is(err, ErrEventTooLarge) {
					t.Errorf("pieces of %d: got the error %v, want %v", size, err, ErrEventTooLarge)
				} else if len(events) != 0 {
					t.Errorf("pieces of %d: len(events): got %d, want 0", size, len(events))
				}
			}
		})
	}
	comments := strings.Repeat(": keep-alive\n\n", 100_000) + "data: a\n\n"
	if events, err := collect(t, 100, split([]byte(comments), 1000)...); err != nil {
		t.Errorf("comments between events count: got the error %v, want none", err)
	} else if len(events) != 1 {
		t.Errorf("comments between events count: len(events): got %d, want 1", len(events))
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
			t.Fatalf("the buffer grew to: got %d, want at most %d", cap(r.own), 4*bound)
		}
	}
	r.Feed(line)
	if _, ok := r.Next(); ok {
		t.Error("after an error: ok of r.Next(): got true, want false")
	} else if got := r.Err(); !errors.Is(got, ErrEventTooLarge) {
		t.Errorf("after an error: r.Err(): got the error %v, want %v", got, ErrEventTooLarge)
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
		t.Errorf("allocations per frame: got %v, want 0", n)
	}
}

func TestSSEReaderIsLinearInLineEnds(t *testing.T) {
	feed := bytes.Repeat([]byte{'\r'}, 8<<20)
	if events, err := collect(t, 0, feed); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(events) != 0 {
		t.Errorf("len(events): got %d, want 0", len(events))
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
			if e, err := s.Next(); err != nil {
				t.Errorf("%s: got the error %v, want none", name, err)
			} else if string(e.Data) != want {
				t.Errorf("%s: e.Data: got %q, want %q", name, string(e.Data), want)
			}
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got the error %v, want %v", name, err, io.EOF)
		}
	}
	broken := NewSSEStream(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(io.ErrUnexpectedEOF)),
		0)
	if _, err := broken.Next(); err != nil {
		t.Fatal(err)
	}
	if e, err := broken.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut event: got the error %v, want %v (e.Data is %q)", err, io.ErrUnexpectedEOF, e.Data)
	}
}

func TestAppendEventReadsBack(t *testing.T) {
	for _, data := range []string{`{"a":1}`, "", "a\nb", "a\r\nb\rc", "\n"} {
		wire := AppendEvent(nil, []byte(data))
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		got, err := collect(t, 0, wire)
		switch {
		case err != nil:
			t.Errorf("%q: got the error %v, want none", data, err)
		case len(got) != 1:
			t.Errorf("%q: len(got): got %d, want 1, in %+v", data, len(got), got)
		case got[0].data != want:
			t.Errorf("%q: got[0].data: got %q, want %q", data, got[0].data, want)
		}
	}
	if got := string(AppendDone(AppendEvent(nil, []byte("{}")))); got != "data: {}\n\ndata: [DONE]\n\n" {
		t.Errorf("AppendDone(…): got %q, want %q", got, "data: {}\n\ndata: [DONE]\n\n")
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
			if !equalEvents(got, want) {
				t.Fatalf("cut: equalEvents(got, want): got false, want true, with %+v", got)
			}
			if !errors.Is(err, wantErr) {
				t.Fatalf("cut: got the error %v, want %v", err, wantErr)
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
			t.Errorf("%s: bytes that wait: got %d, want 3<<20", name, n)
		}
		feed(event[3<<20:] + "data: y\n\ndata: half")
		switch {
		case events != 2:
			t.Errorf("%s: events: got %d, want 2", name, events)
		case r.Buffered() != len("data: half"):
			t.Errorf("%s: r.Buffered(): got %d, want %d", name, r.Buffered(), len("data: half"))
		case cap(r.own) > keepBuffer:
			t.Errorf("%s: cap(r.own): got %d, want at most %d", name, cap(r.own), keepBuffer)
		case cap(r.joined) > keepBuffer:
			t.Errorf("%s: cap(r.joined): got %d, want at most %d", name, cap(r.joined), keepBuffer)
		}
	}
}

func TestOfALargeNameLittleIsKept(t *testing.T) {
	r := SSEReader{MaxEvent: 8 << 20}
	r.Feed([]byte("event: " + strings.Repeat("x", 4<<20) + "\ndata: y\n\nevent: short\ndata: half"))
	event, ok := r.Next()
	if !ok {
		t.Error("ok of r.Next(): got false, want true")
	} else if string(event.Name) != strings.Repeat("x", 65) {
		t.Errorf("event.Name: got %q, want %q", string(event.Name), strings.Repeat("x", 65))
	}
	switch _, ok := r.Next(); {
	case ok:
		t.Errorf("%d bytes are kept for names, %d for what waits: ok of r.Next(): got true, want false", cap(r.name),
			cap(r.own))
	case cap(r.name) > 1<<10:
		t.Errorf("%d bytes are kept for names, %d for what waits: cap(r.name): got %d, want at most 1<<10", cap(r.name),
			cap(r.own), cap(r.name))
	case cap(r.own) > keepBuffer:
		t.Errorf("%d bytes are kept for names, %d for what waits: cap(r.own): got %d, want at most %d", cap(r.name),
			cap(r.own), cap(r.own), keepBuffer)
	}
}

func TestBufferedCountsJoinedLinesToo(t *testing.T) {
	r := SSEReader{MaxEvent: 8 << 20}
	line := "data: " + strings.Repeat("x", 1<<20) + "\n"
	r.Feed([]byte(line + line))
	_, ok := r.Next()
	if n := r.Buffered(); ok {
		t.Error("bytes held of 2 MiB and their joined copy: ok of r.Next(): got true, want false")
	} else if n < 4<<20 {
		t.Errorf("bytes held of 2 MiB and their joined copy: r.Buffered(): got %d, want at least 4<<20", n)
	}
	r.Feed([]byte("\n"))
	switch event, ok := r.Next(); {
	case !ok:
		t.Error("ok of r.Next(): got false, want true")
	case len(event.Data) != 2<<20+1:
		t.Errorf("the event: got %d, want 2<<20+1", len(event.Data))
	case r.Buffered() < len(event.Data):
		t.Errorf("r.Buffered(): got %d, want at least %d", r.Buffered(), len(event.Data))
	}
	if _, ok := r.Next(); ok {
		t.Error("bytes held of nothing: ok of r.Next(): got true, want false")
	} else if r.Buffered() != 0 {
		t.Errorf("bytes held of nothing: r.Buffered(): got %d, want 0", r.Buffered())
	}
}

func BenchmarkSSEReader(b *testing.B) {
	frame := []byte(
		strings.Repeat(
			"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","+
				"\"choices\":[{\"index\":0,\"delta\":{\"content\":\" hello\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", 16))
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
