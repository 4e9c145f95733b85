// Package earnings compares what this machine has served with the platform's signed daily statements,
// and names each difference.
//
// A statement is of the whole account and of the day on which the ledger recorded a request. So a
// statement with more requests than this machine served is no difference: other machines serve, too.
// A request that ended within ten minutes of midnight may be in the statement of the next day. A
// request that broke off may be in no statement, because it may be owed nothing.
//
// The key that signs statements is the one that the service named when it was first asked, which the
// state folder keeps.
package earnings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/pkg/money"
	"svc.internal/services/provider-agent/internal/worklog"
)

// Checked is the statement of a day. Err is what is wrong with the statement; nil where the service has
// signed it.
type Checked struct {
	Statement
	Err error
}

// Check reads the service's answer about the statement of a day, which must be the provider's.
func Check(day, provider string, answer []byte, signers ...ethereum.Address) Checked {
	var signed Signed
	if err := json.Unmarshal(answer, &signed); err != nil {
		return Checked{Err: errForm}
	}
	told, err := Read(day, signed, signers...)
	if err == nil && told.Provider != provider {
		err = fmt.Errorf("%w: it is of another provider", ErrSignature)
	}
	return Checked{Statement: told, Err: err}
}

// Compared is a day beside its statement.
type Compared struct {
	Day string `json:"day"`
	// Served is what this machine served; nil where nothing was counted.
	Served *worklog.Day `json:"served"`
	// Stated is nil without a statement.
	Stated *Stated `json:"stated"`
	// Differences say what is wrong. Notes say what the owner should know.
	Differences []string `json:"differences"`
	Notes       []string `json:"notes"`
}

// Stated is what the statement of a day says.
type Stated struct {
	Requests int64 `json:"requests"`
	// Earned is what these requests earned. Other is the sum of everything else, such as refunds.
	Earned money.NanoUSD `json:"-"`
	Other  money.NanoUSD `json:"-"`
	// The same amounts in dollars, for programs.
	EarnedUSD string `json:"earned_usd_str"`
	OtherUSD  string `json:"other_usd_str"`
	// Signature is valid, missing or invalid.
	Signature string `json:"signature"`
}

// The words for a signature.
const (
	Valid   = "valid"
	Missing = "missing"
	Invalid = "invalid"
)

// overdueDays is how many days after its end a day may be without a batch or a signature. Both are
// made on the next day unless the platform is in trouble, or does not mean to.
const overdueDays = 3

// Compare compares days, the oldest first. through is the last day that is batched, empty before the
// first. What is not batched or signed overdueDays after the end of its day is a difference at now,
// because it would otherwise be explained for ever by "not yet".
func Compare(served []worklog.Day, statements map[string]Checked, through string, now time.Time) []Compared {
	overdue := now.UTC().AddDate(0, 0, -overdueDays).Format(time.DateOnly)
	byDay := map[string]*Compared{}
	of := func(day string) *Compared {
		if byDay[day] == nil {
			byDay[day] = &Compared{Day: day, Differences: []string{}, Notes: []string{}}
		}
		return byDay[day]
	}
	for i := range served {
		of(served[i].Day).Served = &served[i]
	}
	for day, checked := range statements {
		of(day).state(checked, day < overdue)
	}
	all := slices.SortedFunc(maps.Values(byDay), func(a, b *Compared) int { return cmp.Compare(a.Day, b.Day) })
	out := make([]Compared, 0, len(all))
	late := int64(0)
	for _, c := range all {
		late = c.compare(late, c.Day <= through, c.Day < overdue)
		out = append(out, *c)
	}
	return out
}

// Differs reports whether a day has a difference.
func Differs(all []Compared) bool {
	return slices.ContainsFunc(all, func(c Compared) bool { return len(c.Differences) > 0 })
}

// state takes what a statement says. A statement whose signature is not the service's says nothing.
func (c *Compared) state(checked Checked, overdue bool) {
	c.Stated = &Stated{Signature: Valid}
	switch {
	case errors.Is(checked.Err, ErrUnsigned) && overdue:
		c.Stated.Signature = Missing
		c.Differences = append(c.Differences, fmt.Sprintf("%v, %d days after the day's end", checked.Err, overdueDays))
	case errors.Is(checked.Err, ErrUnsigned):
		c.Stated.Signature = Missing
		c.Notes = append(c.Notes, checked.Err.Error())
	case checked.Err != nil:
		c.Stated.Signature = Invalid
		c.Differences = append(c.Differences, checked.Err.Error())
		checked.Sums = nil
	}
	for _, sum := range checked.Sums {
		lines, err := strconv.ParseInt(sum.Lines, 10, 64)
		nano, wrong := strconv.ParseInt(sum.Amount, 10, 64)
		if err != nil || wrong != nil {
			c.Differences = append(c.Differences, errForm.Error())
			continue
		}
		switch sum.Kind {
		case "payg", "plan", "orphan": // each line is of one request
			c.Stated.Requests += lines
			c.Stated.Earned += money.NanoUSD(nano)
		default:
			c.Stated.Other += money.NanoUSD(nano)
		}
	}
	c.Stated.EarnedUSD, c.Stated.OtherUSD = c.Stated.Earned.String(), c.Stated.Other.String()
	if checked.Blocked {
		c.Notes = append(c.Notes, "nothing is batched until an operator has cleared a difference")
	}
}

// compare counts. late is how many requests of the day before may be in this day's statement; it
// returns the number for the next day.
func (c *Compared) compare(late int64, batched, overdue bool) int64 {
	var served worklog.Day
	if c.Served != nil {
		served = *c.Served
	}
	stated := int64(0)
	switch {
	case c.Stated != nil && c.Stated.Signature == Invalid:
		return 0 // the difference is named already, and the requests cannot be compared
	case c.Stated != nil:
		stated = c.Stated.Requests
	case !batched && overdue && served.Requests > served.CutOff:
		c.Differences = append(c.Differences, fmt.Sprintf("not batched yet, %d days after the day's end", overdueDays))
		return 0
	case !batched:
		c.Notes = append(c.Notes, "not batched yet")
		return 0
	}
	ofBefore := min(late, stated)
	if missing := late - ofBefore; missing > 0 {
		c.Differences = append(c.Differences, fmt.Sprintf("%d requests of the last minutes of the day before are in neither "+
			"statement", missing))
	}
	stated -= ofBefore
	missing := served.Requests - served.CutOff - stated
	next := min(max(missing, 0), served.Late)
	switch missing -= next; {
	case missing > 0 && c.Stated == nil:
		c.Differences = append(c.Differences, fmt.Sprintf("there is no statement, and this machine served %d requests",
			served.Requests))
	case missing > 0:
		c.Differences = append(c.Differences, fmt.Sprintf("%d of %d requests that this machine served are not in the "+
			"statement", missing, served.Requests))
	case stated > served.Requests:
		c.Notes = append(c.Notes, fmt.Sprintf("%d more than this machine served: of other machines, or before it counted",
			stated-served.Requests))
	}
	return next
}
