package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// programs are the packages of a fleet's programs, in the order of the workspace.
func programs() []string {
	all := []string{"github.com/nats-io/nats-server/v2", "svc.internal/services/provider-agent/cmd/svc-agent",
		"svc.internal/services/proving/cmd/tinylm", "svc.internal/services/standalone/cmd/" + groupProgram}
	for _, service := range Services() {
		module := service
		if service == Signer {
			module = Settlement // the signer has settlement's module
		}
		all = append(all, "svc.internal/services/"+module+"/cmd/"+service)
	}
	return all
}

// Build builds the programs of a fleet from the tree of the working directory, with build
// tags, and returns their folder: .bin/fleet at the root of the tree, or
// .bin/fleet-<tags>. It skips programs that are up to date. Only one build at a time runs
// in a folder, so that test binaries side by side build once. The programs have no DWARF,
// because that is almost a third of a link, and stacks need none.
func Build(ctx context.Context, tags string) (string, error) {
	root, err := Tree()
	if err != nil {
		return "", err
	}
	name := "fleet"
	if tags != "" {
		name += "-" + tags
	}
	dir := filepath.Join(root, ".bin", name)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // programs are for everybody to run
		return "", fmt.Errorf("build the fleet: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("build the fleet: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("build the fleet: %w", err)
	}
	args := append([]string{"build", "-tags", tags, "-ldflags=-w", "-o", dir + string(filepath.Separator)}, programs()...)
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // packages of this tree
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the fleet: %w\n%s", err, out)
	}
	return dir, nil
}

// Tree is the nearest folder above the working directory with a go.work.
func Tree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the tree: %w", err)
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.work"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the tree: no go.work above the working directory: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}
