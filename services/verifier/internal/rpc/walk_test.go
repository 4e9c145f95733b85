package rpc

import (
	"bytes"
	"context"
	"testing"

	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
)

// shelf is evidence in memory, in pages of two pieces.
type shelf struct {
	first  int64
	pieces [][]byte
}

func (s shelf) Span(context.Context, probe.VerdictID) (probe.Offer, int64, int64, error) {
	return probe.Offer{}, s.first, s.first + int64(len(s.pieces)) - 1, nil
}

func (s shelf) Evidence(_ context.Context, _ probe.VerdictID, from int64) (keep.Page, error) {
	at := int(max(from, s.first) - s.first)
	page := keep.Page{}
	for i := at; i < min(at+2, len(s.pieces)); i++ {
		page.Pieces = append(page.Pieces, replay.Sealed{Plain: s.pieces[i]})
	}
	if at+2 < len(s.pieces) {
		page.Next = s.first + int64(at) + 2
	}
	return page, nil
}

// Every byte of a long piece comes once, in order, in answers of bounded size.
func TestPartsOfEvidenceFollowEachOtherToTheLastByte(t *testing.T) {
	t.Parallel()
	s := shelf{first: 7, pieces: [][]byte{bytes.Repeat([]byte("a"), 3*maxPageBytes/2), {}, []byte("b"),
		bytes.Repeat([]byte("c"), 2*maxPageBytes), []byte("d")}}
	var got []byte
	var from evidencePlace
	for n := 0; ; n++ {
		parts, next, more, err := walk(t.Context(), s, probe.VerdictID{}, from,
			func(p replay.Sealed) ([]body[int], error) { return []body[int]{{0, p.Plain}}, nil })
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, p := range parts {
			got = append(got, p.bytes...)
			size += len(p.bytes)
		}
		if size > maxPageBytes {
			t.Errorf("answer %d: got %d bytes, want at most %d", n, size, maxPageBytes)
		}
		if !more {
			break
		}
		if n > 10 {
			t.Fatal("the pages never end")
		}
		if from, err = readCursor[evidencePlace](writeCursor(next)); err != nil {
			t.Fatal(err)
		}
	}
	if want := bytes.Join(s.pieces, nil); !bytes.Equal(got, want) {
		t.Errorf("all answers: got %d bytes, want the %d of the pieces", len(got), len(want))
	}
}

func TestACursorOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"?", "bm90IEpTT04", writeCursor("text")} {
		if _, err := readCursor[evidencePlace](cursor); err == nil {
			t.Errorf("%q: got no error, want one", cursor)
		}
	}
}
