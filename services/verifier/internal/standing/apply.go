package standing

import (
	"slices"
	"time"

	"svc.internal/services/verifier/internal/ladder"
)

// Apply returns the state after an event, and what it brought. at is the database's clock.
// It is pure. With an error the state stays as it was.
func (s State) Apply(e Event, at time.Time, w World) (State, Outcome, error) {
	if err := w.check(); err != nil {
		return s, Outcome{}, err
	}
	if !slices.Contains(ladder.Levels(), s.Level) || !slices.Contains(ladder.Runs(), s.Run) {
		return s, Outcome{}, refuse("the state is none")
	}
	m := move{State: s.clone(), at: micros(at), world: w}
	m.clean()
	m.Unjudged.lapse(m.at)
	if err := m.event(e); err != nil {
		return s, Outcome{}, err
	}
	m.out.Published = m.Publish(at, w)
	return m.State, m.out, nil
}

// event moves the state by whatever the event is.
func (m *move) event(e Event) error {
	switch e.Name() {
	case "judged":
		return m.judged(*e.Judged)
	case "paired":
		m.Pairs.Observe(e.Paired.ProbeFailed, e.Paired.OrganicFailed)
		return nil
	case "ticked":
		m.climb()
		return nil
	case "run":
		return m.run(*e.Run)
	case "penalty":
		return m.penalty(*e.Penalty)
	case "voided":
		return m.void(*e.Voided)
	case "asked":
		return m.ask()
	case "operator":
		return m.approve(*e.Operator)
	}
	return refuse("it is not exactly one thing")
}

// ask records that the provider asks for a benchmark.
func (m *move) ask() error {
	last := m.RunAt
	if m.Asked.After(last) {
		last = m.Asked
	}
	if !last.IsZero() && lasted(last, m.at) < ladder.AskPause {
		return refuse("a benchmark may be asked for once in %v", ladder.AskPause)
	}
	m.Asked = m.at
	return nil
}
