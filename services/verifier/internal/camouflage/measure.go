package camouflage

import (
	"cmp"
	"fmt"
	"slices"

	"svc.internal/services/verifier/internal/camouflage/trees"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/probe"
)

// Set is two kinds of samples that a classifier is to tell apart.
type Set struct {
	// Name says what is compared.
	Name string
	// Hidden are the probes, and Consumers the requests.
	Hidden, Consumers []Sample
}

// Sets returns the comparisons: all requests, comparable requests, and the naive prober's
// probes in the place of ours. The first Usual of the consumers' samples are of requests as
// they come, and the others are comparable ones.
func Sets(consumers, probes, naive []Sample) []Set {
	usual := consumers[:min(Usual, len(consumers))]
	alike, others := comparable(probes, consumers)
	return []Set{{AllRequests, probes, usual}, {Comparable, alike, others}, {NaiveProber, naive, usual}}
}

// The names of the sets.
const (
	AllRequests = "all requests"
	Comparable  = "comparable requests"
	NaiveProber = "naive prober"
)

// cell is in what a comparable request is like a probe: what decides whether an answer can
// be judged.
type cell struct {
	cover.Shape
	whole bool
}

func cellFor(s Sample) cell {
	return cell{cellOf(s), s[index("top_p")] == 1}
}

// judgeable reports whether a probe could have the parameters of a request: temperature 0,
// or the whole distribution at temperature 1, and no bound beyond what is scored.
func judgeable(s Sample) bool {
	t := s[index("temperature")]
	return (t == 0 || t == 1 && s[index("top_p")] == 1) && s[index("max_tokens")] <= probe.MaxAnswerTokens
}

// comparable returns as many probes as requests in each cell, of the requests whose
// parameters a probe could have. None is taken twice: trees would know it again.
func comparable(probes, consumers []Sample) (alike, others []Sample) {
	of := map[cell][]Sample{}
	for _, s := range consumers {
		if judgeable(s) {
			of[cellFor(s)] = append(of[cellFor(s)], s)
		}
	}
	for _, p := range probes {
		if all := of[cellFor(p)]; len(all) > 0 {
			alike, others = append(alike, p), append(others, all[0])
			of[cellFor(p)] = all[1:]
		}
	}
	return alike, others
}

// Tell measures how well trees tell the kinds of a set apart.
func Tell(s Set) (trees.Crossed, error) {
	samples := make([][]float64, 0, len(s.Hidden)+len(s.Consumers))
	labels := make([]bool, 0, cap(samples))
	for _, p := range s.Hidden {
		samples, labels = append(samples, p), append(labels, true)
	}
	for _, r := range s.Consumers {
		samples, labels = append(samples, r), append(labels, false)
	}
	c, err := trees.Cross(samples, labels, trees.Usual())
	if err != nil {
		return c, fmt.Errorf("tell probes from %s: %w", s.Name, err)
	}
	return c, nil
}

// Betrays returns the names of the n features that took most of the loss, with their part.
func Betrays(c trees.Crossed, n int) []string {
	names := Features()
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.Gain[b], c.Gain[a]) })
	var said []string
	for _, i := range order[:min(n, len(order))] {
		said = append(said, fmt.Sprintf("%s %.2f", names[i], c.Gain[i]))
	}
	return said
}
