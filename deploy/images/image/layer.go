package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsFile is where Go looks first for the authorities that it trusts.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// maxProgram bounds a program that is read whole, in bytes.
const maxProgram = 512 << 20

// entry is a file of a layer, or a folder when its name ends in a slash.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// newLayer makes a layer of the entries, in their order.
func newLayer(at time.Time, entries []entry) (v1.Layer, error) {
	var text bytes.Buffer
	writer := tar.NewWriter(&text)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)),
			ModTime: at, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.name, err)
		}
		if _, err := writer.Write(e.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression))
}

// Roots makes the layer with the authorities that public servers are certified by.
func Roots(at time.Time) (v1.Layer, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot bear it
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("write the authorities: %w", err)
		}
	}
	return newLayer(at, []entry{
		{name: "etc/", mode: 0o755}, {name: "etc/ssl/", mode: 0o755}, {name: "etc/ssl/certs/", mode: 0o755},
		{name: rootsFile, mode: 0o644, content: text.Bytes()},
	})
}

// readFile reads a program.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxProgram+1))
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	if len(text) > maxProgram {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxProgram)
	}
	return text, nil
}
