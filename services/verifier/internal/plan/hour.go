package plan

import (
	"strconv"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/schedule"
)

const (
	// maxAnHour bounds the arrivals of an hour. An hour that has all of an offer's requests
	// has 43 in the mean.
	maxAnHour = 2 * schedule.Highest
	// visibleADay is the rate of offers that consumers do not reach: their provider sees
	// every challenge, and V has a twentieth of the evidence.
	visibleADay = 2
)

// run plans everything of the hour, if it was not planned before.
func (t *turn) run() {
	stratum, ok := t.Stratum()
	if hour := t.slot.begin.Unix() / 3600; ok && t.past.Hour != hour {
		t.past.Hour, t.stratum = hour, stratum
		for i, due := range t.arrivals() {
			if t.past.Arrivals < schedule.Highest {
				t.arrive("arrival "+strconv.Itoa(i), due)
			}
		}
		t.measure()
		t.beyond()
		t.fingerprint()
	}
}

// arrivals returns when the probes of the hour are due, as long as they count for the
// observations of a year.
func (t *turn) arrivals() []time.Time {
	rate := schedule.Rate(t.standing(t.slot.begin))
	if !t.Active {
		rate = min(rate, visibleADay)
	}
	d := t.dice("arrivals")
	room := min(maxAnHour, evidence.Horizon-t.Observations)
	var due []time.Time
	for at := t.slot.begin; len(due) < room; {
		if at = schedule.Next(at, rate, t.Hours, positive(d)); !at.Before(t.slot.end()) {
			break
		}
		due = append(due, at)
	}
	return due
}

// arrive plans one arrival: the first of what it may ask that fits.
func (t *turn) arrive(name string, due time.Time) {
	d := t.dice(name)
	p := t.probe(name, due)
	switch {
	case !t.Active:
		t.visible(d, p)
	case t.Embeddings:
		t.embedding(d, p)
	default:
		_ = t.recall(d, p) || t.replay(p) || t.chat(d, p)
	}
}
