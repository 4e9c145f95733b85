package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Index is an image for all its platforms.
type Index struct {
	// Digest is what the image is pulled by.
	Digest string
	Images []Image
	index  v1.ImageIndex
}

// NewIndex joins the images for several platforms. It is an index also for one platform, so
// that nobody depends on how many there are.
func NewIndex(about About, images []Image) (Index, error) {
	var adds []mutate.IndexAddendum
	for _, one := range images {
		adds = append(adds, mutate.IndexAddendum{
			Add: one.image, Descriptor: v1.Descriptor{Platform: one.Platform.descriptor()},
		})
	}
	index := mutate.IndexMediaType(mutate.AppendManifests(empty.Index, adds...), types.OCIImageIndex)
	annotated, ok := mutate.Annotations(index, about.labels()).(v1.ImageIndex)
	if !ok {
		return Index{}, errors.New("annotate: the result is no index")
	}
	digest, err := annotated.Digest()
	if err != nil {
		return Index{}, err
	}
	return Index{Digest: digest.String(), Images: images, index: annotated}, nil
}

// Write writes the image as an OCI layout into dir, in place of what is there. The layout
// names it as reference, which has a tag: containerd and Docker import it under that name,
// and skopeo finds it by the tag.
func (x Index) Write(dir, reference, tag string) error {
	next := dir + ".new"
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // images are public
		return fmt.Errorf("write %s: %w", dir, err)
	}
	at, err := layout.Write(next, empty.Index)
	if err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	err = at.AppendIndex(x.index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag,
	}))
	if err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	if err := os.Rename(next, dir); err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	return nil
}
