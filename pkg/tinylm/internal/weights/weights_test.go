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

func TestRoundHalfIsTheRoundTrip(t *testing.T) {
	values := []float32{0, 1e-9, 3e-8, 5.9e-8, 3.1e-5, 6.1e-5, 6.2e-5, .1, .3333, 1.9996, 1234.56, 65519, 70000}
	for h := range uint16(halfInf) {
		values = append(values, halfTo(h), halfTo(h)*(1+1.0/2048), halfTo(h)*(1+1.0/3000))
	}
	for _, v := range values {
		for _, x := range []float32{v, -v} {
			if got, want := RoundHalf(x), halfTo(halfFrom(x)); got != want {
				t.Fatalf("%v: got %v, want %v", x, got, want)
			}
		}
	}
}

func TestRoundBrainKeepsEightBits(t *testing.T) {
	for v, want := range map[float32]float32{
		0: 0, 1: 1, -2: -2, 1 + 1.0/128: 1 + 1.0/128,
		1 + 1.0/256: 1, 1 + 3.0/256: 1 + 1.0/64, 1.999: 2, -1.999: -2,
	} {
		if got := RoundBrain(v); got != want {
			t.Errorf("%v: got %v, want %v", v, got, want)
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
