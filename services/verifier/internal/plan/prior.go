package plan

import "svc.internal/services/verifier/internal/cover"

// Prior returns weights of shapes for a fleet whose gateways have reported too few
// requests: short prompts far more often than long ones, three of five streamed, two of
// five at temperature 0. It has no shapes with log-probabilities or tools.
func Prior() map[cover.Shape]int64 {
	lengths := map[uint8]int64{5: 6, 6: 16, 7: 20, 8: 18, 9: 14, 10: 10, 11: 7, 12: 4}
	prior := map[cover.Shape]int64{}
	for length, weight := range lengths {
		for _, streamed := range []bool{true, false} {
			for _, greedy := range []bool{true, false} {
				n := weight * 2
				if streamed {
					n = weight * 3
				}
				if greedy {
					n *= 2
				} else {
					n *= 3
				}
				prior[cover.Shape{Streamed: streamed, Greedy: greedy, Length: length}] = n
			}
		}
	}
	return prior
}
