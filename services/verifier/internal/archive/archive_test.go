package archive_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"svc.internal/services/verifier/internal/archive"
)

var (
	key   = archive.Key{1, 2, 3}
	id    = archive.ID{4, 5, 6}
	plain = []byte(`{"prompt":"The code of the blue harbour is 402913.","answer":"402913"}`)
)

func seal(t *testing.T, of []byte) ([]byte, archive.Leaf) {
	t.Helper()
	sealed, leaf, err := archive.Seal(key, id, of, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return sealed, leaf
}

func TestWhatIsSealedIsReadBackWithItsKeyAlone(t *testing.T) {
	t.Parallel()
	for _, want := range [][]byte{plain, {}, bytes.Repeat([]byte("needle "), 1<<20)} {
		sealed, leaf := seal(t, want)
		got, err := archive.Open(key, id, sealed, leaf)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("got %d bytes, want the %d that were sealed", len(got), len(want))
		}
	}
	sealed, leaf := seal(t, plain)
	if bytes.Contains(sealed, []byte("harbour")) {
		t.Error("the text can be read without the key")
	}
	if _, err := archive.Open(archive.Key{9}, id, sealed, leaf); !errors.Is(err, archive.ErrAltered) {
		t.Errorf("another key: got the error %v, want %v", err, archive.ErrAltered)
	}
	if _, err := archive.Open(key, archive.ID{9}, sealed, leaf); !errors.Is(err, archive.ErrAltered) {
		t.Errorf("another id: got the error %v, want %v", err, archive.ErrAltered)
	}
}

func TestOneFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	sealed, leaf := seal(t, plain)
	for bit := range 8 * len(sealed) {
		bad := bytes.Clone(sealed)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := archive.Open(key, id, bad, leaf); !errors.Is(err, archive.ErrAltered) {
			t.Fatalf("bit %d of the text: got the error %v, want %v", bit, err, archive.ErrAltered)
		}
	}
	for bit := range 8 * len(leaf) {
		bad := leaf
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := archive.Open(key, id, sealed, bad); !errors.Is(err, archive.ErrAltered) {
			t.Fatalf("bit %d of the leaf: got the error %v, want %v", bit, err, archive.ErrAltered)
		}
	}
	for n := range len(sealed) {
		if _, err := archive.Open(key, id, sealed[:n], leaf); !errors.Is(err, archive.ErrAltered) {
			t.Fatalf("the first %d bytes: got the error %v, want %v", n, err, archive.ErrAltered)
		}
	}
}

func TestTheLeafNeedsNoKeyAndIsOfTheTextAlone(t *testing.T) {
	t.Parallel()
	_, first := seal(t, plain)
	_, second := seal(t, plain)
	if first != second {
		t.Errorf("sealed twice: got %x, want %x", second, first)
	}
	if got := archive.LeafOf(id, plain); got != first {
		t.Errorf("LeafOf: got %x, want %x", got, first)
	}
	// Of RFC 6962: SHA-256 over 0 and the data, which is 1, the id and the text's digest.
	digest := sha256.Sum256(plain)
	want := sha256.Sum256(append(append([]byte{0, 1}, id[:]...), digest[:]...))
	if first != want {
		t.Errorf("leaf: got %x, want %x", first, want)
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	if _, _, err := archive.Seal(key, id, make([]byte, archive.MaxPlain+1), rand.Reader); !errors.Is(err,
		archive.ErrTooLarge) {
		t.Errorf("got the error %v, want %v", err, archive.ErrTooLarge)
	}
	sealed, leaf := seal(t, make([]byte, archive.MaxPlain))
	if _, err := archive.Open(key, id, sealed, leaf); err != nil {
		t.Errorf("the largest piece: got the error %v, want none", err)
	}
}

func leaves(n int) []archive.Leaf {
	all := make([]archive.Leaf, n)
	for i := range all {
		all[i] = archive.LeafOf(archive.ID{byte(i), byte(i >> 8)}, plain)
	}
	return all
}

func TestEveryPieceOfADayIsProvenAndNoOther(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 7, 8, 33, 100} {
		day := leaves(n)
		root, err := archive.RootOf(day)
		if err != nil {
			t.Fatal(err)
		}
		stranger := archive.LeafOf(archive.ID{0xff}, plain)
		for i, leaf := range day {
			path, err := archive.ProofOf(day, i)
			if err != nil {
				t.Fatal(err)
			}
			if err := archive.Includes(root, leaf, i, n, path); err != nil {
				t.Errorf("leaf %d of %d: got the error %v, want none", i, n, err)
			}
			if err := archive.Includes(root, stranger, i, n, path); !errors.Is(err, archive.ErrNotThere) {
				t.Errorf("a stranger as leaf %d of %d: got the error %v, want %v", i, n, err, archive.ErrNotThere)
			}
			if err := archive.Includes(archive.Root{}, leaf, i, n, path); !errors.Is(err, archive.ErrNotThere) {
				t.Errorf("another root: got the error %v, want %v", err, archive.ErrNotThere)
			}
		}
	}
	for _, index := range []int{-1, 3} {
		if _, err := archive.ProofOf(leaves(3), index); err == nil {
			t.Errorf("leaf %d of 3: got a proof, want none", index)
		}
		if err := archive.Includes(archive.Root{}, archive.Leaf{}, index, 3, nil); !errors.Is(err, archive.ErrNotThere) {
			t.Errorf("leaf %d of 3: got the error %v, want %v", index, err, archive.ErrNotThere)
		}
	}
}

// The root of no leaf, and of the leaves "" and "\x00" by the test vectors of certificate
// transparency, which fix the tree whatever library computes it.
func TestTheTreeIsThatOfRFC6962(t *testing.T) {
	t.Parallel()
	of := func(data string) archive.Leaf { return sha256.Sum256([]byte("\x00" + data)) }
	for _, c := range []struct {
		leaves []archive.Leaf
		want   string
	}{
		{nil, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{[]archive.Leaf{of("")}, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
		{[]archive.Leaf{of(""), of("\x00")}, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
	} {
		root, err := archive.RootOf(c.leaves)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(root[:]); got != c.want {
			t.Errorf("%d leaves: got %s, want %s", len(c.leaves), got, c.want)
		}
	}
}

func TestALinkDependsOnEveryLeafBeforeIt(t *testing.T) {
	t.Parallel()
	chain := func(of []archive.Leaf) (last archive.Link) {
		for _, leaf := range of {
			last = archive.Next(last, leaf)
		}
		return last
	}
	day := leaves(20)
	want := chain(day)
	for i := range day {
		altered := leaves(20)
		altered[i][0] ^= 1
		if got := chain(altered); got == want {
			t.Errorf("leaf %d altered: the last link is the same", i)
		}
		if got := chain(append(leaves(i), day[i+1:]...)); got == want {
			t.Errorf("leaf %d taken away: the last link is the same", i)
		}
	}
	swapped := leaves(20)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	if got := chain(swapped); got == want {
		t.Error("two leaves swapped: the last link is the same")
	}
}
