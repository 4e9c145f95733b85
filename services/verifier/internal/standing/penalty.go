package standing

import (
	"slices"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
)

// words are the levels that words of operators lead to. The steps of the ladder are in
// ladder.After; a pair that is in neither table does not happen.
var words = map[ladder.Level]map[string]ladder.Level{
	ladder.Notice:  {Withdraw: ladder.Normal},
	ladder.Confirm: {Withdraw: ladder.Normal},
	ladder.Penalty: {Refuse: ladder.Normal},
}

// sanction opens a penalty by a verdict. One that needs an operator waits for them, and its
// verdict does nothing but tell.
func (m *move) sanction(k Kind, trigger string, e ladder.Effects) {
	p := Penalty{Kind: k, Pending: e.NeedsOperator, Slash: e.Slash, Remove: e.Remove}
	if p.Pending {
		e = ladder.Effects{Tell: e.Tell, Lane: e.Lane, NeedsOperator: true}
	}
	p.Verdict = m.tell(k, trigger, e)
	m.Open = append(m.Open, p)
}

// approve carries out what an operator says of a pending penalty. While penalties are off or
// a common cause is suspected, an agreement is held: the penalty waits on.
func (m *move) approve(a Approval) error {
	i := slices.IndexFunc(m.Open, func(p Penalty) bool { return p.Pending && p.Verdict == a.Verdict })
	switch {
	case a.By == "" || len(a.By) > maxBy:
		return refuse("the operator's name has %d bytes", len(a.By))
	case i < 0:
		return refuse("no penalty %v waits for an operator", a.Verdict)
	case a.Refused:
		return m.turnDown(i)
	case m.world.Brakes.CommonCause:
		m.out.Held = ladder.CommonCause
		return nil
	case m.world.Brakes.PenaltiesOff:
		m.out.Held = ladder.PenaltiesOff
		return nil
	}
	p := &m.Open[i]
	e := ladder.Effects{Tell: true, Slash: p.Slash, Remove: p.Remove, Count: 1}
	id := m.tellOf(p.Kind, Approve, e, p.Verdict)
	p.Pending, p.Verdict = false, id
	return nil
}

// turnDown ends a pending penalty that an operator refuses. Nothing of it was carried out,
// so nothing is given back but lane and cap.
func (m *move) turnDown(i int) error {
	p := m.Open[i]
	m.Open = slices.Delete(m.Open, i, i+1)
	e := ladder.Effects{Tell: true, VoidObservations: true}
	if p.Kind == Benchmark {
		to, undone, _, err := ladder.AfterRun(m.Run, ladder.Undo, false)
		if err != nil {
			return refuse("%v", err)
		}
		m.Run, m.BenchLane, e.Lane = to, undone.Lane, undone.Lane
		m.tellOf(p.Kind, Refuse, e, p.Verdict)
		return nil
	}
	to, ok := words[m.Level][Refuse]
	if !ok {
		return refuse("%s has no pending penalty", m.Level)
	}
	m.withdraw(to)
	e.Lane, e.LiftCap = m.MisrepLane, true
	m.tellOf(p.Kind, Refuse, e, p.Verdict)
	return nil
}

// penalty carries out settlement's word on a penalty.
func (m *move) penalty(moved PenaltyMoved) error {
	i := slices.IndexFunc(m.Open, func(p Penalty) bool { return !p.Pending && p.Verdict == moved.Verdict })
	if i < 0 {
		return refuse("no penalty %v is open", moved.Verdict)
	}
	p := m.Open[i]
	switch moved.Final {
	case Upheld:
		return nil // executed follows
	case Executed, Reversed:
		m.Open = slices.Delete(m.Open, i, i+1)
	default:
		return refuse("a penalty is never %.40q", string(moved.Final))
	}
	if p.Kind == Benchmark {
		return m.fineMoved(p, moved.Final)
	}
	if m.Level != ladder.Penalty {
		return refuse("%s has no penalty", m.Level)
	}
	if moved.Final == Executed {
		m.step(ladder.Settle)
		return nil
	}
	m.step(ladder.Reverse)
	m.withdraw(m.Level)
	e := ladder.EffectsOf(ladder.Reverse, ladder.Cause{})
	e.Reinstate = p.Remove
	m.tellOf(p.Kind, string(ladder.Reverse), e, p.Verdict)
	return nil
}

// fineMoved is settlement's word on the penalty of a failed benchmark.
func (m *move) fineMoved(p Penalty, final Final) error {
	if final == Executed {
		return nil // standing and lane of benchmarks wait for a passed run
	}
	to, e, _, err := ladder.AfterRun(m.Run, ladder.Undo, false)
	if err != nil {
		return refuse("%v", err)
	}
	e.Reinstate = p.Remove
	m.Run, m.BenchLane = to, e.Lane
	m.tellOf(p.Kind, string(ladder.Undo), e, p.Verdict)
	return nil
}

// void voids observations. A penalty stays: only its appeal takes it back.
func (m *move) void(v Voiding) error {
	since := micros(v.Since)
	switch {
	case v.By == "" || len(v.By) > maxBy:
		return refuse("the name of who voids has %d bytes", len(v.By))
	case v.Since.IsZero() || since.After(m.at):
		return refuse("nothing was observed since %v", v.Since)
	}
	if to, ok := words[m.Level][Withdraw]; ok && !m.NoticedAt.Before(since) {
		m.withdraw(to)
		e := ladder.Effects{Tell: true, Lane: m.MisrepLane, LiftCap: true, ResetM: true, VoidObservations: true}
		m.tell(Misrepresentation, Withdraw, e)
		return nil
	}
	m.reset()
	m.Recovery, m.Confirmation = evidence.NewRecovery(m.Led), evidence.NewConfirmation()
	m.SilentAt = slices.DeleteFunc(m.SilentAt, func(t time.Time) bool { return !t.Before(since) })
	if !m.FilesWrongAt.Before(since) {
		m.FilesWrongAt = time.Time{}
	}
	m.Unjudged = Unjudged{}
	return nil
}
