package workreceipts

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"svc.internal/services/provider-agent/internal/filelock"
)

const lockName = "lock"

// lockFolder keeps a second agent out of the state folder. Two agents would overwrite
// each other's receipts, and the hub would end each as soon as the other connects,
// because they have one node id. An agent serves also on a file system without locks.
func lockFolder(dir string, log *slog.Logger) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the state folder: %w", err)
	}
	taken, err := filelock.Take(f)
	if taken {
		return nil, errors.Join(
			fmt.Errorf("another agent is running with the state folder %s: stop it, or give each agent a folder of its own",
				dir), f.Close())
	}
	if err != nil {
		log.Warn("the state folder cannot be locked: see that no other agent uses it", "folder", dir, "error", err)
	}
	return f, nil
}
