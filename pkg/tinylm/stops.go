package tinylm

// stops finds stop strings in a stream of bytes, each with the automaton of
// Knuth, Morris and Pratt, so that a byte costs constant time on average.
type stops []*stop

type stop struct {
	text string
	fall []int // fall[n-1] is the next shorter match to try after a match of n bytes
	at   int   // length of the longest prefix that the stream now ends with
}

func newStops(texts []string) stops {
	out := make(stops, len(texts))
	for i, text := range texts {
		s := &stop{text: text, fall: make([]int, len(text))}
		for at := 1; at < len(text); at++ {
			s.fall[at] = s.extend(s.fall[at-1], text[at])
		}
		out[i] = s
	}
	return out
}

// extend is the length of the longest prefix of the text that the stream ends with
// after b. at is that length before b.
func (s *stop) extend(at int, b byte) int {
	for at > 0 && s.text[at] != b {
		at = s.fall[at-1]
	}
	if s.text[at] == b {
		at++
	}
	return at
}

// take reads a byte and returns the length of the longest stop string that now
// ends the stream, or 0. After a match the automata must not be used again.
func (s stops) take(b byte) (matched int) {
	for _, stop := range s {
		stop.at = stop.extend(stop.at, b)
		if stop.at == len(stop.text) {
			matched = max(matched, stop.at)
		}
	}
	return matched
}

// pending is the number of bytes at the end of the stream that may still turn
// out to begin a stop string.
func (s stops) pending() int {
	n := 0
	for _, stop := range s {
		n = max(n, stop.at)
	}
	return n
}
