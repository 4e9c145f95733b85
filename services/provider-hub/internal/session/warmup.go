package session

import (
	"slices"
	"time"
)

// capWarmup is what agents of v2 declare that take warm-ups.
const capWarmup = "warmup"

// warmupPause is how long a warm-up of a model makes the next one too many.
const warmupPause = 5 * time.Minute

// examinePause is the same for a node that routers suspect of failing. They leave at
// least 90 s between two.
const examinePause = 80 * time.Second

// maxWarmupError is in characters.
const maxWarmupError = 1024

// WarmUp asks the agent to have a model loaded; what became of it goes to the
// registrar. It fails with ErrGone, ErrNotOffered where the agent does not serve
// the model or takes no warm-ups, or ErrBusy within 5 minutes of the last one.
func (s *Session) WarmUp(id string) error { return s.warm(id, warmupPause) }

// Examine is WarmUp for a model that routers suspect of failing here: the last one may
// be 80 seconds old.
func (s *Session) Examine(id string) error { return s.warm(id, examinePause) }

func (s *Session) warm(id string, pause time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseLive || s.draining {
		return ErrGone
	}
	m := s.models[id]
	if m == nil || !s.takesWarmups() {
		return ErrNotOffered
	}
	now := s.house.clock.Now()
	if !m.warmedAt.IsZero() && now.Sub(m.warmedAt) < pause {
		return ErrBusy
	}
	m.warmedAt = now
	s.wire.warmUp(id)
	return nil
}

// takesWarmups needs the mutex.
func (s *Session) takesWarmups() bool { return s.terms.warmups || slices.Contains(s.caps, capWarmup) }

// warmed passes on what became of a warm-up that was asked for. Needs the mutex.
func (s *Session) warmed(w Warmed) {
	if m := s.models[w.Model]; m == nil || m.warmedAt.IsZero() {
		return
	}
	w.Error = Clean(w.Error, maxWarmupError)
	w.LoadTime = min(max(w.LoadTime, 0), time.Hour)
	s.house.registrar.Warmed(s, w)
}
