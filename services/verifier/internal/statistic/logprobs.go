package statistic

import "svc.internal/services/verifier/internal/exact"

// compared is how many log-probabilities a provider is asked for.
const compared = 5

// completeMass is the probability from which a list of fewer than five is a whole
// distribution.
const completeMass = 0.999

// Declared is the statistic of family C: what the provider declared beside what the
// reference says.
//
// Where both see a token begin at the same byte of the answer, the distance of their
// distributions is Σ p·min(2, |Δ|) over the union of both lists of five, p being the
// larger of the two probabilities. The union and the larger probability keep a provider
// from hiding a token by leaving it out, by naming others in its place, or by declaring
// everything improbable. A token that a list lacks is taken for as probable as the last
// token of that list, and for equal if that is more than the other side says.
//
// The first part is the mean distance. At temperature 0 a second part is the mean of the
// provider's own best − own chosen (at most 2 nats a token): a provider that samples
// contradicts itself. The number that it states beside the chosen token is not believed
// where its list says less: the list's entry for the token counts, and the last entry for
// a token that the list lacks.
func Declared(reference, declared []Position, text string, greedy bool) (Parts, Void) {
	if v := Screen(First(reference)); v != None {
		return nil, v
	}
	if v := checkDeclared(declared); v != None {
		return nil, v
	}
	ours, ok := offsets(reference, text)
	if !ok {
		return nil, NoReference
	}
	theirs, ok := offsets(declared, text)
	if !ok {
		return nil, NotJoined
	}
	if ours = First(ours); len(ours) < len(reference) {
		last := ours[len(ours)-1]
		theirs = theirs[:countTo(theirs, last)]
	}
	return compare(reference, declared, ours, theirs, len(ours), greedy)
}

// checkDeclared returns why the positions that a provider declares cannot be used, or None.
func checkDeclared(declared []Position) Void {
	if len(declared) == 0 {
		return NoLogprobs
	}
	if v := check(declared); v != None {
		return v
	}
	for _, p := range declared {
		if !distinct(p.Top) {
			return Malformed
		}
	}
	return None
}

// compare returns the parts of family C. ours and theirs are the bytes at which tokens begin.
// Half of certain, which is how many of ours are known, must begin where theirs do.
func compare(reference, declared []Position, ours, theirs []int, certain int, greedy bool) (Parts, Void) {
	sum, aligned, v := distances(reference, declared, ours, theirs)
	switch {
	case v != None:
		return nil, v
	case 2*aligned < certain:
		return nil, Misaligned
	}
	parts := Parts{sum / float64(aligned)}
	if greedy {
		parts = append(parts, regret(declared[:len(theirs)]))
	}
	return parts, None
}

// offsets returns the byte at which each token of the text begins. The tokens must join
// to the text. One token more is the end of the answer, and has no offset.
func offsets(positions []Position, text string) ([]int, bool) {
	at := make([]int, 0, len(positions))
	n := 0
	for i, p := range positions {
		if n == len(text) && i == len(positions)-1 && p.Own.Token != "" {
			break
		}
		token := p.Own.Token
		if len(token) > len(text)-n || text[n:n+len(token)] != token {
			return nil, false
		}
		at = append(at, n)
		n += len(token)
	}
	return at, n == len(text)
}

// distances adds up the distances of the positions that begin at the same byte, and
// counts these positions.
func distances(reference, declared []Position, ours, theirs []int) (sum float64, aligned int, v Void) {
	j := 0
	for i, at := range ours {
		if at < 0 {
			continue
		}
		for j < len(theirs) && theirs[j] < at {
			j++
		}
		if j == len(theirs) {
			break
		}
		if theirs[j] != at {
			continue
		}
		if len(declared[j].Top) < compared && declared[j].mass() < completeMass {
			return 0, 0, NoLogprobs
		}
		sum += distance(reference[i].Top, declared[j].Top)
		aligned++
		j++
	}
	return sum, aligned, None
}

// distance is Σ p·min(2, |Δ|) over the union of the first five of both lists.
func distance(ours, theirs []Entry) float64 {
	sum := 0.0
	for _, e := range head(ours) {
		if comparable(e) {
			sum += term(e.Logprob, lookUp(theirs, e))
		}
	}
	for _, e := range head(theirs) {
		if comparable(e) && find(head(ours), e.Token) < 0 {
			sum += term(e.Logprob, lookUp(ours, e))
		}
	}
	return sum
}

func head(entries []Entry) []Entry { return entries[:min(len(entries), compared)] }

// lookUp returns what the list says of e's token. For a token that the list lacks it
// returns at most what the list's last token has, and at most e's own.
func lookUp(entries []Entry, e Entry) exact.Logprob {
	if i := find(entries, e.Token); i >= 0 {
		return entries[i].Logprob
	}
	if len(entries) == 0 {
		return exact.MinLogprob
	}
	return min(entries[len(entries)-1].Logprob, e.Logprob)
}

func term(a, b exact.Logprob) float64 {
	high, low := max(a, b), min(a, b)
	return float64(high.P() * min(cap2, high-low).Nats())
}

// regret is the mean of best − chosen, at most 2 nats each.
func regret(positions []Position) float64 {
	if len(positions) == 0 {
		return 0
	}
	var sum exact.Logprob
	for _, p := range positions {
		sum += min(cap2, p.best()-chosen(p))
	}
	return sum.Nats() / float64(len(positions))
}

// chosen returns what a provider says of the token that it chose, by its number and its
// list the smaller.
func chosen(p Position) exact.Logprob {
	if !comparable(p.Own) || len(p.Top) == 0 {
		return p.Own.Logprob
	}
	return min(p.Own.Logprob, lookUp(p.Top, p.Own))
}

// countTo returns how many of the ascending offsets are at most last.
func countTo(offsets []int, last int) int {
	n := 0
	for n < len(offsets) && offsets[n] <= last {
		n++
	}
	return n
}
