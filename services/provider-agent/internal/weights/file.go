package weights

import (
	"context"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// files are the files of an opened folder, or those that were found in stores.
type files interface {
	fs.FS
	io.Closer
}

// File is a file of a model as the catalog lists it.
type File struct {
	// Name is its path in the model's repository, with slashes.
	Name string
	// Hash is its SHA-256 in lower-case hexadecimal.
	Hash string
	// Size is in bytes.
	Size int64
	// URL is where it comes from.
	URL string
}

// List asks the catalog for the files of a model.
type List func(ctx context.Context, model string) ([]File, error)

// isDigest reports whether a text is a SHA-256 as stores write it.
func isDigest(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// where is a file in a store.
type where struct{ store, path string }

// place is a file that was found, as it was then.
type place struct {
	where
	info fs.FileInfo
}

// kept are the files that were found, by their names in the catalog.
type kept map[string]place

// Open opens a file, and fails where the file has changed since it was found. Such a file must be found
// again, because a wrong digest would count against the owner.
func (k kept) Open(name string) (fs.File, error) {
	p, ok := k[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	root, err := os.OpenRoot(p.store)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, info, err := openRegular(root, p.path)
	if err != nil {
		return nil, err
	}
	if !same(info, p.info) {
		_ = file.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return file, nil
}

// Close does nothing, because a file is opened when it is asked for.
func (k kept) Close() error { return nil }

// same reports whether a is still the file that b was, unchanged.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// openRegular opens a regular file. It does not wait for a pipe, and does not open a device.
func openRegular(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, err
	}
	// Something else may have taken the file's place since, so the opened file is judged again.
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}
