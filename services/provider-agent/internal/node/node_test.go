package node

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestNameIsMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := Load(dir, rand.Reader)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if !Valid(first) {
		t.Fatalf("Valid(first): got false, want true, with %q", first)
	}
	again, err := Load(dir, bytes.NewReader(nil)) // needs no randomness
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if again != first {
		t.Errorf("then: got %q, want %q", again, first)
	}
	other, err := Load(t.TempDir(), rand.Reader)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if other == first {
		t.Errorf("another folder: got %q, want any but %q", other, first)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(left) != 1 {
		t.Errorf("the folder holds: len(left): got %d, want 1, in %v", len(left), left)
	}
}

func TestTwoStartsAtOnceAgree(t *testing.T) {
	dir := t.TempDir()
	names := make([]string, 16)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			name, err := Load(dir, rand.Reader)
			if err != nil {
				t.Error(err)
			}
			names[i] = name
		})
	}
	all.Wait()
	for _, name := range names {
		if name != names[0] {
			t.Errorf("names: got %q, want %q", name, names[0])
		}
	}
}

func TestFileOfAnotherKindIsNotReplaced(t *testing.T) {
	for _, text := range []string{"", "short", "two words here", "x\x00yyyyyyyyy", string(bytes.Repeat([]byte("a"), 65))} {
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := Load(dir, rand.Reader); err == nil {
			t.Errorf("%q is taken as %q", text, id)
		}
		if now, err := os.ReadFile(path); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if string(now) != text {
			t.Errorf("the file holds: now: got %q, want %q", string(now), text)
		}
	}
}

func TestRandomnessThatFailsIsAnError(t *testing.T) {
	if id, err := New(bytes.NewReader([]byte{1, 2})); err == nil {
		t.Errorf("the name is %q", id)
	}
}
