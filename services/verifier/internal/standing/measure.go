package standing

import (
	"fmt"
	"slices"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/trust"
	"svc.internal/services/verifier/internal/window"
)

// boundedSince is the first version of records of which a measurement ends after
// maxMeasuring prompts, or once the window is known to be smaller than any that can be
// measured. Such an offer is unmeasured: it has no cap where it lied, and stays in the probe
// lane. Neither is it measured again while it states about the same window, because a provider
// could have it asked for long prompts without an end.
const boundedSince = 3

// maxMeasuring bounds the prompts of a measurement. Of windows that can be measured, 99.9% are
// within six (package lab).
const maxMeasuring = 24

// largestSpan is how many times the smallest window of a measurement goes into the largest.
const largestSpan = 4_096

// measure begins a measurement of the context window after an exceedance of recall or a
// refusal, moves a measurement that is under way, and acts on its result.
func (m *move) measure(r judge.Record, j judge.Judgement, said []evidence.Observation) error {
	p := r.Plan
	switch p.Kind {
	case probe.Recall:
		lost := slices.ContainsFunc(said, func(o evidence.Observation) bool {
			return o.Family() == evidence.Recall && o.Exceeded()
		})
		if j.Refused || lost && !m.explained(p) {
			return m.beginMeasuring(r, j.Refused)
		}
	case probe.Measure:
		return m.measured(r, j)
	case probe.Check:
		return m.checked(r, j)
	case probe.Greedy, probe.Sampled, probe.Logprobs, probe.Replay, probe.Embedding, probe.Fingerprint:
	}
	return nil
}

// explained reports whether the measured window explains what a recall lost: its prompt was
// longer.
func (m *move) explained(p probe.Plan) bool {
	return m.MeasuredTokens > 0 && int64(p.PromptTokens) > m.MeasuredTokens
}

// Measuring reports whether a measurement of the window is under way.
func (s State) Measuring() bool {
	if s.Measurement == nil {
		return false
	}
	phase := s.Measurement.Phase()
	return phase == window.Measuring || phase == window.Checking
}

// Unmeasured reports whether the last measurement of the window ended without a result.
func (s State) Unmeasured() bool {
	return s.Measurement != nil && s.Measurement.Phase() == window.Abandoned
}

// beginMeasuring begins a measurement, which makes the last result worthless. Where the
// stated window is unknown or cannot be measured, none begins. A refused prompt is the
// measurement's first.
func (m *move) beginMeasuring(r judge.Record, refused bool) error {
	if !m.Measuring() {
		smallest, largest := m.span(r)
		if r.Version >= boundedSince && m.gaveUp(largest) {
			return nil
		}
		w, err := window.New(smallest, largest)
		if err != nil {
			return nil //nolint:nilerr // the statement is no window that can be measured
		}
		m.Measurement, m.MeasuredTokens, m.Refused = &w, 0, false
	}
	if !refused {
		return nil
	}
	m.Refused = true
	return m.moved(r, m.Measurement.Refused(r.Plan.PromptTokens))
}

// span returns the smallest and the largest window that a measurement may find.
func (m *move) span(r judge.Record) (smallest, largest int) {
	stated := int(min(m.world.StatedTokens, window.MaxTokens))
	if r.Version < boundedSince {
		return max(window.MinTokens, stated/largestSpan), stated
	}
	smallest, largest = plan.Measurable(stated, r.Plan.BytesPerToken)
	return max(window.MinTokens, smallest, largest/largestSpan), largest
}

// gaveUp reports whether the last measurement of about such a window had no result.
func (m *move) gaveUp(largest int) bool {
	if !m.Unmeasured() {
		return false
	}
	before := m.Measurement.Largest()
	return largest*10 < before*11 && before*10 < largest*11
}

// measured moves the measurement by a prompt of it. An answer that comes when the
// measurement waits for something else is too late and moves nothing.
func (m *move) measured(r judge.Record, j judge.Judgement) error {
	switch {
	case m.Measurement == nil || m.Measurement.Phase() != window.Measuring:
		return nil
	case j.Refused:
		m.Refused = true
		return m.moved(r, m.Measurement.Refused(r.Plan.PromptTokens))
	case len(j.Needles) == 0:
		return nil
	}
	return m.moved(r, m.Measurement.Answered(j.Needles))
}

// checked moves the measurement by its check. A window that was measured and does not hold
// any more is measured anew.
func (m *move) checked(r judge.Record, j judge.Judgement) error {
	if m.Measurement == nil || !j.Refused && len(j.Needles) == 0 {
		return nil
	}
	switch phase := m.Measurement.Phase(); {
	case phase == window.Checking && j.Refused:
		m.Refused = true
		return m.moved(r, m.Measurement.Refused(r.Plan.PromptTokens))
	case phase == window.Checking:
		return m.moved(r, m.Measurement.Checked(j.CheckPassed))
	case phase == window.Measured && !j.CheckPassed:
		return m.beginMeasuring(r, j.Refused)
	}
	return nil
}

// giveUp ends a measurement that leads nowhere. Where the provider refused a prompt, which is
// no lie, the longest window that it may have caps it.
func (m *move) giveUp() {
	if !m.Measuring() || m.Measurement.Prompts() < maxMeasuring && !m.Measurement.AtSmallest() {
		return
	}
	_, high := m.Measurement.Interval()
	m.Measurement.Abandon()
	if m.Refused {
		m.CapTokens = int64(high)
	}
}

// moved acts on a measurement that has moved: it caps the window that was measured where a
// refusal or a notice for recall asks for that. The cap takes the place of the probe lane.
func (m *move) moved(r judge.Record, err error) error {
	if err != nil {
		return fmt.Errorf("move a measurement: %w", err)
	}
	if r.Version >= boundedSince {
		m.giveUp()
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
