package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	at    = time.Unix(1_700_000_000, 999).In(time.FixedZone("east", 3600))
	files = []File{
		{Name: "usr/bin/svc-agent", Program: true, Bytes: []byte("#!/bin/sh\n")},
		{Name: "usr/share/doc/svc-agent/README.md", Bytes: []byte("read\n")},
	}
	about = Package{Name: "svc-agent", Version: "0~abc", Architecture: "amd64", Maintainer: "Nobody <n@example.com>",
		Summary: "offers models"}
)

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	for name, write := range map[string]func() ([]byte, error){
		"tar.gz": func() ([]byte, error) { return TarGz("x", files, at) },
		"deb":    func() ([]byte, error) { return Deb(about, files, at) },
	} {
		one, err := write()
		if err != nil {
			t.Fatal(err)
		}
		two, err := write()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s: two writes differ", name)
		}
	}
}

func TestAnArchiveHasFoldersOwnersModesAndTheCommitsTime(t *testing.T) {
	packed, err := TarGz("top", files, at)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(unpacked)
	var names []string
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Uid != 0 {
			t.Errorf("%s: owner: got %d, want 0", h.Name, h.Uid)
		}
		if !h.ModTime.Equal(time.Unix(1_700_000_000, 0)) {
			t.Errorf("%s: time: got %v, want that of the commit", h.Name, h.ModTime)
		}
		if got, want := h.Mode&0o111 != 0, !strings.HasSuffix(h.Name, ".md"); got != want {
			t.Errorf("%s: may be executed: got %t, want %t", h.Name, got, want)
		}
	}
	want := []string{"top/", "top/usr/", "top/usr/bin/", "top/usr/bin/svc-agent", "top/usr/share/", "top/usr/share/doc/",
		"top/usr/share/doc/svc-agent/", "top/usr/share/doc/svc-agent/README.md"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// Debian's own program reads the package, where it is installed.
func TestDpkgReadsThePackage(t *testing.T) {
	program, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("dpkg-deb is not here")
	}
	text, err := Deb(about, files, at)
	if err != nil {
		t.Fatal(err)
	}
	path, into := filepath.Join(t.TempDir(), "a.deb"), t.TempDir()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--info", path}, {"--contents", path}, {"--extract", path, into}} {
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: got the error %v, want none: %s", args[0], err, out)
		}
	}
	got, err := os.ReadFile(filepath.Join(into, "usr/bin/svc-agent"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, files[0].Bytes) {
		t.Errorf("the program: got %q, want %q", got, files[0].Bytes)
	}
	out, err := exec.CommandContext(t.Context(), program, "--field", path, "Version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != about.Version {
		t.Errorf("version: got %q, want %q", got, about.Version)
	}
}

func TestSumsAreInTheOrderOfNames(t *testing.T) {
	got := string(Sums([]File{{Name: "b", Bytes: []byte("b")}, {Name: "a"}}))
	want := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
