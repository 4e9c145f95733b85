// Package archive writes the archives by which an agent reaches the machines of providers: a
// tar.gz for each system, a Debian package for Linux, and the list of their checksums.
//
// The same files give the same bytes: every time is the commit's, every owner is root, and
// entries are in the order that they are given.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5" //nolint:gosec // Debian's own list of sums, which proves nothing
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	// Name is its path, with slashes between the folders and none at the beginning.
	Name string
	// Program reports that the file may be executed.
	Program bool
	Bytes   []byte
}

func (f File) mode() int64 {
	if f.Program {
		return 0o755
	}
	return 0o644
}

// TarGz returns the files as a tar.gz, with entries for their folders. All are in folder, which
// may be empty.
func TarGz(folder string, files []File, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	w := tar.NewWriter(packed)
	made := map[string]bool{}
	for _, f := range files {
		name := path.Join(folder, f.Name)
		for _, dir := range foldersOf(name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(header(dir+"/", tar.TypeDir, 0o755, 0, at)); err != nil {
				return nil, fmt.Errorf("write %s: %w", dir, err)
			}
		}
		if err := w.WriteHeader(header(name, tar.TypeReg, f.mode(), int64(len(f.Bytes)), at)); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := w.Write(f.Bytes); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end the archive: %w", err)
	}
	if err := packed.Close(); err != nil {
		return nil, fmt.Errorf("end the archive: %w", err)
	}
	return out.Bytes(), nil
}

func header(name string, kind byte, mode, size int64, at time.Time) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, ModTime: at.UTC().Truncate(time.Second),
		Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
}

// foldersOf are the folders of a path, the outermost first.
func foldersOf(name string) []string {
	var all []string
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	slices.Reverse(all)
	return all
}

// Package is what a Debian package says of itself.
type Package struct {
	Name, Version, Architecture, Maintainer, Summary string
}

// Deb returns the files as a Debian package. It runs nothing when it is installed.
func Deb(p Package, files []File, at time.Time) ([]byte, error) {
	data, err := TarGz("", files, at)
	if err != nil {
		return nil, err
	}
	size := 0
	var sums strings.Builder
	for _, f := range files {
		size += len(f.Bytes)
		sum := md5.Sum(f.Bytes) //nolint:gosec // see above
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name)
	}
	about := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\n"+
		"Section: net\nPriority: optional\nDescription: %s\n",
		p.Name, p.Version, p.Architecture, p.Maintainer, (size+1023)/1024, p.Summary)
	control, err := TarGz("", []File{
		{Name: "control", Bytes: []byte(about)}, {Name: "md5sums", Bytes: []byte(sums.String())},
	}, at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, member := range []File{
		{Name: "debian-binary", Bytes: []byte("2.0\n")}, {Name: "control.tar.gz", Bytes: control},
		{Name: "data.tar.gz", Bytes: data},
	} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", member.Name, at.Unix(), 0, 0, 0o100644, len(member.Bytes))
		out.Write(member.Bytes)
		if len(member.Bytes)%2 == 1 {
			out.WriteByte('\n') // members begin at even places
		}
	}
	return out.Bytes(), nil
}

// Sums is the list that sha256sum -c reads, in the order of the names.
func Sums(files []File) []byte {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.Bytes)
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name)
	}
	return out.Bytes()
}
