package csvout_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"svc.internal/pkg/csvout"
)

func TestACellThatASpreadsheetWouldRunBeginsWithAnApostrophe(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "x=1": "x=1", "": "",
		`a"b`: `a"b`, "a,b": "a,b", "=a,\"b\"\nc": "'=a,\"b\"\nc",
	} {
		row := append(csvout.AppendCell([]byte("first,"), cell), csvout.EndRow...)
		rows, err := csv.NewReader(bytes.NewReader(row)).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", cell, err)
		}
		if got := rows[0][1]; got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
	}
}

func FuzzACellIsReadAsItWasWritten(f *testing.F) {
	f.Add("=b")
	f.Add("\"\r\n,")
	f.Fuzz(func(t *testing.T, cell string) {
		row := append(csvout.AppendCell([]byte("first,"), cell), csvout.EndRow...)
		rows, err := csv.NewReader(bytes.NewReader(row)).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		if len(rows) != 1 || len(rows[0]) != 2 {
			t.Fatalf("%q: got the rows %q, want one of two cells", row, rows)
		}
		if got := rows[0][1]; got != "" && strings.ContainsRune("=+-@\t\r", rune(got[0])) {
			t.Errorf("%q: got the cell %q, want none that begins so", row, got)
		}
	})
}

func TestPiecesAreBoundedAndWhole(t *testing.T) {
	t.Parallel()
	var whole []byte
	var pieces, rows int64
	w, err := csvout.NewWriter("h\r\n", func(piece []byte, n int64) error {
		if pieces == 0 && string(piece) != "h\r\n" {
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
	row := []byte(strings.Repeat("x", 400) + csvout.EndRow)
	for range 1_000 {
		if err := w.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if rows != 1_000 {
		t.Errorf("rows: got %d, want 1000", rows)
	}
	if got := bytes.Count(whole, []byte(csvout.EndRow)); got != 1_001 {
		t.Errorf("lines: got %d, want 1001 with the header", got)
	}
}

func TestAReaderThatLeavesEndsTheFile(t *testing.T) {
	t.Parallel()
	left := errors.New("the reader has left")
	if _, err := csvout.NewWriter("h\r\n", func([]byte, int64) error { return left }); !errors.Is(err, left) {
		t.Errorf("header: got the error %v, want %v", err, left)
	}
}
