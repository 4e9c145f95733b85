package store

import (
	"context"
	"fmt"
)

// SynchronousStandby reports whether the server waits for a standby before it answers a
// commit, so that a failover loses nothing that was answered. It reads the settings,
// because only an administrator may see the connected standbys. While none of the named
// standbys is connected, commits wait.
func (s *Store) SynchronousStandby(ctx context.Context) (bool, error) {
	var waits bool
	err := s.pool.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') NOT IN ('off', 'local')`).Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("read the settings of the synchronous standby: %w", err)
	}
	return waits, nil
}
