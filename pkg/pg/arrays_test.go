package pg

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

func pointers[T any](values ...T) []*T {
	out := []*T{nil}
	for i := range values {
		out = append(out, &values[i], nil)
	}
	return out
}

// arrayCases are slices of every kind that has a plan, and some that have none.
func arrayCases() []struct {
	oid   uint32
	value any
} {
	ids := [][16]byte{{}, {1, 2, 3, 15: 16}, {0: 255, 15: 255}}
	numbers := []int64{0, 1, -1, math.MaxInt64, math.MinInt64}
	small := []int32{0, 1, -1, math.MaxInt32, math.MinInt32}
	texts := []string{"", "a", "NULL", `"{},`, "\xff", strings.Repeat("long ", 1000)}
	times := []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 999_999_999), time.Unix(1_790_000_000, 123_456_789),
		time.Date(1999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(9999, 1, 2, 3, 4, 5, 6, time.UTC),
		time.Date(2026, 3, 4, 23, 30, 0, 0, time.FixedZone("east", 3*60*60))}
	type money int64
	return []struct {
		oid   uint32
		value any
	}{
		{pgtype.UUIDArrayOID, ids}, {pgtype.UUIDArrayOID, pointers(ids...)}, {pgtype.UUIDArrayOID, [][16]byte{}},
		{pgtype.UUIDArrayOID, [][16]byte(nil)}, {pgtype.UUIDArrayOID, []*[16]byte(nil)},
		{pgtype.UUIDArrayOID, []string{"00010203-0405-0607-0809-0a0b0c0d0e0f"}},
		{pgtype.Int8ArrayOID, numbers}, {pgtype.Int8ArrayOID, pointers(numbers...)},
		{pgtype.Int8ArrayOID, []money{1, -1}}, {pgtype.Int8ArrayOID, small},
		{pgtype.Int4ArrayOID, small}, {pgtype.Int4ArrayOID, pointers(small...)}, {pgtype.Int4ArrayOID, []int64{7}},
		{pgtype.BoolArrayOID, []bool{true, false}}, {pgtype.BoolArrayOID, pointers(true, false)},
		{pgtype.TextArrayOID, texts}, {pgtype.TextArrayOID, pointers(texts...)}, {pgtype.TextArrayOID, []string{}},
		{pgtype.TimestamptzArrayOID, times}, {pgtype.TimestamptzArrayOID, pointers(times...)},
		{pgtype.DateArrayOID, times}, {pgtype.DateArrayOID, pointers(times...)},
	}
}

func TestArraysAreEncodedAsTheDriverEncodesThem(t *testing.T) {
	theirs, ours := pgtype.NewMap(), pgtype.NewMap()
	registerArrays(ours)
	for _, c := range arrayCases() {
		for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
			want, wantErr := theirs.Encode(c.oid, format, c.value, []byte("before"))
			got, err := ours.Encode(c.oid, format, c.value, []byte("before"))
			name := fmt.Sprintf("%T as type %d in format %d", c.value, c.oid, format)
			if !bytes.Equal(got, want) {
				t.Errorf("%s: got %x, want %x", name, got, want)
			}
			if null := got == nil; null != (want == nil) {
				t.Errorf("%s: NULL: got %v, want %v", name, null, !null)
			}
			if failed := err != nil; failed != (wantErr != nil) {
				t.Errorf("%s: got the error %v, want %v", name, err, wantErr)
			}
		}
	}
}

func TestArraysAreScannedAsBefore(t *testing.T) {
	m := pgtype.NewMap()
	registerArrays(m)
	want := [][16]byte{{1}, {2}}
	data, err := m.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, want, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][16]byte
	err = m.Scan(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, data, &got)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnArrayCostsNoAllocationForItsElements(t *testing.T) {
	m := pgtype.NewMap()
	registerArrays(m)
	now := time.Now()
	for _, c := range []struct {
		oid   uint32
		value any
	}{
		{pgtype.UUIDArrayOID, make([][16]byte, 100)},
		{pgtype.UUIDArrayOID, make([]*[16]byte, 100)},
		{pgtype.Int8ArrayOID, make([]int64, 100)},
		{pgtype.Int4ArrayOID, make([]int32, 100)},
		{pgtype.BoolArrayOID, make([]bool, 100)},
		{pgtype.TextArrayOID, make([]string, 100)},
		{pgtype.TimestamptzArrayOID, []time.Time{now, now}},
		{pgtype.DateArrayOID, []time.Time{now, now}},
	} {
		buf := make([]byte, 0, 4096)
		got := testing.AllocsPerRun(100, func() {
			if _, err := m.Encode(c.oid, pgtype.BinaryFormatCode, c.value, buf); err != nil {
				t.Error(err)
			}
		})
		if got > 0 {
			t.Errorf("%T: got %.0f allocations, want none", c.value, got)
		}
	}
}

func BenchmarkArrayOfUUIDs(b *testing.B) {
	for name, register := range map[string]func(*pgtype.Map){"driver": func(*pgtype.Map) {}, "ours": registerArrays} {
		b.Run(name, func(b *testing.B) {
			m := pgtype.NewMap()
			register(m)
			value, buf := any(make([][16]byte, 16)), make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, value, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
