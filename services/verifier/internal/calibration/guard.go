package calibration

import "slices"

// Common is a cause that several providers share, such as a new version of an engine that
// no calibration knows. While one is suspected, observations since the last good check are
// void and the model's ladder stands still.
type Common string

// The causes. NoCommon is none.
const (
	NoCommon Common = ""
	// ManyExceed is a day in which providers of many of a stratum's owners exceeded.
	ManyExceed Common = "many_exceed"
	// MedianExceeds is a median owner whose offers exceed too often.
	MedianExceeds Common = "median_exceeds"
	// ReferencesDiffer is two references that do not agree.
	ReferencesDiffer Common = "references_differ"
)

// The rules of the guard.
const (
	// minCommon is the number of owners below which nothing is common.
	minCommon = 3
	// commonPercent is the share of a stratum's owners.
	commonPercent = 20
	// History is the number of last observations of an offer that count.
	History = 200
)

// Signs are what the guard looks at of a stratum. Owners are counted and not providers,
// because one owner may have many.
type Signs struct {
	// Owners is the number of different owners of a stratum's providers, and Exceeded the
	// number of these with b = 1 in the last 24 hours.
	Owners, Exceeded int
	// Offers are the offers with at least History observations.
	Offers []Offer
	// ReferenceX is the X of one reference's answer by another's score, at the last
	// check, and 0 where none was made.
	ReferenceX float64
}

// Offer is an offer's owner and its number of b = 1 among the last History observations.
type Offer struct {
	Owner    string
	Exceeded int
}

// Cause returns the common cause that the signs speak for. A single owner is never common,
// because a cheat would otherwise stop the ladder for itself.
func (s Signs) Cause() Common {
	switch {
	case !(s.ReferenceX <= Tau/2): // NaN is a difference too
		return ReferencesDiffer
	case s.Exceeded >= minCommon && s.Exceeded*100 >= s.Owners*commonPercent:
		return ManyExceed
	case s.medianExceeds():
		return MedianExceeds
	}
	return NoCommon
}

// medianExceeds reports whether the median owner's median offer exceeds at more than Q0/2.
func (s Signs) medianExceeds() bool {
	byOwner := make(map[string][]int)
	for _, o := range s.Offers {
		byOwner[o.Owner] = append(byOwner[o.Owner], o.Exceeded)
	}
	if len(byOwner) < minCommon {
		return false
	}
	var owners []int
	for _, offers := range byOwner {
		owners = append(owners, median(offers))
	}
	return float64(median(owners)) > Q0/2*History
}

// median returns the median, of an even number of counts the lower middle one.
func median(counts []int) int {
	slices.Sort(counts)
	return counts[(len(counts)-1)/2]
}
