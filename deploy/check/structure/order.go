package structure

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	// exactFiles is the largest cycle of files that is ordered by dynamic
	// programming, which takes two bytes for each of its subsets.
	exactFiles = 22
	// searches is how many orders the local search begins with, for larger ones.
	searches = 400
)

// upward returns the fewest arrows that point back in any order of the files: a
// minimum feedback arc set. Arrows between cycles never point back, so each cycle
// is ordered for itself. The number is exact for cycles of at most exactFiles
// files. For larger ones it is the best that a search from fixed seeds finds, so
// it is the same each time.
func (g graph) upward() int {
	n := 0
	for _, c := range g.cycles() {
		part := g.part(c)
		if len(c) <= exactFiles {
			n += part.fewest()
		} else {
			n += part.search()
		}
	}
	return n
}

// cycles returns the strongly connected components of at least two files.
func (g graph) cycles() [][]int {
	reach := make([][]bool, len(g))
	for i := range g {
		reach[i] = slices.Clone(g[i])
	}
	for k := range g {
		for i := range g {
			for j := range g {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	var all [][]int
	seen := make([]bool, len(g))
	for i := range g {
		if seen[i] {
			continue
		}
		c := []int{i}
		for j := i + 1; j < len(g); j++ {
			if reach[i][j] && reach[j][i] {
				c, seen[j] = append(c, j), true
			}
		}
		if len(c) > 1 {
			all = append(all, c)
		}
	}
	return all
}

// part returns the graph of some of the files.
func (g graph) part(files []int) graph {
	p := make(graph, len(files))
	for i, a := range files {
		p[i] = make([]bool, len(files))
		for j, b := range files {
			p[i][j] = g[a][b]
		}
	}
	return p
}

// fewest orders the files by dynamic programming: the cost of a subset that
// stands first is that of the best last file in it, whose arrows into the others
// of the subset point back.
func (g graph) fewest() int {
	out := make([]uint32, len(g))
	for i := range g {
		for j := range g {
			if g[i][j] {
				out[i] |= 1 << j
			}
		}
	}
	cost := make([]uint16, 1<<len(g))
	for set := uint32(1); int(set) < len(cost); set++ {
		best := ^uint16(0)
		for rest := set; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros32(rest)
			others := set &^ (1 << i)
			best = min(best, cost[others]+uint16(bits.OnesCount32(out[i]&others)))
		}
		cost[set] = best
	}
	return int(cost[len(cost)-1])
}

// search moves single files to better places until none is, from many orders: a
// greedy one and random ones.
func (g graph) search() int {
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same each time
	best := g.count()
	for i := range searches {
		order := random.Perm(len(g))
		if i == 0 {
			order = g.greedy()
		}
		for moved := true; moved; {
			moved = false
			for at := range order {
				if to := g.better(order, at); to != at {
					f := order[at]
					order = slices.Insert(slices.Delete(order, at, at+1), to, f)
					moved = true
				}
			}
		}
		best = min(best, g.back(order))
	}
	return best
}

// greedy returns an order that takes files one by one. A file that names none of the
// remaining files goes to the end. If there is no such file, the file with the largest
// number of arrows out minus arrows in goes next.
func (g graph) greedy() []int {
	var first, last, left []int
	for i := range g {
		left = append(left, i)
	}
	for len(left) > 0 {
		best, largest, sink := 0, -len(g), false
		for at, f := range left {
			out, in := 0, 0
			for _, other := range left {
				out += one(g[f][other])
				in += one(g[other][f])
			}
			if out == 0 {
				best, sink = at, true
				break
			}
			if out-in > largest {
				best, largest = at, out-in
			}
		}
		if sink {
			last = append(last, left[best])
		} else {
			first = append(first, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// better returns the place in the order where the file at a place costs least.
func (g graph) better(order []int, at int) int {
	f, least, to := order[at], 0, at
	delta := 0
	for i := at - 1; i >= 0; i-- {
		delta += one(g[order[i]][f]) - one(g[f][order[i]])
		if delta < least {
			least, to = delta, i
		}
	}
	delta = 0
	for i := at + 1; i < len(order); i++ {
		delta += one(g[f][order[i]]) - one(g[order[i]][f])
		if delta < least {
			least, to = delta, i
		}
	}
	return to
}

// back returns how many arrows point back in the order.
func (g graph) back(order []int) int {
	n := 0
	for i, later := range order {
		for _, earlier := range order[:i] {
			n += one(g[later][earlier])
		}
	}
	return n
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
