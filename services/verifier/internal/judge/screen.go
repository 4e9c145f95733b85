package judge

import "svc.internal/services/verifier/internal/statistic"

// Screened returns why an answer to the prompt of a reference's own answer would prove
// nothing: TooShort or NotInformative. It returns None for an answer that can be judged, and
// for one of which nothing is known, such as one without log-probabilities.
func Screened(raw []byte) statistic.Void {
	r, v := read(raw)
	if v != statistic.None {
		return statistic.None
	}
	var positions []statistic.Position
	for _, d := range r.documents {
		if positions, v = statistic.Content(positions, d); v != statistic.None {
			return statistic.None
		}
	}
	if len(positions) == 0 && statistic.Trim(r.text) != "" {
		return statistic.None
	}
	switch v := statistic.Screen(statistic.First(positions)); v {
	case statistic.TooShort, statistic.NotInformative:
		return v
	default:
		return statistic.None
	}
}
