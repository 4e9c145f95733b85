package standing

import (
	"fmt"
	"slices"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/trust"
	"svc.internal/services/verifier/internal/window"
)

// largestSpan is how many times the smallest window of a measurement goes into the largest.
const largestSpan = 4_096

// measure begins a measurement of the context window after an exceedance of recall or a
// refusal, moves a measurement that is under way, and acts on its result.
func (m *move) measure(p probe.Plan, j judge.Judgement, said []evidence.Observation) error {
	switch p.Kind {
	case probe.Recall:
		lost := slices.ContainsFunc(said, func(o evidence.Observation) bool {
			return o.Family() == evidence.Recall && o.Exceeded()
		})
		if j.Refused || lost && !m.explained(p) {
			return m.beginMeasuring(p, j.Refused)
		}
	case probe.Measure:
		return m.measured(p, j)
	case probe.Check:
		return m.checked(p, j)
	case probe.Greedy, probe.Sampled, probe.Logprobs, probe.Replay, probe.Embedding, probe.Fingerprint:
	}
	return nil
}

// explained reports whether the measured window explains what a recall lost: its prompt was
// longer.
func (m *move) explained(p probe.Plan) bool {
	return m.MeasuredTokens > 0 && int64(p.PromptTokens) > m.MeasuredTokens
}

// measuring reports whether a measurement is under way.
func (m *move) measuring() bool {
	if m.Measurement == nil {
		return false
	}
	phase := m.Measurement.Phase()
	return phase == window.Measuring || phase == window.Checking
}

// beginMeasuring begins a measurement, which makes the last result worthless. Where the
// stated window is unknown or cannot be measured, none begins. A refused prompt is the
// measurement's first.
func (m *move) beginMeasuring(p probe.Plan, refused bool) error {
	if !m.measuring() {
		largest := int(min(m.world.StatedTokens, window.MaxTokens))
		w, err := window.New(max(window.MinTokens, largest/largestSpan), largest)
		if err != nil {
			return nil //nolint:nilerr // the statement is no window that can be measured
		}
		m.Measurement, m.MeasuredTokens, m.Refused = &w, 0, false
	}
	if !refused {
		return nil
	}
	m.Refused = true
	return m.moved(m.Measurement.Refused(p.PromptTokens))
}

// measured moves the measurement by a prompt of it. An answer that comes when the
// measurement waits for something else is too late and moves nothing.
func (m *move) measured(p probe.Plan, j judge.Judgement) error {
	switch {
	case m.Measurement == nil || m.Measurement.Phase() != window.Measuring:
		return nil
	case j.Refused:
		m.Refused = true
		return m.moved(m.Measurement.Refused(p.PromptTokens))
	case len(j.Needles) == 0:
		return nil
	}
	return m.moved(m.Measurement.Answered(j.Needles))
}

// checked moves the measurement by its check. A window that was measured and does not hold
// any more is measured anew.
func (m *move) checked(p probe.Plan, j judge.Judgement) error {
	if m.Measurement == nil || !j.Refused && len(j.Needles) == 0 {
		return nil
	}
	switch phase := m.Measurement.Phase(); {
	case phase == window.Checking && j.Refused:
		m.Refused = true
		return m.moved(m.Measurement.Refused(p.PromptTokens))
	case phase == window.Checking:
		return m.moved(m.Measurement.Checked(j.CheckPassed))
	case phase == window.Measured && !j.CheckPassed:
		return m.beginMeasuring(p, j.Refused)
	}
	return nil
}

// moved acts on a measurement that has moved: it caps the window that was measured where a
// refusal or a notice for recall asks for that. The cap takes the place of the probe lane.
func (m *move) moved(err error) error {
	if err != nil {
		return fmt.Errorf("move a measurement: %w", err)
	}
	if m.Measurement.Phase() != window.Measured {
		return nil
	}
	m.MeasuredTokens = int64(m.Measurement.Window())
	noticed := m.Level != ladder.Normal && m.Level != ladder.Watch && m.Led == evidence.Recall
	if !noticed && !m.Refused {
		return nil
	}
	m.CapTokens = m.MeasuredTokens
	if noticed && m.MisrepLane == trust.Probe {
		m.MisrepLane = trust.Main
	}
	return nil
}
