package statistic

import (
	"cmp"
	"slices"

	"svc.internal/services/verifier/internal/exact"
)

// The bounds of a comparison without a reference.
const (
	// MinPeers is how many owners a comparison needs.
	MinPeers = 3
	// MaxPeers bounds the owners of a comparison.
	MaxPeers = 64
)

// Peer is the first position of a provider's answer to a prompt that several providers
// got, and the provider's owner.
type Peer struct {
	Owner string
	Top   []Entry
}

// Consensus returns how far each peer lies from the median of all: Σ p·min(2, |Δ|), as in
// Declared, between the peer's log-probabilities and the median of what the owners say of
// each token. Peers of one owner count once in the median, with the first of them. The
// distance leads to a watch at most, because a majority may be dishonest.
func Consensus(peers []Peer) ([]float64, Void) {
	if len(peers) > MaxPeers {
		return nil, TooLarge
	}
	var owners []string
	var voices [][]Entry
	for _, p := range peers {
		if len(p.Top) == 0 {
			return nil, NoLogprobs
		}
		if v := checkPosition(Position{Own: p.Top[0], Top: p.Top}); v != None {
			return nil, v
		}
		if !distinct(p.Top) {
			return nil, Malformed
		}
		if !slices.Contains(owners, p.Owner) {
			owners, voices = append(owners, p.Owner), append(voices, p.Top)
		}
	}
	if len(owners) < MinPeers {
		return nil, NoReference
	}
	middle := medians(voices)
	apart := make([]float64, len(peers))
	for i, p := range peers {
		apart[i] = distance(middle, p.Top)
	}
	return apart, None
}

// medians returns the median of what the lists say of each token, the likeliest first. A
// list that lacks a token says what it says of its last one. Of an even number of values
// the lower middle one is taken.
func medians(lists [][]Entry) []Entry {
	var middle []Entry
	for _, list := range lists {
		for _, e := range list {
			if !comparable(e) || find(middle, e.Token) >= 0 {
				continue
			}
			said := make([]exact.Logprob, len(lists))
			for i, other := range lists {
				said[i] = other[len(other)-1].Logprob
				if k := find(other, e.Token); k >= 0 {
					said[i] = other[k].Logprob
				}
			}
			slices.Sort(said)
			middle = append(middle, Entry{Token: e.Token, Logprob: said[(len(said)-1)/2]})
		}
	}
	slices.SortStableFunc(middle, byLogprob)
	return middle[:min(len(middle), MaxTop)]
}

// byLogprob orders entries, the likeliest first, and equal ones by their bytes.
func byLogprob(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token))
}
