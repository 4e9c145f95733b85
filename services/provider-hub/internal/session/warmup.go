package session

import (
	"slices"
	"strconv"
	"time"
)

// capWarmup is the capability of agents that take warm-ups.
const capWarmup = "warmup"

// warmupPause is the least pause between two warm-ups of a model.
const warmupPause = 5 * time.Minute

// examinePause is the least pause between two warm-ups of a model where routers suspect
// the node of failing. Routers leave at least 90 s between two.
const examinePause = 80 * time.Second

// maxWarmupError bounds Warmed.Error, in characters.
const maxWarmupError = 1024

// WarmUp asks the agent to have a model loaded. The outcome goes to the registrar. WarmUp
// fails with ErrGone where the session is not live, with ErrNotOffered where the agent
// does not serve the model or takes no warm-ups, and with ErrBusy within 5 minutes of the
// model's last warm-up.
func (s *Session) WarmUp(id string) error { return s.warm(id, warmupPause) }

// Examine is WarmUp for a model that routers suspect of failing here. It fails with
// ErrBusy only within 80 seconds of the model's last warm-up.
func (s *Session) Examine(id string) error { return s.warm(id, examinePause) }

func (s *Session) warm(id string, pause time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() != Live {
		return ErrGone
	}
	m := s.models[id]
	if m == nil || !s.takesWarmupsLocked() {
		return ErrNotOffered
	}
	now := s.env.Clock.Now()
	if !m.warmedAt.IsZero() && now.Sub(m.warmedAt) < pause {
		return ErrBusy
	}
	m.warmedAt = now
	s.pushLocked(Outbound{Kind: OutWarmUp, Name: s.warmupNameLocked(id), Model: id})
	return nil
}

// warmupNameLocked is the name of a warm-up where answers are correlated by name; else
// empty.
func (s *Session) warmupNameLocked(id string) string {
	if s.limits.Strict {
		return ""
	}
	for name, of := range s.warmups {
		if of == id {
			delete(s.warmups, name) // that warm-up was never answered
		}
	}
	s.asked++
	name := "warmup-" + strconv.FormatUint(s.asked, 10)
	s.warmups[name] = id
	return name
}

func (s *Session) takesWarmupsLocked() bool {
	return s.limits.WarmsUp || slices.Contains(s.caps, capWarmup)
}

// warmedLocked passes on the outcome of a warm-up that was asked for.
func (s *Session) warmedLocked(w Warmed) {
	if m := s.models[w.Model]; m == nil || m.warmedAt.IsZero() {
		return
	}
	w.Error = Clean(w.Error, maxWarmupError)
	w.LoadTime = min(max(w.LoadTime, 0), time.Hour)
	s.env.Registrar.Warmed(s, w)
}
