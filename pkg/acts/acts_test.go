package acts

import "testing"

// A filter in another form of an id would find nothing, and look as if nothing had been done.
func TestASubjectIsLookedForInTheFormInWhichItIsKept(t *testing.T) {
	const kept = "0192f0c0-0000-7000-8000-00000000abcd"
	for given, want := range map[string]string{
		kept: kept, "0192F0C0-0000-7000-8000-00000000ABCD": kept, "0192f0c000007000800000000000abcd": kept,
		"0xABcd": "0xabcd", "0Xab": "0xab", "0x": "0x", "Acme/Large": "Acme/Large", "2026-11-01": "2026-11-01", "": "",
	} {
		if got := canonical(given); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}
