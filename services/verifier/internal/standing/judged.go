package standing

import (
	"fmt"
	"slices"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/trust"
)

// judged moves the state by a probe.
func (m *move) judged(r judge.Record) error {
	switch {
	case r.Plan.Offer != m.world.Offer:
		return refuse("the probe is of another offer")
	case r.Plan.Purpose != probe.Evidence && r.Plan.Purpose != probe.Benchmark:
		return refuse("a probe of purpose %q is of no offer's standing", r.Plan.Purpose)
	}
	j, err := judge.Judge(r)
	if err != nil {
		return fmt.Errorf("judge a probe: %w", err)
	}
	m.out.Judgement = &j
	said, err := m.observations(j)
	if err != nil {
		return err
	}
	if err := m.observe(said, r.Host()); err != nil {
		return err
	}
	m.remember(r, j, said)
	m.unjudged(r, j)
	if err := m.measure(r, j, said); err != nil {
		return err
	}
	m.climb()
	return nil
}

// observations are those of the judgement and of files, without families that have had all
// observations of their year.
func (m *move) observations(j judge.Judgement) ([]evidence.Observation, error) {
	said := slices.Clone(j.Observations)
	if files, ok := m.files(j); ok {
		o, err := evidence.Judged(evidence.Files, files)
		if err != nil {
			return nil, fmt.Errorf("observe files: %w", err)
		}
		said = append(said, o)
		m.out.Files = &o
	}
	said = slices.DeleteFunc(said, func(o evidence.Observation) bool {
		return m.Taken.of(o.Family(), m.at) >= evidence.Horizon
	})
	for _, o := range said {
		m.Taken.add(o.Family(), m.at)
	}
	return said, nil
}

// filesPause lies between two wrong fingerprints that are one b, so that a file system that
// is being written is not evidence.
const filesPause = 24 * time.Hour

// files returns what a fingerprint says for family E, if it says something: right ones are
// b = 0, and the second of two wrong ones at least 24 hours apart is b = 1.
func (m *move) files(j judge.Judgement) (exceeded, ok bool) {
	switch {
	case j.FilesRight:
		m.FilesWrongAt = time.Time{}
		return false, true
	case !j.FilesWrong:
	case m.FilesWrongAt.IsZero():
		m.FilesWrongAt = m.at
	case lasted(m.FilesWrongAt, m.at) >= filesPause:
		m.FilesWrongAt = time.Time{}
		return true, true
	}
	return false, false
}

// observe moves evidence. In confirm only the confirmation moves, and only by scores of
// another host than that of the notice.
func (m *move) observe(said []evidence.Observation, host string) error {
	if m.Level == ladder.Confirm {
		if host != "" && host == m.AvoidHost {
			return nil
		}
		_, err := m.Confirmation.Observe(said...)
		return wrap(err)
	}
	if err := m.Process.Observe(said...); err != nil {
		return wrap(err)
	}
	if m.Level != ladder.Notice {
		return nil
	}
	if slices.ContainsFunc(said, evidence.Observation.Exceeded) {
		m.hour()
	}
	return wrap(m.Recovery.Observe(said...))
}

// wrap says that evidence refused observations.
func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("observe a probe: %w", err)
	}
	return nil
}

// hour records the UTC hour of an exceedance.
func (m *move) hour() {
	hour := m.at.Unix() / int64(time.Hour/time.Second)
	if at, found := slices.BinarySearch(m.Hours, hour); !found && len(m.Hours) < MaxHours {
		m.Hours = slices.Insert(m.Hours, at, hour)
	}
}

// remember keeps what trust, the guard and the watch for silence need.
func (m *move) remember(r judge.Record, j judge.Judgement, said []evidence.Observation) {
	passed := 0
	for _, o := range said {
		m.Last.observe(o.Exceeded())
		switch {
		case o.Exceeded():
			m.ExceededAt = m.at
			if host := r.Host(); host != "" {
				m.LastHost = host
			}
		case r.Plan.Flow == probe.Hidden:
			passed++
		}
	}
	m.Passed = min(maxPassed, trust.Decay(m.Passed, lasted(m.PassedSince, m.at))+float64(passed))
	if m.at.After(m.PassedSince) {
		m.PassedSince = m.at
	}
	m.recalled(r, j)
	if j.Silent {
		m.SilentAt = append(m.SilentAt, m.at)
		m.SilentAt = m.SilentAt[max(0, len(m.SilentAt)-ladder.SilentVoids):]
	}
}

// silent returns the voids in ladder.SilentPeriod that the provider caused.
func (m *move) silent() int {
	n := 0
	for _, t := range m.SilentAt {
		if lasted(t, m.at) < ladder.SilentPeriod {
			n++
		}
	}
	return n
}
