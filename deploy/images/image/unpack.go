package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Read returns the image of a layout that Write wrote, for one platform.
func Read(dir string, platform Platform) (v1.Image, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read the layout %s: %w", dir, err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the layout %s: %w", dir, err)
	}
	for _, d := range manifest.Manifests {
		index, err := outer.ImageIndex(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read the layout %s: %w", dir, err)
		}
		inner, err := index.IndexManifest()
		if err != nil {
			return nil, fmt.Errorf("read the layout %s: %w", dir, err)
		}
		for _, one := range inner.Manifests {
			if one.Platform != nil && one.Platform.OS == platform.OS && one.Platform.Architecture == platform.Architecture {
				return index.Image(one.Digest)
			}
		}
	}
	return nil, fmt.Errorf("the layout %s has no image for %s", dir, platform)
}

// Unpack writes the programs of an image into a folder.
func Unpack(of v1.Image, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil { //nolint:gosec // programs are for everybody to run
		return fmt.Errorf("unpack: %w", err)
	}
	stream := mutate.Extract(of)
	defer stream.Close()
	for reader := tar.NewReader(stream); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		if header.Typeflag != tar.TypeReg || path.Dir(path.Clean(header.Name)) != "bin" {
			continue
		}
		if err := writeProgram(filepath.Join(into, path.Base(header.Name)), reader); err != nil {
			return fmt.Errorf("unpack %s: %w", header.Name, err)
		}
	}
}

// writeProgram replaces the file of a program, which may be running.
func writeProgram(name string, content io.Reader) error {
	next := name + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // as in Unpack
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.LimitReader(content, maxProgram))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(next, name)
}
