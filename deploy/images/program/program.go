// Package program lists the programs that images are made of, and builds them so that the
// same source and the same Go give the same bytes.
//
// A program is built by its own module (GOWORK=off), static (CGO_ENABLED=0), without the
// paths of the machine (-trimpath), without the state of the clone (-buildvcs=false: a
// shallow clone knows fewer tags) and without the tables that only debuggers read. Nothing
// else of the environment changes it: GOFLAGS, GOEXPERIMENT and the processor's level are
// set here. Stacks of a panic name functions and lines as ever.
package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Image is an image and the programs in it.
type Image struct {
	// Name is that of the service, and Title says in a few words what it does.
	Name, Title string
	// Module is the folder of the module that builds the programs.
	Module string
	// Programs are in the image. A container starts the first program.
	Programs []Program
	// Args are the arguments that it has unless others are given.
	Args []string
}

// Program is a program: Name is the name of its file, and Package what go build is given.
type Program struct{ Name, Package string }

// Support is the image with what a fleet of compose.yaml needs beside its services.
const Support = "fleet-support"

// Group is the image of a pod with several services, which the chart may make of some.
const Group = "standalone"

// all are the services of a fleet, Group, what a provider runs, and Support.
var all = []Image{
	service("catalog", "services/catalog", "models and their prices"),
	service("billing-ledger", "services/billing-ledger", "accounts, holds and the ledger"),
	service("chain-signer", "services/settlement", "signs what settlement sends to chains"),
	service("settlement", "services/settlement", "earnings, payouts and collateral"),
	service("router", "services/router", "chooses a provider for each request"),
	service("provider-hub", "services/provider-hub", "holds the connections of providers"),
	service("verifier", "services/verifier", "benchmarks and probes providers"),
	service("edge-gateway", "services/edge-gateway", "the public API"),
	{
		Name: Group, Title: "several services in one process", Module: "services/standalone",
		// The hub's own program is there for its tools, which operators run in the hub's pod.
		Programs: []Program{{"standalone", "./cmd/standalone"},
			{"provider-hub", "svc.internal/services/provider-hub/cmd/provider-hub"}},
	},
	{
		Name: "provider-agent", Title: "offers the models of an engine", Module: "services/provider-agent",
		Programs: []Program{{"svc-agent", "./cmd/svc-agent"}}, Args: []string{"run"},
	},
	{
		Name: Support, Title: "certificates, NATS and a tiny engine for a fleet on one machine", Module: "services/proving",
		Programs: []Program{
			{"fleetfiles", "./cmd/fleetfiles"}, {"nats-server", "github.com/nats-io/nats-server/v2"}, {"tinylm", "./cmd/tinylm"},
		},
	},
}

func service(name, module, title string) Image {
	return Image{Name: name, Title: title, Module: module, Programs: []Program{{name, "./cmd/" + name}}}
}

// Services are the names of the images with one of the marketplace's services.
func Services() []string {
	return slices.DeleteFunc(Deployed(), func(name string) bool { return name == Group })
}

// Deployed are the names of the images that the chart deploys: Services, and Group.
func Deployed() []string {
	var names []string
	for _, image := range all {
		if image.Programs[0].Name == image.Name {
			names = append(names, image.Name)
		}
	}
	return names
}

// Names are the names of all images.
func Names() []string {
	var names []string
	for _, image := range all {
		names = append(names, image.Name)
	}
	return names
}

// Choose returns the images that are named in list, separated by commas; all for an empty
// list.
func Choose(list string) ([]Image, error) {
	if list == "" {
		return slices.Clone(all), nil
	}
	var chosen []Image
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(Names(), name)
		if i < 0 {
			return nil, fmt.Errorf("there is no image %q: want some of %s", name, strings.Join(Names(), ","))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Build builds the programs of an image for the platform that the variables name, as
// GOOS=linux, in a new folder below into, and returns their files. version is what the
// agent says of itself.
func (i Image) Build(ctx context.Context, tree, version string, platform []string, into string) ([]string, error) {
	dir, err := os.MkdirTemp(into, i.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", i.Name, err)
	}
	var built []string
	for _, p := range i.Programs {
		file := filepath.Join(dir, p.Name)
		cmd := exec.CommandContext(ctx, "go", "build", //nolint:gosec // a package of the tree
			"-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w -X main.release="+version, "-o", file, p.Package)
		cmd.Dir = filepath.Join(tree, filepath.FromSlash(i.Module))
		cmd.Env = append(environment(), platform...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", path.Join(i.Name, p.Name), err, bytes.TrimSpace(out))
		}
		built = append(built, file)
	}
	return built, nil
}

// environment is that of this process, with what changes a program's bytes set.
func environment() []string {
	fixed := []string{
		"GOENV=off", "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
		"GOAMD64=v1", "GOARM64=v8.0",
	}
	return append(os.Environ(), fixed...)
}
