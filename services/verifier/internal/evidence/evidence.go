// Package evidence turns observations of a provider into evidence with a proven rate of
// error. It decides nothing: the ladder compares its numbers with thresholds.
//
// An observation says for one family of statistics whether the statistic was above its
// threshold τ (b = 1) or not (b = 0). The null hypothesis of an honest provider is
//
//	H₀: P(b = 1 | past) ≤ q₀ = .01
//
// Calibration makes H₀ true whatever the distribution is. For a bet q > q₀,
// e_q = q/q₀ if b = 1 and (1−q)/(1−q₀) if b = 0. E[e_q | past] is linear in P(b = 1),
// grows with it, and is 1 at q₀: at most 1 under H₀. Such an e is an e-value, and a
// product of e-values is an e-process (Ramdas, Grünwald, Vovk, Shafer: Game-theoretic
// statistics and safe anytime-valid inference, 2023).
//
// # Probes
//
// A probe gives at most one observation for each family. Two bits of one answer are not
// bounded given each other: both may be 1 together, which is worth q²/q₀² although it
// happens as often as one of them, and the bit "one of the two" has a rate of up to 2·q₀.
// So each family of a probe is fed by one statistic, which is chosen before the answer:
//
//   - a visible probe feeds V by one of the statistics that its question allows;
//   - a hidden probe feeds U by its claims and ending (statistic.Usage), unless its prompt
//     is an earlier one that returns. Then it feeds U by statistic.Replayed alone.
//
// Process, Confirmation and Recovery take the observations of a whole probe, and refuse a
// repeated family.
//
// # Process
//
// A Process keeps for each family and bet
//
//	M_q ← (M_q + w)·e_q from 0, w = 1/N, N = 20,000; M_f = mean_q M_q; M = Σ_f w_f·M_f
//
// Each step starts a new product with the capital w. An honest past therefore earns no
// credit that a later cheat could spend. M_q after t observations has an expectation of
// at most w·t, because E[(M_q + w)·e_q | past] ≤ M_q + w. M_q − w·t is a supermartingale,
// and stays one if M is set to 0 at some moments, because 0 is not above M. Let M be set
// to 0 at each crossing of c. Each crossing takes away at least c, and all that is taken
// has an expectation of at most w·n after n observations of each family, so
//
//	E[crossings of c] ≤ n·w/c = n/(N·c)
//
// for every stopping rule, and with looking at M as often as one likes. With n ≤ N a
// year and c = 10⁶ the chance of a crossing in a year is at most 10⁻⁶. The shares w_f add
// up to .9 here; the battery of benchmarks has the rest.
//
// # Sampled answers
//
// Family R has an e-value without b: likelihood ratios; see RatioBound and Ratios. M_R
// is the mean over alternatives g and bets λ of products of 1−λ+λe. An alternative that
// joins later starts with the mean of the present ones, so that the mean does not move
// and the proof holds. An alternative that an answer is not weighed against keeps its
// products. Which alternatives are asked must be known before the answer.
//
// # Confirmation, Recovery, Pairs
//
// Confirmation judges again after a notice, with a null five times as wide: P(b = 1) ≤ .05.
// Its products start at 1 and never start anew, so Ville's inequality (Étude critique de
// la notion de collectif, 1939) gives P(sup E ≥ c) ≤ E₀/c ≤ 1/c. Recovery is the same
// bet in the other direction, for each family alone. Pairs compares failed probes with failed organic attempts
// and only steers routing.
//
// # Bits
//
// All operations are + − × ÷ and sqrt on float64 in a fixed order, and products that are
// added to something are converted first (package exact). Equal observations therefore
// give equal bits on every machine. Each state has a canonical binary form (package
// form). The multipliers of b = 0 are one unit in the last place below the quotient, so
// that E[e] ≤ 1 holds for the numbers that are really used. What a step rounds afterwards
// is at most 2⁻⁵² of M; 20,000 steps move the bound by less than 10⁻¹¹ of itself. States
// are cut at 2¹⁰⁰. Cutting only lowers M, and the largest threshold is far below.
//
// The types are values. They are not safe for concurrent use.
package evidence

const (
	// Horizon is N, the number of observations of a family for which the capital of a
	// Process suffices. No process may take more observations in 365 days; the
	// scheduler counts them.
	Horizon = 20_000
	// capital is what each step of a Process puts into each bet.
	capital = 1.0 / Horizon
	// ceiling is where all products are cut: 2¹⁰⁰.
	ceiling = 1 << 100
	// floor is 2⁻⁹⁰⁰, below which a product becomes 0. It keeps the products of a
	// Confirmation clear of subnormal numbers, and is too small to change any decision.
	floor = 1.0 / (1 << 500) / (1 << 400)
)
