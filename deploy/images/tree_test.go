package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"svc.internal/deploy/images/image"
	"svc.internal/deploy/images/program"
)

// written is the folder of the tree's own images; the test is skipped without one. make
// images-check makes them and names it.
func written(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SVC_IMAGES")
	if dir == "" {
		t.Skip("SVC_IMAGES is not set: make images-check sets it")
	}
	return dir
}

// ofHost is the tree's image of this name for this machine.
func ofHost(t *testing.T, name string) v1.Image {
	t.Helper()
	platform, err := image.ParsePlatform(host(t))
	if err != nil {
		t.Fatal(err)
	}
	of, err := image.Read(filepath.Join(written(t), name), platform)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// says is what an image's program prints, without any setting, that nothing but it prints.
func says(name string) (args []string, want string) {
	switch name {
	case "provider-agent":
		return []string{"version"}, "svc-agent "
	case program.Support:
		return []string{"ready", "-h"}, "fleetfiles ready"
	default:
		return []string{"-print"}, "# SVC_METRICS_ADDR\n"
	}
}

func TestEachImageOfTheTreeStartsItsProgram(t *testing.T) {
	dir, platform := written(t), host(t)
	all, err := program.Choose("")
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range all {
		t.Run(tree.Name, func(t *testing.T) {
			var programs []string
			for _, p := range tree.Programs {
				programs = append(programs, p.Name)
			}
			images, _ := readLayout(t, filepath.Join(dir, tree.Name))
			for name, of := range images {
				root := rootDir(t)
				checkFiles(t, extract(t, of, root), programs...)
				for _, p := range programs {
					checkDocument(t, root, p)
				}
				if name != platform {
					continue
				}
				args, want := says(tree.Name)
				out, err := start(t, of, root, nil, args...)
				if err != nil {
					t.Errorf("got the error %v, want none: %s", err, out)
				}
				if !strings.Contains(out, want) {
					t.Errorf("got %q, want %q in it", out, want)
				}
			}
		})
	}
}

func TestTheDigestsAreThoseOfTheLayouts(t *testing.T) {
	dir := written(t)
	text, err := os.ReadFile(filepath.Join(dir, digestsFile))
	if err != nil {
		t.Fatal(err)
	}
	var digests map[string]string
	if err := json.Unmarshal(text, &digests); err != nil {
		t.Fatal(err)
	}
	names := program.Names()
	slices.Sort(names)
	if got := slices.Sorted(maps.Keys(digests)); !slices.Equal(got, names) {
		t.Errorf("images: got %v, want %v", got, names)
	}
	values, err := os.ReadFile(filepath.Join(dir, valuesFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range program.Deployed() {
		if want := "\n    " + name + ": " + digests[name] + "\n"; !strings.Contains(string(values), want) {
			t.Errorf("the chart's values: got %q, want %q in them", values, want)
		}
	}
	for name, want := range digests {
		if _, got := readLayout(t, filepath.Join(dir, name)); got != want {
			t.Errorf("the digest of %s: got %s, want %s", name, got, want)
		}
	}
}
