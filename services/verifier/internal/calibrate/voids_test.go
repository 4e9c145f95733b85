package calibrate_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"svc.internal/services/verifier/internal/calibrate"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// measured counts why families of honest answers are void.
type measured map[string]int

// caused names the answers that are void by the provider's doing.
const caused = "any, by the provider's doing"

// add judges a record as that of a hidden probe.
func (m measured) add(t *testing.T, rec judge.Record) {
	t.Helper()
	rec.Plan.Flow, rec.Plan.Feeds = probe.Hidden, evidence.NoFamily
	j, err := judge.Judge(rec)
	if err != nil {
		t.Fatal(err)
	}
	for f, v := range j.Voids {
		m[fmt.Sprintf("%v %s", f, v)]++
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(j.Voids)), statistic.Void.Provider) {
		m[caused]++
	}
}

// log says why answers are void. At most one of fifty may be by the provider's doing.
func (m measured) log(t *testing.T, asked int) {
	t.Helper()
	if got := m[caused]; got*50 > asked {
		t.Errorf("got %d of %d honest answers void by the provider's doing, want at most one of fifty", got, asked)
	}
	for _, why := range slices.Sorted(maps.Keys(m)) {
		t.Logf("%s: %d of %d answers", why, m[why], asked)
	}
}

// The share of honest answers that are void by the provider's doing is what the bound of
// standing.UnjudgedVoids rests on. SVC_TEST_ANSWERS says over how many answers it is
// measured; a few are measured beside the calibration of the development model.
func TestHonestAnswersAreSeldomVoidByTheProvidersDoing(t *testing.T) {
	wanted, err := strconv.Atoi(os.Getenv("SVC_TEST_ANSWERS"))
	if err != nil {
		t.Skip("it asks a model as often as SVC_TEST_ANSWERS says")
	}
	t.Parallel()
	h, order := laboratory()
	order.Challenges, order.WindowTokens, order.Cheaper, order.Alternatives = 5_000, 2_000, 0, nil
	order.Hosts = order.Hosts[:2]
	r, err := calibrate.New(probe.RunID{3, 15: 1}, order)
	if err != nil {
		t.Fatal(err)
	}
	voids, asked := measured{}, 0
	for b, more := r.Next(); more && asked < wanted; b, more = r.Next() {
		for _, p := range b.Plans {
			asked++
			rec := h.record(t, b.Host.Name, p)
			voids.add(t, rec)
			if _, err := r.Took(rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	voids.log(t, asked)
}
