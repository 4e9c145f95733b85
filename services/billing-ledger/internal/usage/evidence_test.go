package usage

import "testing"

func TestEverySourceOfEvidenceHasItsCounts(t *testing.T) {
	for _, source := range []EvidenceSource{Hub, Gateway, WorkReceipt} {
		if got := settledBy[source]; got.lost == 0 || got.ended == 0 {
			t.Errorf("%s: got %+v, want a count for answers that were lost and for those that ended", source, got)
		}
	}
	if got, want := len(settledBy), 3; got != want {
		t.Errorf("got %d sources, want %d", got, want)
	}
}
