package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"svc.internal/deploy/images/image"
)

// built is one image for all platforms.
type built struct {
	name  string
	index image.Index
}

// Files beside the layouts.
const (
	// digestsFile has the digest of each image by its name, as the chart reads it.
	digestsFile = "digests.json"
	// variablesFile has the variables of compose.yaml.
	variablesFile = "images.env"
)

// write writes the layouts, and what names them.
func write(out, registry string, commit commit, all []built) error {
	digests := map[string]string{}
	var variables strings.Builder
	for _, b := range all {
		name := b.name
		reference := registry + "/" + name + ":" + commit.version()
		if err := b.index.Write(filepath.Join(out, name), reference, commit.version()); err != nil {
			return err
		}
		digests[name] = b.index.Digest
		fmt.Fprintf(&variables, "%s=%s@%s\n", variable(name), reference, b.index.Digest)
	}
	text, err := json.MarshalIndent(digests, "", "  ")
	if err != nil {
		return fmt.Errorf("write the digests: %w", err)
	}
	for file, content := range map[string][]byte{
		digestsFile: append(text, '\n'), variablesFile: []byte(variables.String()),
	} {
		if err := os.WriteFile(filepath.Join(out, file), content, 0o644); err != nil { //nolint:gosec // public
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// variable is the variable of an image's reference: PROVIDER_HUB_IMAGE.
func variable(image string) string {
	return strings.ToUpper(strings.ReplaceAll(image, "-", "_")) + "_IMAGE"
}

// table shows the images with their sizes in MB.
func table(w io.Writer, all []built) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "image\tplatform\tprograms MB\tsent MB\tdigest\t\n")
	for _, b := range all {
		for _, one := range b.index.Images {
			digest, err := one.Digest()
			if err != nil {
				return err
			}
			fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%s\t\n", b.name, one.Platform, megabytes(one.Programs),
				megabytes(one.Sent), digest[:19])
		}
	}
	return t.Flush()
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
