package fingerprint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir are the regular files below one folder. No name leaves the folder: neither one with
// "..", nor an absolute one, nor a link (os.Root). Folders, devices, pipes and sockets are
// refused, and a pipe is not waited for. Dir is safe for concurrent use.
//
// A snapshot in a cache of Hugging Face (…/models--owner--name/snapshots/revision) holds
// nothing but links to files beside it. Links of a snapshot may therefore lead anywhere
// below models--owner--name.
type Dir struct {
	root *os.Root
	// below is the folder's path below root, with slashes.
	below string
}

// OpenDir opens a folder. The caller closes it.
func OpenDir(folder string) (*Dir, error) {
	if folder == "" {
		return nil, errors.New("open the folder: it has no name")
	}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open the folder: %w", err)
	case !info.IsDir():
		return nil, errors.New("it is not a folder")
	}
	top, below := snapshot(real)
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	return &Dir{root: root, below: below}, nil
}

// snapshot divides the path of a snapshot into the folder of its repository and the path
// below that folder. Another path is divided into itself and ".".
func snapshot(folder string) (top, below string) {
	snapshots := filepath.Dir(folder)
	repository := filepath.Dir(snapshots)
	if filepath.Base(snapshots) != "snapshots" || !strings.HasPrefix(filepath.Base(repository), "models--") {
		return folder, "."
	}
	return repository, path.Join("snapshots", filepath.Base(folder))
}

// Open opens a regular file. Its error for another kind of file is no *fs.PathError.
func (d *Dir) Open(name string) (fs.File, error) {
	if err := validateName(name); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	place := filepath.FromSlash(path.Join(d.below, name))
	// A device is not even opened, because that may set it going.
	info, err := d.root.Stat(place)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errKind
	}
	// Something else may have taken the file's place, and a pipe must not be waited for.
	file, err := d.root.OpenFile(place, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
		err = errKind
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// Close closes the folder. Files that are open stay so.
func (d *Dir) Close() error { return d.root.Close() }
