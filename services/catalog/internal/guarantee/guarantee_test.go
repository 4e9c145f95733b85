package guarantee

import (
	"fmt"
	"slices"
	"testing"
)

const catalogTokens = 8192

func TestTheGuaranteeFollowsTheRuleForEveryKindOfSupply(t *testing.T) {
	for name, c := range map[string]struct {
		supply Supply
		want   Guarantee
	}{
		"nobody online":    {Supply{}, Guarantee{}},
		"a negative count": {Supply{Online: -1, Reporting: 1, MinReported: 5, MaxReported: 5}, Guarantee{}},
		"nobody but a past": {Supply{Reporting: 2, MinReported: 5, MaxReported: 9, Quantizations: []string{"q4"}},
			Guarantee{}},
		"all report": {Supply{Online: 2, Reporting: 2, MinReported: 4096, MaxReported: 16384},
			Guarantee{Online: 2, Tokens: 4096, Basis: Reported, MaxReported: 16384}},
		"all report more than the catalog": {Supply{Online: 1, Reporting: 1, MinReported: 16384, MaxReported: 16384},
			Guarantee{Online: 1, Tokens: 16384, Basis: Reported, MaxReported: 16384}},
		"some report": {Supply{Online: 3, Reporting: 1, MinReported: 4096, MaxReported: 4096},
			Guarantee{Online: 3, Tokens: 4096, Basis: Partial, MaxReported: 4096}},
		"some report more than the catalog": {Supply{Online: 3, Reporting: 2, MinReported: 16384, MaxReported: 32768},
			Guarantee{Online: 3, Tokens: 16384, Basis: Partial, MaxReported: 32768}},
		"all are silent": {Supply{Online: 2}, Guarantee{Online: 2, Tokens: catalogTokens, Basis: Unknown}},
		"reports without a number": {Supply{Online: 2, Reporting: 2},
			Guarantee{Online: 2, Tokens: catalogTokens, Basis: Unknown}},
		"a negative window": {Supply{Online: 1, Reporting: 1, MinReported: -5, MaxReported: 9},
			Guarantee{Online: 1, Tokens: catalogTokens, Basis: Unknown}},
		"more reports than providers": {Supply{Online: 1, Reporting: 2, MinReported: 7, MaxReported: 9},
			Guarantee{Online: 1, Tokens: 7, Basis: Reported, MaxReported: 9}},
		"a largest below the smallest": {Supply{Online: 1, Reporting: 1, MinReported: 7, MaxReported: 3},
			Guarantee{Online: 1, Tokens: 7, Basis: Reported, MaxReported: 7}},
	} {
		if got := Of(c.supply, catalogTokens); !got.Equal(c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTheBasisIsTruthful walks every small supply of consistent counts.
func TestTheBasisIsTruthful(t *testing.T) {
	for online := int32(0); online <= 4; online++ {
		for reporting := int32(0); reporting <= online; reporting++ {
			s := Supply{Online: online, Reporting: reporting}
			if reporting > 0 {
				s.MinReported, s.MaxReported = 100, 200
			}
			g := Of(s, catalogTokens)
			want := map[bool]Basis{true: Reported, false: Partial}[reporting == online]
			switch {
			case online == 0:
				want = NoOnlineProviders
			case reporting == 0:
				want = Unknown
			}
			if g.Basis != want {
				t.Errorf("%d of %d report: got %v, want %v", reporting, online, g.Basis, want)
			}
			if (g.Tokens == 0) != (g.Basis == NoOnlineProviders) {
				t.Errorf("%d of %d report: %+v: g.Tokens == 0: got %t, want %t", reporting, online, g, g.Tokens == 0,
					g.Basis == NoOnlineProviders)
			} else if (g.MaxReported == 0) != (reporting == 0) {
				t.Errorf("%d of %d report: %+v: g.MaxReported == 0: got %t, want %t", reporting, online, g, g.MaxReported == 0,
					reporting == 0)
			}
		}
	}
}

func TestBasesHaveTheirPublicNames(t *testing.T) {
	want := []string{"no_online_providers", "reported", "partial", "unknown"}
	for i, name := range want {
		if got := Basis(i).String(); got != name {
			t.Errorf("basis %d: got %q, want %q", i, got, name)
		}
	}
}

func TestQuantizationsAreBoundedWhateverProvidersSay(t *testing.T) {
	s := Supply{Online: 1, Quantizations: []string{"q8", "", "fp16", "q8", "a name that is much too long", "\xff"}}
	if got := Of(s, 1).Quantizations; !slices.Equal(got, []string{"fp16", "q8"}) {
		t.Errorf("quantizations: got %q, want %q", got, []string{"fp16", "q8"})
	}
	for i := range 100 {
		s.Quantizations = append(s.Quantizations, fmt.Sprint("q", i))
	}
	if n := len(Of(s, 1).Quantizations); n != maxQuantizations {
		t.Errorf("quantizations: got %d, want %d", n, maxQuantizations)
	}
}

func TestAProviderThatIsSilentOrClaimsMoreHasTheCatalogsWindow(t *testing.T) {
	for reported, want := range map[int64]int64{
		0: catalogTokens, -1: catalogTokens, 1: 1, catalogTokens: catalogTokens, 99_999: catalogTokens,
		10_000_000: catalogTokens,
	} {
		if got, own := Effective(reported, catalogTokens); got != want || own != (reported > 0 && reported <= catalogTokens) {
			t.Errorf("reported %d: got %d, %v; want %d", reported, got, own, want)
		}
	}
	if got, own := Effective(10_000_000, 0); got != 10_000_000 || !own {
		t.Errorf("without a catalog's: got %d, %v; want the report", got, own)
	}
}
