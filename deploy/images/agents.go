package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"svc.internal/deploy/images/archive"
	"svc.internal/deploy/images/program"
)

//go:embed install.sh
var installScript []byte

// agent is the image whose program the archives hold.
const agent = "provider-agent"

// sumsName is the file with the checksums of all other files.
const sumsName = "SHA256SUMS"

// target is a system for which there is an archive of the agent.
type target struct{ system, architecture string }

// targets are all targets. Those of Linux have a Debian package as well.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (t target) String() string { return t.system + "/" + t.architecture }

// chooseTargets returns the targets that list names, separated by commas; all targets for an empty list.
func chooseTargets(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no archive for %q: want some of %v", name, targets)
		}
		chosen = append(chosen, targets[i])
	}
	return chosen, nil
}

// release says what is built from which tree, where it is written, and who signs it.
type release struct {
	tree, out string
	targets   []target
	// key is the file of the key with which ssh-keygen signs the checksums; empty for none.
	key string
}

// buildAgents builds the agent for its targets and writes its archives, its packages, their
// checksums and the script that installs them.
func buildAgents(ctx context.Context, r release, commit commit) error {
	chosen, err := program.Choose(agent)
	if err != nil {
		return err
	}
	docs, err := docsOf(r.tree)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "agents-")
	if err != nil {
		return fmt.Errorf("make a folder for the programs: %w", err)
	}
	group, building := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	made := make([][]archive.File, len(r.targets))
	for i, t := range r.targets {
		group.Go(func() (err error) {
			env := []string{"GOOS=" + t.system, "GOARCH=" + t.architecture}
			files, err := chosen[0].Build(building, r.tree, commit.version(), env, work)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(files[0])
			if err != nil {
				return fmt.Errorf("read the agent: %w", err)
			}
			made[i], err = archivesOf(t, text, docs, commit)
			return err
		})
	}
	if err := errors.Join(group.Wait(), os.RemoveAll(work)); err != nil {
		return err
	}
	if err := writeAgents(r.out, made); err != nil {
		return err
	}
	if r.key == "" {
		_, err := fmt.Fprintln(os.Stdout, "The checksums are not signed: no key was given.")
		return err
	}
	return sign(ctx, r.out, r.key)
}

// namespace keeps a signature of a release from counting as a signature of anything else.
const namespace = "svc-agent"

// sign signs the checksums with ssh-keygen, because nearly every machine that installs the agent has
// ssh-keygen, and so can verify the signature. The key may also be in ssh-agent or in hardware. An
// Ed25519 key gives the same signature each time.
func sign(ctx context.Context, out, key string) error {
	//nolint:gosec // the key's file is named by who makes the release
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace,
		filepath.Join(out, sumsName))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sign the checksums: %w\n%s", err, bytes.TrimSpace(text))
	}
	return nil
}

// docsOf are the documents that are packed with the program.
func docsOf(tree string) ([]archive.File, error) {
	var docs []archive.File
	for name, path := range map[string]string{"LICENSE": "LICENSE", "README.md": "services/provider-agent/README.md"} {
		text, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(path)))
		if err != nil {
			return nil, fmt.Errorf("read what goes beside the agent: %w", err)
		}
		docs = append(docs, archive.File{Name: name, Bytes: text})
	}
	if docs[0].Name != "LICENSE" {
		docs[0], docs[1] = docs[1], docs[0]
	}
	return docs, nil
}

// archivesOf are the archive for a target, and its Debian package.
func archivesOf(t target, agent []byte, docs []archive.File, commit commit) ([]archive.File, error) {
	name := fmt.Sprintf("svc-agent-%s-%s", t.system, t.architecture)
	files := append([]archive.File{{Name: "svc-agent", Program: true, Bytes: agent}}, docs...)
	packed, err := archive.TarGz(name, files, commit.time)
	if err != nil {
		return nil, err
	}
	all := []archive.File{{Name: name + ".tar.gz", Bytes: packed}}
	if t.system != "linux" {
		return all, nil
	}
	files = []archive.File{{Name: "usr/bin/svc-agent", Program: true, Bytes: agent}}
	for _, doc := range docs {
		if doc.Name == "LICENSE" {
			doc.Name = "copyright"
		}
		files = append(files, archive.File{Name: "usr/share/doc/svc-agent/" + doc.Name, Bytes: doc.Bytes})
	}
	// The time comes first, so that a later commit is a later version.
	version := fmt.Sprintf("0.%s+%s", commit.time.Format("20060102.150405"), commit.debian())
	deb, err := archive.Deb(archive.Package{
		Name: "svc-agent", Version: version, Architecture: t.architecture, Maintainer: "svc <noreply@svc.internal>",
		Summary: "offers the models of an inference engine to the marketplace",
	}, files, commit.time)
	if err != nil {
		return nil, err
	}
	return append(all, archive.File{Name: "svc-agent-" + t.architecture + ".deb", Bytes: deb}), nil
}

// writeAgents writes the archives anew, with their checksums and the script. Everybody may read them,
// whatever the umask is, because another user installs the agent.
func writeAgents(out string, made [][]archive.File) error {
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("remove the earlier archives: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // others read it
		return fmt.Errorf("make the folder of archives: %w", err)
	}
	if err := os.Chmod(out, 0o755); err != nil { //nolint:gosec // the umask has taken from it
		return fmt.Errorf("make the folder of archives: %w", err)
	}
	var all []archive.File
	for _, files := range made {
		all = append(all, files...)
	}
	all = append(all, archive.File{Name: "install.sh", Program: true, Bytes: installScript})
	sums := archive.Sums(all)
	for _, f := range append(all, archive.File{Name: sumsName, Bytes: sums}) {
		mode := os.FileMode(0o644)
		if f.Program {
			mode = 0o755
		}
		path := filepath.Join(out, f.Name)
		if err := errors.Join(os.WriteFile(path, f.Bytes, mode), os.Chmod(path, mode)); err != nil {
			return fmt.Errorf("write an archive: %w", err)
		}
	}
	_, err := os.Stdout.Write(sums)
	return err
}
