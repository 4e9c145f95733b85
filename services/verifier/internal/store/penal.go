package store

import (
	"context"
	"fmt"
)

// PenalStrata returns how many strata have a calibration that counts now and reaches as far
// as a penalty.
func (s *Store) PenalStrata(ctx context.Context) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, `SELECT count(DISTINCT stratum) FROM (
			SELECT DISTINCT ON (stratum, family) stratum, penal FROM calibration ORDER BY stratum, family, made_at DESC)
				AS last
		WHERE penal`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count calibrated strata: %w", err)
	}
	return n, nil
}
