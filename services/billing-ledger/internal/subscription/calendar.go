package subscription

import "time"

// Month returns the same day and time of a later month, in UTC. In a month without that day it is
// the month's last day; later months have the day again.
func Month(anchor time.Time, months int) time.Time {
	anchor = anchor.UTC()
	year, month, day := anchor.Date()
	last := time.Date(year, month+time.Month(months)+1, 0, 0, 0, 0, 0, time.UTC)
	clock := anchor.Sub(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
	return last.AddDate(0, 0, min(day, last.Day())-last.Day()).Add(clock)
}
