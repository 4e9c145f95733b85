package slice

import (
	"time"

	"svc.internal/pkg/money"
)

const (
	// span is the time whose use of credit and places a slice should cover.
	span = 5 * time.Second
	// handful is the number of requests of the largest amount whose credit a slice should have at least.
	// It should have twice as many places.
	handful = 8
	// maxDemand bounds each amount and each sum of a demand, in nano-USD, so that its products with handful
	// and with the milliseconds of span stay within 63 bits.
	maxDemand money.NanoUSD = 1 << 50
)

// demand estimates what an account uses in span: sums that lose dt/span of themselves in dt.
type demand struct {
	credit money.NanoUSD
	// places are in thousandths.
	places  int64
	largest money.NanoUSD
	at      time.Time
}

// add counts a request.
func (d *demand) add(amount money.NanoUSD) {
	amount = min(amount, maxDemand)
	d.credit = min(d.credit+amount, maxDemand)
	d.places = min(d.places+1000, 1000*MaxPlaces)
	d.largest = max(d.largest, amount)
}

// fade lets time pass.
func (d *demand) fade(now time.Time) {
	passed := min(now.Sub(d.at), span).Milliseconds()
	if passed <= 0 {
		return
	}
	d.at = now
	d.credit -= d.credit * money.NanoUSD(passed) / money.NanoUSD(span.Milliseconds())
	d.places -= d.places * passed / span.Milliseconds()
	d.largest -= d.largest * money.NanoUSD(passed) / money.NanoUSD(span.Milliseconds())
}

// want returns the credit and the places that a slice should have.
func (d *demand) want() (money.NanoUSD, int64) {
	return max(d.credit, handful*d.largest), max(d.places/1000, 2*handful)
}
