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
	"svc.internal/deploy/images/program"
)

// built is one image for all platforms.
type built struct {
	name  string
	index image.Index
}

// Files beside the layouts.
const (
	// digestsFile has the digest of each image by its name.
	digestsFile = "digests.json"
	// valuesFile has values of the chart that name the images of the services.
	valuesFile = "values.yaml"
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
		digestsFile: append(text, '\n'), variablesFile: []byte(variables.String()), valuesFile: values(registry, digests),
	} {
		if err := os.WriteFile(filepath.Join(out, file), content, 0o644); err != nil { //nolint:gosec // public
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// values are the chart's values for the images that the chart deploys.
func values(registry string, digests map[string]string) []byte {
	text := fmt.Appendf(nil, "images:\n  registry: %s\n  digests:\n", registry)
	for _, name := range program.Deployed() {
		if digest := digests[name]; digest != "" {
			text = fmt.Appendf(text, "    %s: %s\n", name, digest)
		}
	}
	return text
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
