package soak

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"inference-bench/internal/slope"
)

// smallTable is the size of a table below which the table is not shown, in bytes, unless it
// grows.
const smallTable = 256 << 10

// leastBytes and leastCount are what a series grows by in an hour before that is called growth:
// a page of a heap, or one goroutine, that comes late is none.
const (
	leastBytes = 1 << 20
	leastCount = 1
)

// Fit fits the line of each series behind the warm-up, in hours, and leaves those out that were
// not read throughout.
func Fit(all []*Series, warm float64) []*Series {
	var fitted []*Series
	for _, s := range all {
		readings := slices.DeleteFunc(slices.Clone(s.Readings), func(r slope.Reading) bool { return r.Hours < warm })
		line, ok := slope.Fit(readings)
		if !ok {
			continue
		}
		s.Line = line
		fitted = append(fitted, s)
	}
	return fitted
}

// Verdict says in a word what a series does.
func (s *Series) Verdict() string {
	least := float64(leastCount)
	if s.Unit == Bytes {
		least = leastBytes
	}
	switch {
	case !s.Grows(least):
		return "flat"
	case s.Served:
		return "grows with what is served"
	default:
		return "grows"
	}
}

// Print writes the table. requests is how many were served while the line was fitted, over hours.
func Print(out io.Writer, fitted []*Series, requests uint64, hours float64) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "  \tfirst\tlast\tin an hour\t95%\tfor each request\t")
	small := 0
	for _, s := range fitted {
		if s.Served && s.Last < smallTable && s.Verdict() == "flat" {
			small++
			continue
		}
		each := ""
		if s.Unit == Bytes && requests > 0 && s.Verdict() != "flat" {
			each = fmt.Sprintf("%.0f bytes", s.PerHour*hours/float64(requests))
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s to %s\t%s\t%s\n", s.Name, s.Unit.text(s.First), s.Unit.text(s.Last),
			s.Unit.text(s.PerHour), s.Unit.text(s.Low), s.Unit.text(s.High), each, s.Verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if small > 0 {
		fmt.Fprintf(out, "  Flat tables below %s that are left out: %d\n", Bytes.text(smallTable), small)
	}
	return nil
}

// text writes a value for a person.
func (u Unit) text(v float64) string {
	if u != Bytes {
		return fmt.Sprintf("%.1f", v)
	}
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	units := []string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if v >= 100 || i == 0 {
		return fmt.Sprintf("%s%.0f %s", sign, math.Round(v), units[i])
	}
	return fmt.Sprintf("%s%.1f %s", sign, v, units[i])
}
