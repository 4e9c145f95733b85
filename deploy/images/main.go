// Images builds the marketplace's programs and writes an image of each, as an OCI layout,
// without a Docker daemon and without a base image:
//
//	images -out .bin/images [-platforms linux/amd64,linux/arm64] [-only name,...]
//	images -out .bin/images -unpack DIR -platforms linux/amd64
//	images -out .bin/agents -agents [-platforms linux/amd64,darwin/arm64] [-sign KEYFILE]
//
// It writes <out>/<image>/ (a layout whose index names the image for every platform),
// digests.json (each image's digest by its name), values.yaml (those of the services, as the
// chart reads them) and images.env (each image's reference, for compose.yaml). The same commit
// and the same Go give the same digests anywhere: see package image for what an image holds,
// and package program for how programs are built.
// With -unpack it builds nothing and writes the programs of the images in <out> to DIR.
// With -agents it writes archives of the agent for Linux and macOS, Debian packages, their
// checksums and the script that installs them, and no image: see package archive. With -sign it
// has ssh-keygen sign the checksums.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"svc.internal/deploy/images/image"
	"svc.internal/deploy/images/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	tree, out string
	platforms []image.Platform
	images    []program.Image
	// registry is what the references of images begin with.
	registry string
	// source is the URL of the source, where it is published.
	source string
	// unpack is a folder for the programs of images that were written before.
	unpack string
	// agents reports whether archives of the agent are written for targets, and no images.
	agents  bool
	targets []target
	// sign is the file of the key with which ssh-keygen signs the checksums; empty for none.
	sign string
}

func run(ctx context.Context, args []string) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	if opts.unpack != "" {
		return unpack(opts)
	}
	commit, err := readCommit(ctx, opts.tree)
	if err != nil {
		return err
	}
	if opts.agents {
		return buildAgents(ctx, release{opts.tree, opts.out, opts.targets, opts.sign}, commit)
	}
	work, err := os.MkdirTemp("", "images-")
	if err != nil {
		return fmt.Errorf("make a folder for the programs: %w", err)
	}
	built, err := build(ctx, opts, commit, work)
	if err := errors.Join(err, os.RemoveAll(work)); err != nil {
		return err
	}
	if err := write(opts.out, opts.registry, commit, built); err != nil {
		return err
	}
	return table(os.Stdout, built)
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	opts := options{}
	flags.StringVar(&opts.tree, "tree", "../..", "root of the tree")
	flags.StringVar(&opts.out, "out", "../../.bin/images", "folder of the layouts")
	flags.StringVar(&opts.registry, "registry", "svc.internal", "what the images' names begin with")
	flags.StringVar(&opts.source, "source", "", "URL of the source, where it is published")
	flags.StringVar(&opts.unpack, "unpack", "", "folder for the programs of the images in out, of the first platform")
	flags.BoolVar(&opts.agents, "agents", false, "write archives of the agent instead of images")
	flags.StringVar(&opts.sign, "sign", "", "with -agents, the file of an SSH key that signs the checksums")
	platforms := flags.String("platforms", "", "what is built, such as linux/amd64, with commas; empty means all")
	only := flags.String("only", "", "names of the images; empty means all")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	if err := opts.choosePlatforms(*platforms); err != nil {
		return opts, err
	}
	var err error
	opts.images, err = program.Choose(*only)
	return opts, err
}

// choosePlatforms reads for which platforms to build; an empty list means all.
func (o *options) choosePlatforms(list string) (err error) {
	if o.agents {
		o.targets, err = chooseTargets(list)
		return err
	}
	if list == "" {
		list = "linux/amd64,linux/arm64"
	}
	for name := range strings.SplitSeq(list, ",") {
		platform, err := image.ParsePlatform(name)
		if err != nil {
			return err
		}
		o.platforms = append(o.platforms, platform)
	}
	return nil
}

// unpack writes the programs of the images that were written before.
func unpack(opts options) error {
	for _, of := range opts.images {
		one, err := image.Read(filepath.Join(opts.out, of.Name), opts.platforms[0])
		if err != nil {
			return err
		}
		if err := image.Unpack(one, opts.unpack); err != nil {
			return fmt.Errorf("%s: %w", of.Name, err)
		}
	}
	return nil
}

// build builds all programs for all platforms, as many at once as there are processors,
// and makes their images.
func build(ctx context.Context, opts options, commit commit, work string) ([]built, error) {
	roots, err := image.Roots(commit.time)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	images := make([][]image.Image, len(opts.images))
	for i, of := range opts.images {
		images[i] = make([]image.Image, len(opts.platforms))
		for j, platform := range opts.platforms {
			group.Go(func() (err error) {
				files, err := of.Build(ctx, opts.tree, commit.version(), platform.Env(), work)
				if err != nil {
					return err
				}
				images[i][j], err = image.New(opts.about(of, commit), platform, roots, files, of.Args)
				if err != nil {
					return fmt.Errorf("make the image of %s for %s: %w", of.Name, platform, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var all []built
	for i, of := range opts.images {
		index, err := image.NewIndex(opts.about(of, commit), images[i])
		if err != nil {
			return nil, fmt.Errorf("make the image of %s: %w", of.Name, err)
		}
		all = append(all, built{of.Name, index})
	}
	return all, nil
}

// about is what an image says about itself.
func (o options) about(of program.Image, commit commit) image.About {
	return image.About{
		Title: of.Name, Description: of.Title, Revision: commit.revision, Version: commit.version(), Source: o.source,
		Time: commit.time,
	}
}
