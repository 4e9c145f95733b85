// Package schedule decides how often an offer is probed and when the next probe is due.
//
// An offer is a model of a provider. Probes arrive as a Poisson process whose intensity
// follows the offer's own hours: a provider that serves by day is probed by day. Poisson
// arrivals have no memory, so that a probe that was served says nothing about when the
// next one comes. A tenth of the probes is spread evenly over the day, because else an
// offer could have hours in which it is never probed.
//
// The rates are those of the design (verification.md §9): .5% of the offer's requests, at
// least 8 and at most 24 a day; twice that for new files, a new engine, and the offers
// that earn most; 48 a day in an offer's first day and while it is watched. The bound of
// false alarms (package evidence) holds for 20,000 observations a year, and 48 a day are
// 17,520. Rate stops an offer that has had its 20,000 whatever its level is.
package schedule

import (
	"math"
	"time"

	"svc.internal/services/verifier/internal/evidence"
)

// The rates, in probes a day.
const (
	// Lowest and Usual bound what the share of requests gives.
	Lowest = 8
	Usual  = 24
	// Highest is the rate of offers that are new or watched. No offer has more.
	Highest = 48
	// perRequest is the share of an offer's requests that probes are added to.
	perRequest = .005
)

// MeasureEvery is the time between two prompts that measure a context window.
const MeasureEvery = time.Hour

// Standing is what the rate of an offer depends on.
type Standing struct {
	// RequestsADay is the mean of the offer's requests a day in the last week.
	RequestsADay float64
	// New reports that the offer is in its first day, Watched that it is at level watch,
	// notice or confirm.
	New, Watched bool
	// Changed reports new files or a new engine within seven days, TopEarner that the
	// offer is among the 5% that earn most.
	Changed, TopEarner bool
	// Observations is how many observations its fullest process took in the last 365 days.
	Observations int
}

// Rate returns the probes a day of an offer, 0 for an offer that has had the observations
// of a year.
func Rate(s Standing) float64 {
	switch {
	case s.Observations >= evidence.Horizon:
		return 0
	case s.New, s.Watched:
		return Highest
	}
	rate := Lowest + 0.0
	if share := perRequest * s.RequestsADay; share > Lowest { // not for NaN
		rate = min(share, Usual)
	}
	if s.Changed || s.TopEarner {
		rate *= 2
	}
	return min(rate, Highest)
}

// Hours are relative weights of the hours of a UTC day, each finite and at least 0. All
// zero means an even day.
type Hours [24]float64

// even is the part of the probes that is spread evenly over the day.
const even = .1

// intensity returns the probes an hour in each hour of a day whose rate is perDay.
func (h Hours) intensity(perDay float64) Hours {
	sum := 0.0
	for _, w := range h {
		if w > 0 && !math.IsInf(w, 0) {
			sum += w
		}
	}
	var in Hours
	for i, w := range h {
		part := 1.0 / 24
		if sum > 0 && !math.IsInf(sum, 0) {
			part = even / 24
			if w > 0 {
				part += (1 - even) * (w / sum)
			}
		}
		in[i] = perDay * part
	}
	return in
}

// longest bounds how far ahead a probe is put.
const longest = 7 * 24 * time.Hour

// Next returns when the next probe is due after a time, at a rate of perDay: the time at
// which the integral of the intensity reaches −ln u. u is drawn evenly from (0, 1]. The
// result is at most seven days ahead, also for a rate of 0, for which nothing may be sent
// then: whoever sends asks Rate again.
func Next(after time.Time, perDay float64, hours Hours, u float64) time.Time {
	end := after.Add(longest)
	if !(perDay > 0) || math.IsInf(perDay, 0) || !(u > 0) {
		return end
	}
	due, left := after, -math.Log(min(u, 1))
	intensity := hours.intensity(perDay)
	for due.Before(end) {
		hour := due.UTC().Truncate(time.Hour)
		rest := hour.Add(time.Hour).Sub(due)
		within := intensity[hour.Hour()] * rest.Hours()
		if left < within {
			due = due.Add(time.Duration(left / within * float64(rest)))
			break
		}
		left -= within
		due = due.Add(rest)
	}
	if due.After(end) {
		return end
	}
	return due
}
