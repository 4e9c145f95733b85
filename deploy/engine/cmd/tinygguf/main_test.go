package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"svc.internal/deploy/engine/gguf"
)

func TestFlagsShapeTheModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := run([]string{"-o", path, "-name", "n", "-seed", "4", "-layers", "1", "-width", "8", "-heads", "2", "-ff",
		"12", "-context", "99", "-half", "-sharpness", "2"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := gguf.Write(&want, gguf.Config{Name: "n", Seed: 4, Layers: 1, Width: 8, Heads: 2, FeedForward: 12,
		Context: 99, Half: true, Sharpness: 2}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the file has %d bytes, want %d others", len(got), want.Len())
	}
}

func TestWhatCannotBeLeavesNoFile(t *testing.T) {
	for _, args := range [][]string{{"-width", "63"}, {"-layers", "none"}, {"-wide", "8"}, {"more"}} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := run(append([]string{"-o", path}, args...)); err == nil {
			t.Errorf("%v is accepted", args)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%v leaves a file", args)
		}
	}
}
