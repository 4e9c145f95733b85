//go:build crashpoints

package journal

import (
	"testing"

	"svc.internal/pkg/crash"
)

// contents reads a file of a folder through the Disk.
func contents(t *testing.T, d Disk, name string) string {
	t.Helper()
	f, err := d.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, size)
	if _, err := f.ReadAt(text, 0); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestThePlantedJournalForgetsWhatItSaidWasSynced(t *testing.T) {
	dir := t.TempDir()
	write := func(text string, at int64, open func(string) (File, error)) {
		t.Helper()
		f, err := open("x")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	sound, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("kept,", 0, sound.Create)
	if err := sound.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(crash.EnvPlant, crash.JournalWithoutFsync)
	planted, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("lost", 5, planted.Open)
	if got := contents(t, planted, "x"); got != "kept,lost" {
		t.Errorf(`the process itself reads: got %q, want "kept,lost"`, got)
	}
	if err := planted.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, again, "x"); got != "kept," {
		t.Errorf(`the next process reads: got %q, want "kept,"`, got)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
