package judge

import (
	"bytes"
	"encoding/json"

	"svc.internal/pkg/fingerprint"
)

// files compares a fingerprint with the reference's. An answer without a digest that the
// reference has is no wrong one: what cannot be read is not stated falsely. Package
// standing makes observations of family E of it.
func (j *judging) files() {
	ours, ok := digests(j.Expected)
	if !ok || ours.Error != "" {
		return
	}
	theirs, ok := digests(j.Answer.Raw)
	if !ok || theirs.Error != "" || len(theirs.Digests) != len(ours.Digests) {
		return
	}
	differs := !bytes.Equal(ours.Chain, theirs.Chain)
	for i := range ours.Digests {
		if len(theirs.Digests[i]) != fingerprint.DigestSize {
			return
		}
		differs = differs || !bytes.Equal(ours.Digests[i], theirs.Digests[i])
	}
	if len(theirs.Chain) != len(ours.Chain) {
		return
	}
	j.out.FilesWrong, j.out.FilesRight = differs, !differs
}

// maxDigests bounds the JSON of a fingerprint.
const maxDigests = 16 << 10

// Digests are the answer to a fingerprint as a record holds it.
type Digests struct {
	Digests [][]byte `json:"digests"`
	Chain   []byte   `json:"chain,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// digests reads the JSON of Digests.
func digests(raw []byte) (Digests, bool) {
	if len(raw) == 0 || len(raw) > maxDigests {
		return Digests{}, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var out Digests
	if d.Decode(&out) != nil || d.More() || len(out.Digests) > fingerprint.MaxRanges {
		return Digests{}, false
	}
	return out, true
}
