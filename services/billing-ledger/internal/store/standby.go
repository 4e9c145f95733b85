package store

import (
	"context"
	"fmt"
)

// SynchronousStandby reports whether the server waits for a standby before it
// answers a commit, so that a failover loses nothing that was answered. It asks
// for the settings, which every login may read: who is connected, only an
// administrator sees. While none of the standbys that are named is connected, commits wait.
func (s *Store) SynchronousStandby(ctx context.Context) (bool, error) {
	var waits bool
	err := s.pool.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') NOT IN ('off', 'local')`).Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("ask for the synchronous standby: %w", err)
	}
	return waits, nil
}
