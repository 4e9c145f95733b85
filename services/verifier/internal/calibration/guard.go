package calibration

import "slices"

// Common is a cause that several providers share, such as a new version of an engine that
// no calibration knows. While one is suspected, observations since the last good check are
// void and the model's ladder stands still.
type Common string

// The causes. NoCommon is none.
const (
	NoCommon Common = ""
	// ManyExceed is a day in which many of a stratum's providers exceeded.
	ManyExceed Common = "many_exceed"
	// MedianExceeds is a median offer that exceeds too often.
	MedianExceeds Common = "median_exceeds"
	// ReferencesDiffer is two references that do not agree.
	ReferencesDiffer Common = "references_differ"
)

// The rules of the guard.
const (
	// minCommon is the number of providers or offers below which nothing is common.
	minCommon = 3
	// commonPercent is the share of a stratum's providers.
	commonPercent = 20
	// History is the number of last observations of an offer that count.
	History = 200
)

// Signs are the counts of a stratum that the guard looks at.
type Signs struct {
	// Providers is the number of a stratum's providers, and Exceeded the number of these
	// with b = 1 in the last 24 hours.
	Providers, Exceeded int
	// Offers are the numbers of b = 1 among the last History observations of each offer
	// that has as many.
	Offers []int
	// ReferenceX is the X of one reference's answer by another's score, at the last
	// check, and 0 where none was made.
	ReferenceX float64
}

// Cause returns the common cause that the signs speak for. A single offer is never common,
// because a cheat would otherwise stop the ladder for itself.
func (s Signs) Cause() Common {
	switch {
	case !(s.ReferenceX <= Tau/2): // NaN is a difference too
		return ReferencesDiffer
	case s.Exceeded >= minCommon && s.Exceeded*100 >= s.Providers*commonPercent:
		return ManyExceed
	case s.medianExceeds():
		return MedianExceeds
	}
	return NoCommon
}

// medianExceeds reports whether the median offer exceeds at more than Q0/2. Of an even
// number of offers the lower middle one is the median.
func (s Signs) medianExceeds() bool {
	if len(s.Offers) < minCommon {
		return false
	}
	sorted := slices.Sorted(slices.Values(s.Offers))
	return float64(sorted[(len(sorted)-1)/2]) > Q0/2*History
}
