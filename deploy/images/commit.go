package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// dirty is the end of the revision of a tree that differs from its commit.
const dirty = "-dirty"

// versionDigits is how much of a commit's name makes a version.
const versionDigits = 12

// revisions are the revisions that can be a tag, and an argument of the linker.
var revisions = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z._-]{0,127}$`)

// commit is what the images say they were built from.
type commit struct {
	revision string
	time     time.Time
}

// readCommit reads the tree's commit. SOURCE_DATE_EPOCH, where it is set, is the time; it
// and SOURCE_REVISION together replace git, for a tree that is no clone.
func readCommit(ctx context.Context, tree string) (commit, error) {
	c := commit{revision: os.Getenv("SOURCE_REVISION")}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if c.revision == "" {
		revision, err := git(ctx, tree, "rev-parse", "HEAD")
		if err != nil {
			return c, err
		}
		changes, err := git(ctx, tree, "status", "--porcelain")
		if err != nil {
			return c, err
		}
		if c.revision = revision; changes != "" {
			c.revision += dirty
		}
	}
	if !revisions.MatchString(c.revision) {
		return c, fmt.Errorf("SOURCE_REVISION %q is no revision: want letters, digits, ., _ and -", c.revision)
	}
	if epoch == "" {
		var err error
		if epoch, err = git(ctx, tree, "log", "-1", "--format=%ct"); err != nil {
			return c, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return c, fmt.Errorf("SOURCE_DATE_EPOCH %q is no number of seconds", epoch)
	}
	c.time = time.Unix(seconds, 0).UTC()
	return c, nil
}

// version is the revision in short.
func (c commit) version() string {
	clean, changed := strings.CutSuffix(c.revision, dirty)
	clean = clean[:min(len(clean), versionDigits)]
	if changed {
		clean += dirty
	}
	return clean
}

// debian is the version as a part of a Debian version, in which a hyphen would begin the revision.
func (c commit) debian() string { return strings.ReplaceAll(c.version(), "-", ".") }

// git returns what git prints about the tree.
func git(ctx context.Context, tree string, args ...string) (string, error) {
	//nolint:gosec // the arguments are this file's
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = errors.Join(err, errors.New(strings.TrimSpace(string(failed.Stderr))))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
