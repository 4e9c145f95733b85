package passbook

import "time"

// Period is a span of time: from From on and before To.
type Period struct{ From, To time.Time }

// day is a UTC day; no day of UTC is longer or shorter.
const day = 24 * time.Hour

// defaultDays is how far back a period reaches that has no beginning.
const defaultDays = 30

// maxTime bounds the text of a time in bytes.
const maxTime = 40

// PeriodOf reads a period. Each end is a UTC day (2026-03-01), which is in the period as a
// whole, or an instant of RFC 3339. Without an end the period reaches to now, without a
// beginning 30 days back from its end.
func PeriodOf(from, to string, now time.Time) (Period, error) {
	p := Period{To: now.UTC().Truncate(day).Add(day)}
	var err error
	if to != "" {
		if p.To, err = moment("to", to, day); err != nil {
			return p, err
		}
	}
	p.From = p.To.Add(-defaultDays * day)
	if from != "" {
		if p.From, err = moment("from", from, 0); err != nil {
			return p, err
		}
	}
	switch {
	case !p.From.Before(p.To):
		return p, invalid("to", "must be after from")
	case p.To.Sub(p.From) > MaxDays*day:
		return p, invalid("to", "must be at most %d days after from", MaxDays)
	}
	return p, nil
}

// DaysOf is PeriodOf for whole days only.
func DaysOf(from, to string, now time.Time) (Period, error) {
	for field, text := range map[string]string{"from": from, "to": to} {
		if text != "" && len(text) != len(time.DateOnly) {
			return Period{}, invalid(field, "must be a day, YYYY-MM-DD")
		}
	}
	return PeriodOf(from, to, now)
}

// moment reads an end of a period; whole is added to a day.
func moment(field, text string, whole time.Duration) (time.Time, error) {
	if len(text) <= maxTime {
		if d, err := time.Parse(time.DateOnly, text); err == nil && inRange(d) {
			return d.Add(whole), nil
		}
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil && inRange(t) {
			return t.UTC(), nil
		}
	}
	return time.Time{}, invalid(field, "must be a day, YYYY-MM-DD, or a time as 2026-03-01T12:00:00Z, from 2000 to 9998")
}

func inRange(t time.Time) bool { return t.UTC().Year() >= 2000 && t.UTC().Year() <= 9998 }
