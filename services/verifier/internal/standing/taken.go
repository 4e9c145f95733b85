package standing

import (
	"time"

	"svc.internal/services/verifier/internal/evidence"
)

// takenWeeks covers 365 days wherever in the week they begin: 52 weeks and a day touch 54 weeks.
const takenWeeks = 54

// takenFamilies is the number of families with a process.
const takenFamilies = int(evidence.Visible)

// maxTaken bounds the count of a week.
const maxTaken = evidence.Horizon

// Taken counts the observations of each family in each of the last 54 weeks, because no
// process may take more than evidence.Horizon of them in 365 days. The zero value is none.
type Taken struct {
	week   int64 // of the first column, in weeks since 1970
	counts [takenFamilies][takenWeeks]uint16
}

// weekOf returns the week of a time.
func weekOf(t time.Time) int64 { return t.Unix() / int64(7*24*time.Hour/time.Second) }

// add counts an observation. A time before the newest week counts in that week.
func (k *Taken) add(f evidence.Family, now time.Time) {
	k.move(now)
	if i := int(f) - 1; i >= 0 && i < takenFamilies && k.counts[i][0] < maxTaken {
		k.counts[i][0]++
	}
}

// move makes the week of now the first column.
func (k *Taken) move(now time.Time) {
	by := weekOf(now) - k.week
	if by <= 0 {
		return
	}
	k.week += by
	for i := range k.counts {
		row := k.counts[i]
		k.counts[i] = [takenWeeks]uint16{}
		if by < takenWeeks {
			copy(k.counts[i][by:], row[:takenWeeks-int(by)])
		}
	}
}

// of returns a family's observations in the weeks that are counted.
func (k Taken) of(f evidence.Family, now time.Time) int {
	k.move(now)
	i := int(f) - 1
	if i < 0 || i >= takenFamilies {
		return 0
	}
	sum := 0
	for _, n := range k.counts[i] {
		sum += int(n)
	}
	return sum
}

// Year returns the observations of the fullest family in the last 365 days, or a few days
// more.
func (k Taken) Year(now time.Time) int {
	fullest := 0
	for _, f := range evidence.Families() {
		fullest = max(fullest, k.of(f, now))
	}
	return fullest
}
