package contextwindow

import (
	"testing"
	"testing/quick"
)

func TestTheEffectiveWindowIsTheSmallestOfWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reported, catalog, measured, want int64
		source                            Source
	}{
		"reported":                            {4000, 8000, 0, 4000, Reported},
		"reported, no catalog":                {4000, 0, 0, 4000, Reported},
		"silent":                              {0, 8000, 0, 8000, Catalog},
		"above the catalog's, not measured":   {9000, 8000, 0, 8000, Catalog},
		"nothing known":                       {0, 0, 0, 0, Catalog},
		"capped":                              {4000, 8000, 1000, 1000, Measured},
		"measured at least what is reported":  {4000, 8000, 5000, 4000, Measured},
		"measured exactly what is reported":   {4000, 8000, 4000, 4000, Measured},
		"above the catalog's and measured so": {9000, 8000, 10_000, 9000, Measured},
		"above the catalog's, measured less":  {12_000, 8000, 10_000, 10_000, Measured},
		"above the catalog's, a lie":          {12_000, 8000, 2000, 2000, Measured},
		"silent and capped":                   {0, 8000, 2000, 2000, Measured},
		"silent, measured above the catalog":  {0, 8000, 9000, 8000, Measured},
		"measured only":                       {0, 0, 3000, 3000, Measured},
	} {
		got, source := Effective(c.reported, c.catalog, c.measured)
		if got != c.want {
			t.Errorf("%s: window: got %d, want %d", name, got, c.want)
		}
		if source != c.source {
			t.Errorf("%s: source: got %d, want %d", name, source, c.source)
		}
	}
}

// Whatever a provider reports, a measured window is never exceeded, and neither is the
// catalog's without a measurement.
func TestNoReportLiftsAWindowAboveItsBounds(t *testing.T) {
	t.Parallel()
	check := func(reported, catalog, measured uint32) bool {
		got, _ := Effective(int64(reported), int64(catalog), int64(measured))
		switch {
		case measured > 0:
			return got <= int64(measured)
		case catalog > 0:
			return got <= int64(catalog)
		default:
			return got == int64(reported)
		}
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}
