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
	if err != nil || !Valid(first) {
		t.Fatalf("%q %v", first, err)
	}
	again, err := Load(dir, bytes.NewReader(nil)) // needs no randomness
	if err != nil || again != first {
		t.Errorf("then it is %q, %v", again, err)
	}
	other, err := Load(t.TempDir(), rand.Reader)
	if err != nil || other == first {
		t.Errorf("another folder has %q, %v", other, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v", left)
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
			t.Errorf("names are %v", names)
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
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("the file holds %q, %v", now, err)
		}
	}
}

func TestRandomnessThatFailsIsAnError(t *testing.T) {
	if id, err := New(bytes.NewReader([]byte{1, 2})); err == nil {
		t.Errorf("the name is %q", id)
	}
}
