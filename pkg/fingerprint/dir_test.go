package fingerprint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder makes a folder of a model beside a file that is not the model's.
func folder(t testing.TB) (model, outside string) {
	t.Helper()
	base := t.TempDir()
	model, outside = filepath.Join(base, "model"), filepath.Join(base, "outside")
	write(t, filepath.Join(model, "sub", "a.bin"), "inside")
	write(t, outside, "outside")
	return model, outside
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, to, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Skip("links cannot be made here")
	}
}

func open(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// ask returns the answer for the first byte of a file.
func ask(t testing.TB, d *Dir, name string) Result {
	t.Helper()
	return Answer(t.Context(), d, Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{name, 0, 1}}})
}

func TestDirReadsTheFilesBelowIt(t *testing.T) {
	t.Parallel()
	model, _ := folder(t)
	link(t, filepath.Join("sub", "a.bin"), filepath.Join(model, "link"))
	link(t, model, model+"-link")
	for _, path := range []string{model, model + "-link", model + "/"} {
		d := open(t, path)
		for _, name := range []string{"sub/a.bin", "link"} {
			r := ask(t, d, name)
			if want := RangeDigest(nonce(), name, 0, []byte("i")); !bytes.Equal(r.Digests[0], want) {
				t.Errorf("%s: the digest: got %x, want %x, with %q", name, r.Digests[0], want, r.Error)
			}
		}
	}
}

func TestNoNameLeavesTheDir(t *testing.T) {
	t.Parallel()
	model, outside := folder(t)
	link(t, outside, filepath.Join(model, "absolute"))
	link(t, filepath.Join("..", "outside"), filepath.Join(model, "relative"))
	link(t, filepath.Dir(model), filepath.Join(model, "up"))
	link(t, "loop", filepath.Join(model, "loop"))
	link(t, "/dev/zero", filepath.Join(model, "device"))
	d := open(t, model)
	names := append(strayNames(), "absolute", "relative", "up", "up/outside", "sub", "sub/..", outside, "loop", "device",
		"absent", "sub/a.bin/x")
	for _, name := range names {
		if f, err := d.Open(name); err == nil {
			_ = f.Close()
			t.Errorf("%q: got no error, want one", name)
		}
		r := ask(t, d, name)
		if r.Error == "" {
			t.Errorf("%q: the answer: got no error, want one", name)
		}
		if len(r.Digests) > 0 && len(r.Digests[0]) > 0 {
			t.Errorf("%q: the answer: got %x, want no digest", name, r.Digests)
		}
		if name != outside && strings.Contains(r.Error, filepath.Dir(model)) {
			t.Errorf("%q: the error: got %q, want no path of the machine in it", name, r.Error)
		}
	}
}

func TestSnapshotOfACacheIsReadThroughItsLinks(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	repository := filepath.Join(cache, "models--owner--name")
	snapshot := filepath.Join(repository, "snapshots", "0123abcd")
	write(t, filepath.Join(repository, "blobs", "ffff"), "weights")
	write(t, filepath.Join(cache, "models--other", "blobs", "ffff"), "others")
	link(t, filepath.Join("..", "..", "blobs", "ffff"), filepath.Join(snapshot, "model.safetensors"))
	link(t, filepath.Join("..", "..", "..", "models--other", "blobs", "ffff"), filepath.Join(snapshot, "stray"))
	d := open(t, snapshot)
	r := ask(t, d, "model.safetensors")
	if want := RangeDigest(nonce(), "model.safetensors", 0, []byte("w")); !bytes.Equal(r.Digests[0], want) {
		t.Errorf("the digest: got %x, want %x, with %q", r.Digests[0], want, r.Error)
	}
	for _, name := range []string{"stray", "blobs/ffff"} {
		if r := ask(t, d, name); len(r.Digests[0]) > 0 {
			t.Errorf("%s: got a digest, want none", name)
		}
	}
}

func TestFileThatChangesWhileItIsReadHasADigestOrAReason(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, piece+1) },
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"longer":  func(path string) error { return os.Truncate(path, MaxLength) },
		"removed": os.Remove,
	} {
		model, _ := folder(t)
		path := filepath.Join(model, "big")
		write(t, path, strings.Repeat("x", 3*piece))
		w := &watched{FS: open(t, model)}
		w.before = func() {
			if len(w.reads) == 1 {
				if err := change(path); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		c := Challenge{ID: "x", Nonce: nonce(), Ranges: []Range{{"big", 0, 3 * piece}}}
		r := Answer(t.Context(), w, c)
		if cut := what == "cut" || what == "emptied"; cut != (r.Error == `"big": the file ends before the range does`) {
			t.Errorf("%s: the error: got %q, want the end of the file: %t", what, r.Error, cut)
		}
		if (r.Error == "") != (len(r.Digests[0]) == DigestSize) {
			t.Errorf("%s: got %d bytes of a digest, with the error %q", what, len(r.Digests[0]), r.Error)
		}
	}
}

func TestDirMustBeAFolder(t *testing.T) {
	t.Parallel()
	model, outside := folder(t)
	for _, path := range []string{outside, filepath.Join(model, "absent"), ""} {
		d, err := OpenDir(path)
		if err == nil {
			_ = d.Close()
			t.Errorf("%q: got no error, want one", path)
		}
	}
}

func FuzzDirStaysWithinItsFolder(f *testing.F) {
	for _, name := range append(strayNames(), "sub/a.bin", "up/outside", "absolute") {
		f.Add(name)
	}
	model, outside := folder(f)
	link(f, outside, filepath.Join(model, "absolute"))
	link(f, filepath.Dir(model), filepath.Join(model, "up"))
	d := open(f, model)
	stray := []byte("o")
	f.Fuzz(func(t *testing.T, name string) {
		r := ask(t, d, name)
		if len(r.Digests) > 0 && len(r.Digests[0]) > 0 && bytes.Equal(r.Digests[0], RangeDigest(nonce(), name, 0, stray)) {
			t.Fatalf("%q leads out of the folder", name)
		}
	})
}
