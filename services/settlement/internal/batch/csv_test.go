package batch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/csvout"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
)

func TestACellThatASpreadsheetWouldRunBeginsWithAnApostrophe(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "x=1": "x=1", "": "",
		`a"b`: `a"b`, "a,b": "a,b", "=a,\"b\"\nc": "'=a,\"b\"\nc",
	} {
		c := batch.Change{Kind: batch.Entry, BusinessID: cell, Amount: -5}
		rows, err := csv.NewReader(strings.NewReader(string(batch.AppendRow(nil, &c)))).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", cell, err)
		}
		// A reader of CSV takes a carriage return for the end of a row only before a line feed.
		if got := rows[0][9]; got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
		if rows[0][6] != "-0.000000005" {
			t.Errorf("amount: got %q, want a number without an apostrophe", rows[0][6])
		} else if rows[0][7] != "-5" {
			t.Errorf("nano-USD: got %q, want a number without an apostrophe", rows[0][7])
		}
	}
}

func FuzzARowIsReadAsItWasWritten(f *testing.F) {
	f.Add("a", "=b")
	f.Add("\"", "\r\n,")
	f.Fuzz(func(t *testing.T, kind, business string) {
		c := batch.Change{Kind: batch.Entry, EntryKind: kind, BusinessID: business}
		row := batch.AppendRow(nil, &c)
		rows, err := csv.NewReader(bytes.NewReader(row)).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		if len(rows) != 1 {
			t.Fatalf("%q: got %d rows, want one", row, len(rows))
		}
		if len(rows[0]) != 10 {
			t.Fatalf("%q: got a row of %d cells, want 10", row, len(rows[0]))
		}
		for _, cell := range rows[0] {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				t.Errorf("%q: got the cell %q, want none that begins so", row, cell)
			}
		}
	})
}

// many are lines of two days.
type many struct{ perDay int64 }

func (m many) Lines(
	_ context.Context, p ids.ProviderID, day time.Time, after int64, into []batch.Line,
) ([]batch.Line, error) {
	into = into[:0]
	for n := after + 1; n <= m.perDay && len(into) < cap(into); n++ {
		into = append(into, batch.Line{Day: day, Number: n, Change: batch.Change{Kind: batch.Payg, Provider: p, At: day,
			Account: batch.Accrued, Amount: 7, BusinessID: strings.Repeat("x", 400)}})
	}
	return into, nil
}

func (m many) DaysWithLines(_ context.Context, _ ids.ProviderID, from, to time.Time) ([]time.Time, error) {
	return []time.Time{from, to}, nil
}

func TestAnExportComesInPiecesAndIsWhole(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var whole []byte
	var pieces, rows int64
	err := batch.Export(t.Context(), many{1_501}, ids.ProviderID{1}, day, day.AddDate(0, 0, 1),
		func(piece []byte, n int64) error {
			if pieces == 0 && string(piece) != batch.Header {
				t.Errorf("first piece: got %q, want the header", piece)
			}
			if len(piece) > csvout.MaxPiece {
				t.Errorf("a piece: got %d bytes, want at most %d", len(piece), csvout.MaxPiece)
			}
			whole, rows = append(whole, piece...), n
			pieces++
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if rows != 3_002 {
		t.Errorf("rows: got %d, want 3002", rows)
	}
	if got := int64(bytes.Count(whole, []byte("\r\n"))); got != 3_003 {
		t.Errorf("lines: got %d, want 3003 with the header", got)
	}
}

func TestTheDigestOfADayIsThatOfItsExport(t *testing.T) {
	t.Parallel()
	c := batch.Change{Kind: batch.Payg, Amount: 5}
	d := batch.NewDigest()
	d.Add(&c)
	if want := sha256.Sum256(append([]byte(batch.Header), batch.AppendRow(nil, &c)...)); d.Sum() != want {
		t.Errorf("got %x, want %x", d.Sum(), want)
	}
}
