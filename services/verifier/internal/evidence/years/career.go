package years

import (
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
)

// slotsPerDay are the moments at which a provider under suspicion is probed. Others are
// probed at each sixth, 8 a day.
const (
	slotsPerDay  = ladder.WatchRate
	calmInterval = 6
	slotTime     = 24 * time.Hour / slotsPerDay
)

// Career is what happened to a simulated provider on the ladder.
type Career struct {
	// Notices, Confirmations and Recoveries count how often the stages began.
	Notices, Confirmations, Recoveries int
	// Slashed reports whether a confirmation proved, which ends the simulation.
	Slashed bool
	// FirstNotice is the number of days to the first notice, 0 without one.
	FirstNotice float64
	// Days is the simulated time, and Probes the number of probes in it.
	Days   float64
	Probes int
}

// Draw appends the observations of a provider's next probe to into.
type Draw func(s Source, into []evidence.Observation) ([]evidence.Observation, error)

// Career is Draw.Career of the provider's probes.
func (p Provider) Career(s Source, days int) (Career, error) { return Draw(p.Probe).Career(s, days) }

// Career simulates a provider with one model on the ladder, for a number of days or to its
// first penalty. Each step is that of ladder.Next and ladder.EffectsOf, with the thresholds
// of the demo. The moments of probes are even, and every probe is answered and observed.
func (d Draw) Career(s Source, days int) (Career, error) {
	c := career{level: ladder.Normal, hours: map[int]bool{}}
	var said []evidence.Observation
	var err error
	for ; c.slot < days*slotsPerDay && !c.Slashed; c.slot++ {
		if !c.level.Frequent() && c.slot%calmInterval != 0 {
			continue
		}
		if said, err = d(s, said[:0]); err != nil {
			return Career{}, err
		}
		c.Probes++
		if err = c.observe(said); err != nil {
			return Career{}, err
		}
		c.move()
	}
	c.Days = float64(c.slot) / slotsPerDay
	return c.Career, nil
}

// career is a career under way.
type career struct {
	Career
	level        ladder.Level
	since        int // the slot at which the level began
	process      evidence.Process
	recovery     evidence.Recovery
	confirmation evidence.Confirmation
	hours        map[int]bool // the hours with an exceedance since M was 0
	confirmed    int          // the slot at which the last confirmation ended
	tried        bool
	slot         int
}

// observe moves the states of the level. A confirmation's observations count for nothing
// else.
func (c *career) observe(said []evidence.Observation) error {
	if c.level == ladder.Confirm {
		_, err := c.confirmation.Observe(said...)
		return err
	}
	if err := c.process.Observe(said...); err != nil {
		return err
	}
	if c.level != ladder.Notice {
		return nil
	}
	for _, o := range said {
		if o.Exceeded() {
			c.hours[int(time.Duration(c.slot)*slotTime/time.Hour)] = true
		}
	}
	return c.recovery.Observe(said...)
}

// facts are those of the ladder.
func (c *career) facts() ladder.Facts {
	return ladder.Facts{
		M: c.process.M(), AtLevel: time.Duration(c.slot-c.since) * slotTime, Hours: len(c.hours), Rank: 1,
		Tried: c.tried, SinceConfirm: time.Duration(c.slot-c.confirmed) * slotTime,
		Confirmed: c.confirmation.E(), Spent: c.confirmation.Probes(), Recovered: c.recovery.Recovered(),
	}
}

// move takes the ladder's next step.
func (c *career) move() {
	step := ladder.Next(c.level, c.facts(), ladder.DemoThresholds())
	if step.Trigger == "" {
		return
	}
	led := c.process.Leading()
	if ladder.EffectsOf(step.Trigger, ladder.Cause{}).ResetM {
		c.process.Reset()
		c.recovery, c.hours = evidence.NewRecovery(led), map[int]bool{}
	}
	switch step.Trigger {
	case ladder.Notify:
		if c.Notices++; c.Notices == 1 {
			c.FirstNotice = float64(c.slot+1) / slotsPerDay
		}
	case ladder.Pursue:
		c.Confirmations++
		c.confirmation = evidence.NewConfirmation()
	case ladder.Acquit:
		c.tried, c.confirmed = true, c.slot
	case ladder.Recover:
		c.Recoveries++
	case ladder.Convict:
		c.Slashed = true
	default:
	}
	c.level, c.since = step.To, c.slot
}
