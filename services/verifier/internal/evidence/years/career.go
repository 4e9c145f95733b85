package years

import "svc.internal/services/verifier/internal/evidence"

// The ladder's numbers, for a provider's first model: thresholds of money are doubled.
const (
	watchFrom   = 20
	noticeFrom  = 1_000
	confirmFrom = 2_000_000
	// slotsPerDay are the moments at which a provider under suspicion is probed. Others
	// are probed at each sixth, 8 a day.
	slotsPerDay  = 48
	calmInterval = 6
	warningSlots = slotsPerDay
	pauseSlots   = 7 * slotsPerDay
	minHours     = 3
)

// Career is what happened to a simulated provider on the ladder.
type Career struct {
	// Notices and Confirmations count how often the stages began.
	Notices, Confirmations int
	// Slashed reports whether a confirmation proved, which ends the simulation.
	Slashed bool
	// Days is the simulated time.
	Days float64
}

// Career simulates a provider on the ladder for a number of days or to its first penalty:
// M of 20 makes probes more frequent, M of 1,000 gives notice and sets M to 0. At least 24
// hours later a fresh M of 2,000,000 with exceedances in three different hours begins a
// confirmation. A spent confirmation gives notice again after 7 days, and a recovery ends
// a notice. The moments of probes are even: this is a model of rates and not the ladder
// itself, which decides in its own package.
func (p Provider) Career(s Source, days int) (Career, error) {
	c := career{recovery: evidence.NewRecovery()}
	var said []evidence.Observation
	var err error
	for c.slot = 0; c.slot < days*slotsPerDay; c.slot++ {
		if c.idle() {
			continue
		}
		if said, err = p.Probe(s, said[:0]); err != nil {
			return Career{}, err
		}
		if c.observe(said); c.Slashed {
			break
		}
	}
	c.Days = float64(c.slot) / slotsPerDay
	return c.Career, nil
}

// career is a career under way. confirmation is nil outside that stage.
type career struct {
	Career
	process      evidence.Process
	recovery     evidence.Recovery
	confirmation *evidence.Confirmation
	slot         int
	noticed      bool
	since        int          // the slot at which the notice begins or began
	hours        map[int]bool // the hours with an exceedance since then
}

// idle reports whether nothing is probed at this slot.
func (c *career) idle() bool {
	if c.noticed {
		return c.slot < c.since
	}
	return c.process.M() < watchFrom && c.slot%calmInterval != 0
}

func (c *career) observe(said []evidence.Observation) {
	if c.confirmation != nil {
		c.confirm(said)
		return
	}
	for _, o := range said {
		c.process.Observe(o)
		if !c.noticed {
			continue
		}
		c.recovery.Observe(o)
		if o.Exceeded() {
			c.hours[c.slot/2] = true
		}
	}
	switch {
	case !c.noticed && c.process.M() >= noticeFrom:
		c.notice(c.slot)
	case c.noticed && c.recovery.Recovered():
		c.noticed = false
	case c.noticed && c.mayConfirm():
		confirmation := evidence.NewConfirmation()
		c.confirmation = &confirmation
		c.Confirmations++
	}
}

// mayConfirm reports whether a noticed provider's evidence begins a confirmation.
func (c *career) mayConfirm() bool {
	return c.slot >= c.since+warningSlots && c.process.M() >= confirmFrom && len(c.hours) >= minHours
}

func (c *career) confirm(said []evidence.Observation) {
	switch c.confirmation.Observe(said...) {
	case evidence.Proven:
		c.Slashed = true
	case evidence.Spent:
		c.confirmation = nil
		c.notice(c.slot + pauseSlots)
	case evidence.Open:
	}
}

// notice begins a notice at a slot.
func (c *career) notice(slot int) {
	c.process.Reset()
	c.recovery = evidence.NewRecovery()
	c.noticed, c.since, c.hours = true, slot, map[int]bool{}
	c.Notices++
}
