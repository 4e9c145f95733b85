package events

import (
	"log/slog"

	"svc.internal/services/provider-hub/internal/session"
)

// WarmAnswers take agents' answers to the warm-ups that Warmups asked for.
type WarmAnswers struct {
	attempts *Attempts
	count    func(WarmOutcome)
	log      *slog.Logger
}

// NewWarmAnswers returns answers that attempts reports to the routers. count is called
// for every outcome; it must not block.
func NewWarmAnswers(attempts *Attempts, count func(WarmOutcome), log *slog.Logger) *WarmAnswers {
	return &WarmAnswers{attempts: attempts, count: count, log: log}
}

// Heard takes an agent's answer. It is called under the session's lock.
func (a *WarmAnswers) Heard(s *session.Session, answer session.Warmed) {
	who := s.Identity()
	line := a.log.With("provider_id", who.ProviderID, "node_id", who.NodeID,
		"model_id", answer.Model, "load_time", answer.LoadTime)
	if answer.Success {
		a.count(WarmLoaded)
		line.Info("a model was warmed up")
	} else {
		a.count(WarmFailed)
		line.Warn("a model could not be warmed up", "error", answer.Error)
	}
	a.attempts.Probed(who, answer)
}
