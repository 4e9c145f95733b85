package main

import (
	"fmt"
	"io"

	"inference-bench/internal/loadgen"
	"inference-bench/internal/plan"
	"inference-bench/internal/record"
)

// tables prints a table of each scenario with all that was measured.
func tables(w io.Writer, c plan.Plan, set record.Set) {
	failed := func(s, t string) string {
		bad, all := set.Failures(s, t)
		return fmt.Sprintf("%d of %d", bad, all)
	}
	for _, s := range c.Scenarios {
		get := func(t string, f func(*loadgen.Result) float64) float64 {
			v, _ := set.Median(s.Name, t, f)
			return v
		}
		p50 := func(r *loadgen.Result) float64 { return r.P50 }
		p99 := func(r *loadgen.Result) float64 { return r.P99 }
		rps := func(r *loadgen.Result) float64 { return r.ReqPerSec }
		cps := func(r *loadgen.Result) float64 { return r.ChunkPerSec }
		cpuR := func(r *loadgen.Result) float64 { return r.CPUPerReq }
		cpuC := func(r *loadgen.Result) float64 { return r.CPUPerChunk }
		heading(w, c, s, set)
		for _, t := range c.Targets {
			if _, n := set.Median(s.Name, t.Name, rps); n == 0 {
				continue
			}
			g := func(f func(*loadgen.Result) float64) float64 { return get(t.Name, f) }
			_, direct := set.Median(s.Name, c.Baseline, rps)
			d := func(f func(*loadgen.Result) float64) string {
				return unless(direct == 0, "%.0f", get(t.Name, f)-get(c.Baseline, f))
			}
			of := func(f func(*loadgen.Result) float64) string {
				return unless(direct == 0, "%.2f", g(f)/get(c.Baseline, f))
			}
			errs := failed(s.Name, t.Name)
			rss := g(func(r *loadgen.Result) float64 { return float64(r.RSSPeak) / (1 << 20) })
			ref := func(f func(*loadgen.Result) float64) string {
				ratios := set.Series(s.Name, t.Name, f).Over(set.Series(s.Name, c.Reference, f))
				if len(ratios) == 0 || t.Name == c.Baseline {
					return "–"
				}
				return fmt.Sprintf("%.2f", ratios.Median())
			}
			if s.Mode == "stream" {
				r50 := func(r *loadgen.Result) float64 { return r.Relay50 }
				r99 := func(r *loadgen.Result) float64 { return r.Relay99 }
				fmt.Fprintf(w,
					"| %s | %.0f | %.0f | %s | %.2f / %.2f | %.0f / %.0f | %s / %s | %.0f / %.0f | "+
						"%.2f | %s | %.2f | %.0f | %s |\n", t.Name,
					g(rps), g(cps), of(cps),
					g(func(r *loadgen.Result) float64 { return r.TTFT50 })/1e3, g(func(r *loadgen.Result) float64 { return r.TTFT99 })/
						1e3,
					g(r50), g(r99), d(r50), d(r99),
					g(func(r *loadgen.Result) float64 { return r.Jitter50 }), g(func(r *loadgen.Result) float64 { return r.Jitter99 }),
					g(cpuC), ref(cpuC), g(func(r *loadgen.Result) float64 { return r.NominalRatio }), rss, errs)
				continue
			}
			fmt.Fprintf(w, "| %s | %.0f | %s | %.0f | %.0f | %.0f | %s | %s | %.1f | %s | %.0f | %s |\n", t.Name,
				g(rps), of(rps), g(p50), g(p99), g(func(r *loadgen.Result) float64 { return r.P999 }),
				d(p50), d(p99), g(cpuR), ref(cpuR), rss, errs)
		}
	}
}

// heading begins the table of a scenario.
func heading(w io.Writer, c plan.Plan, s plan.Scenario, set record.Set) {
	fmt.Fprintf(w, "\n### %s (%s, model %s, prompt %d B, %d connections", s.Name, s.Mode, s.Model, s.Prompt, s.Conns)
	if s.Rate > 0 {
		fmt.Fprintf(w, ", open loop %.0f/s", s.Rate)
	}
	fmt.Fprintf(w, ", median of %d)\n\n", rounds(c, s, set))
	if s.Mode == "stream" {
		fmt.Fprintln(w,
			"| target | streams/s | chunks/s | of direct | TTFT p50 / p99 ms | relay p50 / p99 µs | "+
				"added relay p50 / p99 µs | jitter p50 / p99 µs | CPU µs/chunk | × ref | of nominal | RSS peak MiB | errors |")
		fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	} else {
		fmt.Fprintln(w,
			"| target | req/s | of direct | p50 µs | p99 µs | p99.9 µs | added p50 µs | added p99 µs | CPU µs/req | × ref | "+
				"RSS peak MiB | errors |")
		fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	}
}

// rounds is how many rounds of a scenario some target has.
func rounds(c plan.Plan, s plan.Scenario, set record.Set) int {
	n := 0
	for _, t := range c.Targets {
		n = max(n, len(set.Results(s.Name, t.Name)))
	}
	return n
}

// unless writes x, or a dash where there is nothing to compare with.
func unless(nothing bool, format string, x float64) string {
	if nothing {
		return "–"
	}
	return fmt.Sprintf(format, x)
}
