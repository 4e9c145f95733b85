package standing

import (
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/trust"
)

// climb takes the ladder's next step, if there is one. Each event brings one step at most.
func (m *move) climb() {
	d := ladder.Next(m.Level, m.facts(), m.world.Limits)
	m.out.Held = d.Held
	if d.Trigger != "" {
		m.step(d.Trigger)
	}
}

// facts are those of the ladder.
func (m *move) facts() ladder.Facts {
	brakes := m.world.Brakes
	brakes.PenaltiesOff = brakes.PenaltiesOff || len(m.Open) >= MaxOpen
	return ladder.Facts{
		M: m.Process.M(), AtLevel: lasted(m.Since, m.at), Hours: len(m.Hours), Rank: m.world.Rank,
		Tried: m.Tried, SinceConfirm: lasted(m.ConfirmEndedAt, m.at),
		Confirmed: m.Confirmation.E(), Spent: m.Confirmation.Probes(), Recovered: m.Recovery.Recovered(),
		Silent: m.silent(), Brakes: brakes,
	}
}

// step moves the level by a trigger that it knows.
func (m *move) step(t ladder.Trigger) {
	to, err := m.Level.After(t)
	if err != nil {
		return // Next returns no other, and penalty and approve have looked
	}
	led := m.Process.Leading()
	e := ladder.EffectsOf(t, ladder.Cause{
		ContextLeads: led == evidence.Recall, MeasuredTokens: m.MeasuredTokens, Penalties: m.penalties(),
	})
	m.begin(t, led)
	if e.ResetM {
		m.reset()
		m.Recovery = evidence.NewRecovery(m.Led)
	}
	m.carry(e)
	m.Level, m.Since = to, m.at
	switch t {
	case ladder.Suspect:
		m.unclean()
	case ladder.Subside:
	case ladder.Convict:
		m.unclean()
		m.sanction(Misrepresentation, string(t), e)
	case ladder.Reverse:
	default:
		m.unclean()
		m.tell(Misrepresentation, string(t), e)
	}
}

// begin sets what the new level begins with.
func (m *move) begin(t ladder.Trigger, led evidence.Family) {
	switch t {
	case ladder.Notify:
		m.NoticedAt, m.Led, m.AvoidHost = m.at, led, m.LastHost
	case ladder.Pursue:
		m.Confirmation = evidence.NewConfirmation()
	case ladder.Acquit:
		m.Tried, m.ConfirmEndedAt = true, m.at
	case ladder.Recover:
		m.RecoveredAt = m.at
	case ladder.Suspect, ladder.Subside, ladder.Convict, ladder.Settle, ladder.Reverse:
	}
}

// carry sets lane and cap of the ladder of misrepresentation. A notice caps instead of
// limiting the traffic where it can.
func (m *move) carry(e ladder.Effects) {
	if e.Lane != "" {
		m.MisrepLane = e.Lane
	}
	if e.CapTokens > 0 {
		m.CapTokens = e.CapTokens
	}
	if e.LiftCap {
		m.uncap()
	}
}

// uncap lifts the cap of a notice. A cap that follows from a refusal stays, because the
// provider itself says that it takes no longer prompt.
func (m *move) uncap() {
	if !m.Refused {
		m.CapTokens = 0
	}
}

// withdraw takes a notice and all that followed it back: it never was. Only a benchmark
// that failed since then still speaks against the provider.
func (m *move) withdraw(to ladder.Level) {
	m.reset()
	m.uncap()
	m.Level, m.Since, m.MisrepLane = to, m.at, trust.Main
	switch {
	case m.LastResult == ladder.Fail && !m.RunAt.Before(m.NoticedAt):
		m.UncleanAt = m.RunAt
	case !m.UncleanAt.Before(m.NoticedAt):
		m.UncleanAt = time.Time{}
	}
	m.Led, m.AvoidHost, m.LastHost, m.Tried = evidence.NoFamily, "", "", false
	m.Recovery, m.Confirmation = evidence.NewRecovery(evidence.NoFamily), evidence.NewConfirmation()
	m.SilentAt, m.FilesWrongAt, m.RecoveredAt = nil, time.Time{}, time.Time{}
	m.Unjudged = Unjudged{}
}
