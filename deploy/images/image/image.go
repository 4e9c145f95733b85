// Package image makes OCI images of static programs: from scratch, without a shell, for a
// user who is not root.
//
// An image has two layers. The first holds the root certificates of public CAs, and is the
// same in all images. The second holds the program at /bin/<program>, its SBOM (CycloneDX)
// at /sbom/<program>.cdx.json, and /var/lib/svc, a folder of the program's user, from which
// a new volume that is mounted there takes its owner. Nothing else is in an
// image: no /etc/passwd, no /tmp, no time zones, because no program asks for one.
//
// The SBOM lies in the image and not beside it as a referrer, for two reasons. It stays with
// the image through every copy, also through those that know no referrers, such as docker
// load. And whoever imports all manifests of a layout for one platform need not know what
// to do with a manifest that has none.
//
// The authorities are those of Mozilla as Go's security team publishes them in
// golang.org/x/crypto/x509roots, so that go.sum pins them. An authority that is trusted
// only for certificates before some date is left out, because a file of certificates cannot
// say so.
//
// Every time in an image is the commit's, owners and modes are set here, and entries are in
// one order, so the same program gives the same digest.
package image

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"svc.internal/deploy/sbom/cyclonedx"
)

const (
	// User is the user and the group as which the program runs. They are numbers, so that
	// Kubernetes can tell that the user is not root.
	User = "65532:65532"

	userID = 65532
	// StateDir may be written to, where something is mounted there.
	StateDir = "/var/lib/svc"

	licenses = "Apache-2.0"
)

// About is what an image says about itself.
type About struct {
	Title, Description, Revision, Version string
	// Source is the URL of the source; empty means that it is not published.
	Source string
	Time   time.Time
}

// labels are the same in the configuration, where Docker shows them, and as annotations,
// where registries do.
func (a About) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       a.Title,
		"org.opencontainers.image.description": a.Description,
		"org.opencontainers.image.revision":    a.Revision,
		"org.opencontainers.image.version":     a.Version,
		"org.opencontainers.image.created":     a.Time.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    licenses,
	}
	if a.Source != "" {
		labels["org.opencontainers.image.source"] = a.Source
	}
	return labels
}

// Platform is a system and a processor.
type Platform struct{ OS, Architecture string }

// ParsePlatform reads linux/amd64.
func ParsePlatform(text string) (Platform, error) {
	system, architecture, ok := strings.Cut(text, "/")
	if !ok || system != "linux" || architecture != "amd64" && architecture != "arm64" {
		return Platform{}, fmt.Errorf("there are no images for %q: want linux/amd64 or linux/arm64", text)
	}
	return Platform{system, architecture}, nil
}

// String is the form that ParsePlatform reads.
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// Env are the variables by which Go builds for the platform.
func (p Platform) Env() []string { return []string{"GOOS=" + p.OS, "GOARCH=" + p.Architecture} }

func (p Platform) descriptor() *v1.Platform {
	d := &v1.Platform{OS: p.OS, Architecture: p.Architecture}
	if p.Architecture == "arm64" {
		d.Variant = "v8"
	}
	return d
}

// Image is the image for one platform.
type Image struct {
	Platform Platform
	image    v1.Image
	// Programs is the size of the programs, and Sent that of what a registry sends, in bytes.
	Programs, Sent int64
}

// New makes the image for one platform. files are its programs on this machine, whose names
// are those in the image; the first starts, with args unless others are given. roots is the
// layer of Roots.
func New(about About, platform Platform, roots v1.Layer, files, args []string) (Image, error) {
	made := Image{Platform: platform}
	layer, size, err := programLayer(files, about.Time)
	if err != nil {
		return made, err
	}
	made.Programs = size
	history := func(by string) v1.History { return v1.History{Created: v1.Time{Time: about.Time}, CreatedBy: by} }
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	layered, err := mutate.Append(base,
		mutate.Addendum{Layer: roots, History: history("authorities of public servers"), MediaType: types.OCILayer},
		mutate.Addendum{Layer: layer, History: history("programs"), MediaType: types.OCILayer})
	if err != nil {
		return made, err
	}
	file, err := layered.ConfigFile()
	if err != nil {
		return made, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.descriptor().Variant
	file.Created = v1.Time{Time: about.Time}
	file.Config = v1.Config{
		User: User, Entrypoint: []string{"/bin/" + filepath.Base(files[0])}, Cmd: args, WorkingDir: StateDir,
		Env: []string{"PATH=/bin", "HOME=" + StateDir}, Labels: about.labels(),
	}
	configured, err := mutate.ConfigFile(layered, file)
	if err != nil {
		return made, err
	}
	annotated, ok := mutate.Annotations(configured, about.labels()).(v1.Image)
	if !ok {
		return made, errors.New("annotate: the result is no image")
	}
	made.image = annotated
	made.Sent, err = sent(annotated)
	return made, err
}

// sent is the size of an image's layers and configuration as a registry sends them.
func sent(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}

// programLayer makes the layer with the programs, the documents about them, and the folder
// for state. It returns the size of the programs, too.
func programLayer(files []string, at time.Time) (v1.Layer, int64, error) {
	var size int64
	programs := []entry{{name: "bin/", mode: 0o755}}
	documents := []entry{{name: "sbom/", mode: 0o755}}
	for _, file := range files {
		text, err := readFile(file)
		if err != nil {
			return nil, 0, err
		}
		document, err := cyclonedx.Of(file)
		if err != nil {
			return nil, 0, err
		}
		name := filepath.Base(file)
		size += int64(len(text))
		programs = append(programs, entry{name: "bin/" + name, mode: 0o755, content: text})
		documents = append(documents,
			entry{name: "sbom/" + name + cyclonedx.Extension, mode: 0o644, content: document})
	}
	layer, err := newLayer(at, slices.Concat(programs, documents, []entry{
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: strings.TrimPrefix(StateDir, "/") + "/", mode: 0o700, owner: userID},
	}))
	return layer, size, err
}

// Digest is the digest of the image for its platform.
func (i Image) Digest() (string, error) {
	digest, err := i.image.Digest()
	return digest.String(), err
}
