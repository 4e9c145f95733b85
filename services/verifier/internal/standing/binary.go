package standing

import (
	"bytes"
	"math"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/trust"
	"svc.internal/services/verifier/internal/window"
)

// The first two bytes of a form. The kinds of package form are below formKind. A state
// without scores of voids and without an owed recall has the form of before there were any, so that evidence of then
// still has the same bits.
const (
	formKind      = 32
	formVersion   = 1
	formWithVoids = 2
)

// MaxBinary bounds a state's binary form.
const MaxBinary = 16 << 10

const (
	maxHost   = judge.MaxHost
	maxPassed = 1 << 32
)

var (
	levels  = ladder.Levels()
	runs    = ladder.Runs()
	results = append([]ladder.Result{""}, ladder.Results()...)
	lanes   = []trust.Lane{trust.Main, trust.Probe, trust.Shut}
	kinds   = []Kind{Misrepresentation, Benchmark}
	led     = append([]evidence.Family{evidence.NoFamily}, evidence.Families()...)
)

// MarshalBinary returns the canonical form of the state: equal states have equal bytes. It
// fails with form.ErrForm for a state that neither New nor Apply made.
func (s State) MarshalBinary() ([]byte, error) {
	w := writer{b: append(make([]byte, 0, 4096), formKind, s.version())}
	w.part(&s.Process)
	w.part(&s.Pairs)
	w.part(&s.Recovery)
	w.part(&s.Confirmation)
	choice(&w, s.Level, levels)
	choice(&w, s.Led, led)
	choice(&w, s.Run, runs)
	choice(&w, s.LastResult, results)
	choice(&w, s.MisrepLane, lanes)
	choice(&w, s.BenchLane, lanes)
	w.bool(s.Tried)
	w.bool(s.Refused)
	for _, t := range s.times() {
		w.time(*t)
	}
	w.text(s.AvoidHost)
	w.text(s.LastHost)
	w.byte(len(s.Hours))
	for _, h := range s.Hours {
		w.uint64(h)
	}
	w.byte(len(s.SilentAt))
	for _, t := range s.SilentAt {
		w.time(t)
	}
	w.uint64(s.CapTokens)
	w.uint64(s.MeasuredTokens)
	w.float(s.Passed)
	s.Last.write(&w)
	s.Taken.write(&w)
	w.byte(len(s.Open))
	for _, p := range s.Open {
		p.write(&w)
	}
	w.bool(s.Measurement != nil)
	if s.Measurement != nil {
		w.part(s.Measurement)
	}
	if s.version() == formWithVoids {
		s.Unjudged.write(&w)
		s.Owed.write(&w)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.b, nil
}

// version is that of the state's form.
func (s State) version() byte {
	if s.Unjudged.zero() && s.Owed == (Owed{}) {
		return formVersion
	}
	return formWithVoids
}

// times are the state's times in the order of the form.
func (s *State) times() []*time.Time {
	return []*time.Time{
		&s.ResetAt, &s.Since, &s.NoticedAt, &s.ExceededAt, &s.ConfirmEndedAt, &s.RecoveredAt, &s.RunAt, &s.PassedAt,
		&s.Asked, &s.PassedSince, &s.RecalledAt, &s.FilesWrongAt, &s.UncleanAt, &s.CleanedAt,
	}
}

// UnmarshalBinary reads a form that MarshalBinary wrote. Its errors are form.ErrForm, and
// leave the state as it was. What it accepts, MarshalBinary writes again as the same bytes.
func (s *State) UnmarshalBinary(b []byte) error {
	r := reader{rest: b}
	if len(b) > MaxBinary {
		r.fail("%d bytes", len(b))
		return r.err
	}
	head := r.take(2)
	if r.err == nil && (head[0] != formKind || head[1] != formVersion && head[1] != formWithVoids) {
		r.fail("kind %d of version %d", head[0], head[1])
	}
	read := r.state()
	if head[1] == formWithVoids {
		read.Unjudged.read(&r)
		read.Owed.read(&r)
	}
	if len(r.rest) > 0 {
		r.fail("%d bytes behind the end", len(r.rest))
	}
	if why := read.contradiction(); why != "" {
		r.fail("%s", why)
	}
	if r.err != nil {
		return r.err
	}
	again, err := read.MarshalBinary()
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		r.fail("another form of the same state")
		return r.err
	}
	*s = read
	return nil
}

// state reads the fields.
func (r *reader) state() State {
	var s State
	r.part(&s.Process)
	r.part(&s.Pairs)
	r.part(&s.Recovery)
	r.part(&s.Confirmation)
	s.Level, s.Led = chosen(r, levels), chosen(r, led)
	s.Run, s.LastResult = chosen(r, runs), chosen(r, results)
	s.MisrepLane, s.BenchLane = chosen(r, lanes), chosen(r, lanes)
	s.Tried, s.Refused = r.bool(), r.bool()
	for _, t := range s.times() {
		*t = r.time()
	}
	s.AvoidHost, s.LastHost = r.text(maxHost), r.text(maxHost)
	for range min(r.byte(), MaxHours+1) {
		s.Hours = append(s.Hours, r.uint64(maxHourWeek))
	}
	for range min(r.byte(), ladder.SilentVoids+1) {
		s.SilentAt = append(s.SilentAt, r.time())
	}
	s.CapTokens, s.MeasuredTokens = r.uint64(maxTokens), r.uint64(maxTokens)
	s.Passed = r.float(maxPassed)
	s.Last.read(r)
	s.Taken.read(r)
	for range min(r.byte(), MaxOpen+1) {
		s.Open = append(s.Open, r.penalty())
	}
	if r.bool() {
		s.Measurement = new(window.Measurement)
		r.part(s.Measurement)
	}
	return s
}

// contradiction says which fields cannot be together, "" if all can.
func (s State) contradiction() string {
	open := 0
	for i, p := range s.Open {
		for _, other := range s.Open[:i] {
			if other.Verdict == p.Verdict {
				return "a penalty twice"
			}
		}
		if p.Verdict.IsZero() || p.Slash < 1 || p.Slash > ladder.NextPenalty {
			return "a penalty of nothing"
		}
		if p.Kind == Misrepresentation {
			open++
		}
	}
	switch {
	case len(s.Hours) > MaxHours || len(s.SilentAt) > ladder.SilentVoids || len(s.Open) > MaxOpen:
		return "a list is too long"
	case (s.Level == ladder.Penalty) != (open == 1) || open > 1:
		return "the level and its penalty"
	case s.Since.IsZero() || s.ResetAt.IsZero() || s.PassedSince.IsZero():
		return "a beginning that never was"
	}
	for i := 1; i < len(s.Hours); i++ {
		if s.Hours[i] <= s.Hours[i-1] {
			return "the order of the hours"
		}
	}
	for _, t := range s.SilentAt {
		if t.IsZero() {
			return "a void that never was"
		}
	}
	return ""
}

func (p Penalty) write(w *writer) {
	w.b = append(w.b, p.Verdict[:]...)
	choice(w, p.Kind, kinds)
	w.bool(p.Pending)
	w.uint16(int(p.Slash))
	w.bool(p.Remove)
}

func (r *reader) penalty() Penalty {
	var p Penalty
	copy(p.Verdict[:], r.take(len(p.Verdict)))
	p.Kind = chosen(r, kinds)
	p.Pending = r.bool()
	p.Slash = ladder.BasisPoints(r.uint16(math.MaxUint16))
	p.Remove = r.bool()
	return p
}
