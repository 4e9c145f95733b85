package standing

import (
	"slices"
	"time"

	"svc.internal/services/verifier/internal/ladder"
)

// clean ends what lasts until nothing has spoken against the provider for
// ladder.CleanPeriod: the count of penalties, the failures of benchmarks, and the fresh M
// that lives on behind a recovery. Without a recovery M has no end in time, because a slow
// cheat needs weeks to be seen.
func (m *move) clean() {
	calm := m.Level == ladder.Normal || m.Level == ladder.Watch
	if !calm || !ladder.Clean(m.UncleanAt, m.at) {
		return
	}
	m.CleanedAt = m.at
	if !m.RecoveredAt.IsZero() && ladder.Clean(m.RecoveredAt, m.at) {
		m.reset()
		m.RecoveredAt = time.Time{}
	}
	if !slices.Contains([]ladder.Run{ladder.Warned, ladder.Fined, ladder.Removed}, m.Run) {
		return
	}
	if to, e, _, err := ladder.AfterRun(m.Run, ladder.Expire, false); err == nil {
		m.Run, m.BenchLane = to, e.Lane
	}
}

// penalties returns how many penalties of the provider count.
func (m *move) penalties() int {
	if m.CleanedAt.Sub(m.world.LastPenaltyAt) >= ladder.CleanPeriod {
		return 0
	}
	return m.world.Penalties
}

// reset sets M and the hours with b = 1 to their beginnings.
func (m *move) reset() {
	m.Process.Reset()
	m.ResetAt, m.Hours = m.at, nil
}

// unclean records that something spoke against the provider.
func (m *move) unclean() { m.UncleanAt = m.at }
