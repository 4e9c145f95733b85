package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"svc.internal/deploy/images/image"
	"svc.internal/deploy/images/program"
	"svc.internal/deploy/sbom/cyclonedx"
)

// tiny is a program of the tests. It says who runs it, and what it was given.
const tiny = `package main

import (
	"fmt"
	"os"
)

func main() {
	_, err := os.Stat("/bin/sh")
	fmt.Println(os.Getuid(), os.Getgid(), os.Args, len(os.Environ()), os.IsNotExist(err))
}
`

// testCommit is what the tests' images say they were built from.
var testCommit = commit{revision: "0123456789abcdef0123456789abcdef01234567", time: time.Unix(1_700_000_000, 0).UTC()}

// buildTiny builds the tests' program from a folder of its own, and its image.
func buildTiny(t *testing.T) []built {
	t.Helper()
	tree := t.TempDir()
	for name, text := range map[string]string{
		"tiny/go.mod": "module example.com/tiny\n\ngo 1.26.0\n", "tiny/cmd/tinyprogram/main.go": tiny,
	} {
		file := filepath.Join(tree, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts := options{
		tree: tree, platforms: []image.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}},
		images: []program.Image{{Name: "tiny", Title: "a test", Module: "tiny",
			Programs: []program.Program{{Name: "tinyprogram", Package: "./cmd/tinyprogram"}}, Args: []string{"run"}}},
		source: "https://example.com/source",
	}
	all, err := build(t.Context(), opts, testCommit, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// writeTiny writes the image of the tests' program and returns the folder of the layouts.
func writeTiny(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	if err := write(out, "svc.internal", testCommit, buildTiny(t)); err != nil {
		t.Fatal(err)
	}
	return out
}

// readLayout returns the image of a layout for each platform, and its digest.
func readLayout(t *testing.T, dir string) (map[string]v1.Image, string) {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("images in the layout %s: got %d, want 1", dir, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	index, err := outer.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the layout %s: got the error %v, want none", dir, err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, d := range inner.Manifests {
		if images[d.Platform.OS+"/"+d.Platform.Architecture], err = index.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return images, digest.String()
}

// extract writes the files of an image below dir, as owner where the image says so, and
// returns the header of each.
func extract(t *testing.T, of v1.Image, dir string) map[string]*tar.Header {
	t.Helper()
	stream := mutate.Extract(of)
	defer stream.Close()
	reader, headers := tar.NewReader(stream), map[string]*tar.Header{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(header.Name, "/")
		headers[name] = header
		file := filepath.Join(dir, filepath.FromSlash(name))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(file, 0o755) // another user runs the program there
		} else {
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = os.WriteFile(file, content, fs.FileMode(header.Mode))
			}
		}
		if err == nil && header.Uid != 0 && os.Getuid() == 0 {
			err = os.Lchown(file, header.Uid, header.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// start runs the program of an image with the image's own environment and environ in the
// image's own root, as the image's own user, and returns what it prints and how it ends.
func start(t *testing.T, of v1.Image, root string, environ []string, args ...string) (string, error) {
	t.Helper()
	file, err := of.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	entry := file.Config.Entrypoint[0]
	cmd := exec.CommandContext(ctx, entry, args...)
	cmd.Dir, cmd.Env = "/", slices.Concat(file.Config.Env, environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if os.Getuid() != 0 {
		// A user namespace lets anybody change the root, where the kernel permits it.
		cmd.SysProcAttr.Credential = nil
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// rootDir is a folder that every user may pass through.
func rootDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rootfs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil { // another user runs the program there
		t.Fatal(err)
	}
	return dir
}

// host is the platform of this machine.
func host(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOHOSTARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return "linux/" + strings.TrimSpace(string(out))
}

func TestTwoBuildsInTwoFoldersGiveTheSameDigest(t *testing.T) {
	one, two := writeTiny(t), writeTiny(t)
	for _, file := range []string{digestsFile, variablesFile, valuesFile, "tiny/index.json"} {
		first, err := os.ReadFile(filepath.Join(one, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(two, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s of two builds: got %q and %q, want the same", file, first, second)
		}
	}
}

func TestAnImageStartsItsProgramAsNobodyWithoutAShell(t *testing.T) {
	images, _ := readLayout(t, filepath.Join(writeTiny(t), "tiny"))
	root := rootDir(t)
	of := images[host(t)]
	extract(t, of, root)
	out, err := start(t, of, root, nil, "a", "b")
	if err != nil {
		t.Fatalf("got the error %v, want none: %s", err, out)
	}
	if want := "65532 65532 [/bin/tinyprogram a b] 2 true\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// contents are the names of all files and folders of an image.
func contents(programs []string) []string {
	names := []string{"bin", "etc", "etc/ssl", "etc/ssl/certs", "etc/ssl/certs/ca-certificates.crt", "sbom", "var",
		"var/lib", "var/lib/svc"}
	for _, program := range programs {
		names = append(names, "bin/"+program, "sbom/"+program+cyclonedx.Extension)
	}
	slices.Sort(names)
	return names
}

// checkFiles checks that an image has its programs, what they are made of and nothing else.
func checkFiles(t *testing.T, headers map[string]*tar.Header, programs ...string) {
	t.Helper()
	if got, want := slices.Sorted(maps.Keys(headers)), contents(programs); !slices.Equal(got, want) {
		t.Errorf("files: got %v, want %v", got, want)
	}
	for name, header := range headers {
		owner := 0
		if name == "var/lib/svc" {
			owner = 65532
		}
		if header.Uid != owner {
			t.Errorf("owner of %s: got %d, want %d", name, header.Uid, owner)
		}
		if header.Mode&0o022 != 0 {
			t.Errorf("mode of %s: got %o, want none that others write", name, header.Mode)
		}
		if header.Mode&0o6000 != 0 {
			t.Errorf("mode of %s: got %o, want no other user's rights", name, header.Mode)
		}
	}
}

// checkDocument checks that the document in an image is about its program.
func checkDocument(t *testing.T, root, program string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(root, "sbom", program+cyclonedx.Extension))
	if err != nil {
		t.Fatal(err)
	}
	want, err := cyclonedx.Of(filepath.Join(root, "bin", program))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the document of %s: got %.200s, want %.200s", program, got, want)
	}
	var document struct {
		Format string `json:"bomFormat"`
	}
	if err := json.Unmarshal(got, &document); err != nil {
		t.Fatal(err)
	}
	if document.Format != "CycloneDX" {
		t.Errorf("the format: got %q, want CycloneDX", document.Format)
	}
}

func TestAnImageHasItsProgramAndWhatItIsMadeOfAndNothingElse(t *testing.T) {
	images, digest := readLayout(t, filepath.Join(writeTiny(t), "tiny"))
	if got, want := slices.Sorted(maps.Keys(images)), []string{"linux/amd64", "linux/arm64"}; !slices.Equal(got, want) {
		t.Fatalf("platforms: got %v, want %v", got, want)
	}
	if !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("the digest: got %s, want a sha256", digest)
	}
	for _, of := range images {
		root := rootDir(t)
		checkFiles(t, extract(t, of, root), "tinyprogram")
		checkDocument(t, root, "tinyprogram")
	}
}

func TestTheProgramsOfImagesAreUnpackedForOnePlatform(t *testing.T) {
	out, into := writeTiny(t), t.TempDir()
	opts := options{out: out, unpack: into, images: []program.Image{{Name: "tiny"}}}
	opts.platforms = []image.Platform{{OS: "linux", Architecture: strings.TrimPrefix(host(t), "linux/")}}
	for range 2 { // the second time the program is there
		if err := unpack(opts); err != nil {
			t.Fatal(err)
		}
	}
	got, err := exec.CommandContext(t.Context(), filepath.Join(into, "tinyprogram")).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), "tinyprogram]") {
		t.Errorf("got %q, want what the program prints", got)
	}
	opts.platforms[0].Architecture = "riscv64"
	if err := unpack(opts); err == nil {
		t.Error("a platform without an image: got no error, want one")
	}
}

func TestAnImageSaysWhatItIs(t *testing.T) {
	images, _ := readLayout(t, filepath.Join(writeTiny(t), "tiny"))
	want := map[string]string{
		"org.opencontainers.image.title": "tiny", "org.opencontainers.image.description": "a test",
		"org.opencontainers.image.revision": testCommit.revision, "org.opencontainers.image.version": "0123456789ab",
		"org.opencontainers.image.source":  "https://example.com/source",
		"org.opencontainers.image.created": "2023-11-14T22:13:20Z", "org.opencontainers.image.licenses": "Apache-2.0",
	}
	for platform, of := range images {
		file, err := of.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := of.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(file.Config.Labels, want) {
			t.Errorf("labels for %s: got %v, want %v", platform, file.Config.Labels, want)
		}
		if !maps.Equal(manifest.Annotations, want) {
			t.Errorf("annotations for %s: got %v, want %v", platform, manifest.Annotations, want)
		}
		if got := file.OS + "/" + file.Architecture; got != platform {
			t.Errorf("platform: got %s, want %s", got, platform)
		}
		if file.Config.User != "65532:65532" {
			t.Errorf("user: got %q, want 65532:65532", file.Config.User)
		}
		if want := []string{"run"}; !slices.Equal(file.Config.Cmd, want) {
			t.Errorf("arguments: got %v, want %v", file.Config.Cmd, want)
		}
	}
}

func TestWhatNoImageIsMadeForIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-platforms", "linux/386"}, {"-platforms", "windows/amd64"}, {"-platforms", "amd64"},
		{"-only", "nobody"}, {"-only", "catalog,"}, {"catalog"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: got no error, want one", args)
		}
	}
}

func TestATreeThatIsNoCloneNeedsItsRevisionAndTime(t *testing.T) {
	empty := t.TempDir()
	if _, err := readCommit(t.Context(), empty); err == nil {
		t.Error("without a clone: got no error, want one")
	}
	t.Setenv("SOURCE_REVISION", "abc"+dirty)
	t.Setenv("SOURCE_DATE_EPOCH", "soon")
	if _, err := readCommit(t.Context(), empty); err == nil {
		t.Error("a time that is no number: got no error, want one")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "60")
	t.Setenv("SOURCE_REVISION", "abc -X main.other=1")
	if _, err := readCommit(t.Context(), empty); err == nil {
		t.Error("a revision that is more than one argument: got no error, want one")
	}
	t.Setenv("SOURCE_REVISION", "abc"+dirty)
	got, err := readCommit(t.Context(), empty)
	if err != nil {
		t.Fatal(err)
	}
	if !got.time.Equal(time.Unix(60, 0)) {
		t.Errorf("the time: got %v, want %v", got.time, time.Unix(60, 0))
	}
	if got.version() != "abc"+dirty {
		t.Errorf("the version: got %q, want %q", got.version(), "abc"+dirty)
	}
}

func TestAChangedTreeSaysSo(t *testing.T) {
	tree := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "a"},
	} {
		if _, err := git(t.Context(), tree, args...); err != nil {
			t.Fatal(err)
		}
	}
	clean, err := readCommit(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(clean.revision, dirty) {
		t.Errorf("the revision of a clean tree: got %q, want no %s", clean.revision, dirty)
	}
	if err := os.WriteFile(filepath.Join(tree, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := readCommit(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if changed.revision != clean.revision+dirty {
		t.Errorf("the revision of a changed tree: got %q, want %q", changed.revision, clean.revision+dirty)
	}
}
