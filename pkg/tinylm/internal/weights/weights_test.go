package weights

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
)

func sample() *Set {
	s := New(4, 8)
	for i, tensor := range s.Tensors() {
		for j := range tensor {
			tensor[j] = float32((j*37+i)%201-100) / 64 // exact in half precision
		}
	}
	return s
}

func TestFileRoundTripIsExact(t *testing.T) {
	want := sample()
	got, err := Decode(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Tensors() {
		if !slices.Equal(got.Tensors()[i], want.Tensors()[i]) {
			t.Errorf("tensor %d changed in the file", i)
		}
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	file := sample().Encode()
	for at := range file {
		bad := bytes.Clone(file)
		bad[at] ^= 0x10
		if _, err := Decode(bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d damaged: err: got %v, want ErrCorrupt", at, err)
		}
	}
	for _, size := range []int{0, 7, headerSize, len(file) - 1} {
		if _, err := Decode(file[:size]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: err: got %v, want ErrCorrupt", size, err)
		}
	}
}

func TestEveryHalfSurvivesTheRoundTrip(t *testing.T) {
	for h := range uint32(1 << 16) {
		if h&halfInf == halfInf {
			continue // infinities and NaN never occur in a file
		}
		if got := halfFrom(halfTo(uint16(h))); got != uint16(h) {
			t.Fatalf("half %#04x: got %d, want %d", h, got, uint16(h))
		}
	}
}

func TestHalfRoundsToNearest(t *testing.T) {
	for _, v := range []float32{1e-9, 3.1e-5, 0.1, -0.3333, 1.9996, 1234.56, -70000} {
		got := float64(halfTo(halfFrom(v)))
		want := math.Max(math.Min(float64(v), halfMax), -halfMax)
		if math.Abs(got-want) > math.Max(math.Abs(want)/2048, 3e-8) {
			t.Errorf("%v was stored: got %v, want at most %v", v, math.Abs(got-want), math.Max(math.Abs(want)/2048, 3e-8))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample().Encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := Decode(file)
		if err == nil && len(s.Encode()) != len(file) {
			t.Error("an accepted file has another size when written again")
		}
	})
}
