package trees

// ridge keeps the values of small leaves small.
const ridge = 1

// grower grows the next tree. slope and curve are the first and second derivative of the
// loss at each sample, edges the bins of each feature, and gain is added to.
type grower struct {
	Depth, Leaf  int
	edges        [][]float64
	gain         []float64
	rows         [][]uint8
	slope, curve []float64
}

// grow grows one tree from its root.
func (g *grower) grow() tree {
	t := make(tree, 1<<(g.Depth+1)-1)
	all := make([]int, len(g.rows))
	for i := range all {
		all[i] = i
	}
	g.split(t, 0, 0, all)
	return t
}

// split makes a node of the samples, and its children.
func (g *grower) split(t tree, at, depth int, of []int) {
	var slope, curve float64
	for _, i := range of {
		slope += g.slope[i]
		curve += g.curve[i]
	}
	t[at] = node{leaf: true, value: slope / (curve + ridge)}
	if depth == g.Depth || len(of) < 2*g.Leaf {
		return
	}
	best := cut{}
	for feature, edges := range g.edges {
		if c := g.best(of, feature, len(edges), slope, curve); c.gain > best.gain {
			best = c
		}
	}
	if best.gain <= 0 {
		return
	}
	g.gain[best.feature] += best.gain
	t[at] = node{feature: best.feature, bin: best.bin}
	left, right := make([]int, 0, len(of)), make([]int, 0, len(of))
	for _, i := range of {
		if g.rows[i][best.feature] <= best.bin {
			left = append(left, i)
		} else {
			right = append(right, i)
		}
	}
	g.split(t, 2*at+1, depth+1, left)
	g.split(t, 2*at+2, depth+1, right)
}

// cut parts samples: those with at most the bin go left.
type cut struct {
	feature int
	bin     uint8
	gain    float64
}

// leastGain is what a cut must take of the loss: less is rounding.
const leastGain = 1e-9

// best returns the best cut of samples by one feature.
func (g *grower) best(of []int, feature, bins int, slope, curve float64) cut {
	var slopes, curves [256]float64
	var counts [256]int
	for _, i := range of {
		b := g.rows[i][feature]
		slopes[b] += g.slope[i]
		curves[b] += g.curve[i]
		counts[b]++
	}
	whole := slope * slope / (curve + ridge)
	found := cut{feature: feature, gain: 0}
	var leftSlope, leftCurve float64
	left := 0
	for b := range bins - 1 {
		leftSlope += slopes[b]
		leftCurve += curves[b]
		left += counts[b]
		if left < g.Leaf || len(of)-left < g.Leaf || counts[b] == 0 {
			continue
		}
		rightSlope, rightCurve := slope-leftSlope, curve-leftCurve
		gain := leftSlope*leftSlope/(leftCurve+ridge) + rightSlope*rightSlope/(rightCurve+ridge) - whole
		if gain > found.gain+leastGain {
			found.bin, found.gain = uint8(b), gain // at most 256 bins
		}
	}
	return found
}
