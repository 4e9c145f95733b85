package store_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/services/billing-ledger/internal/key"
)

// Hostile test 3: what a guess costs says nothing of the key. BenchmarkKeyGuesses
// looks up, by turns, keys that nobody has, keys that begin as an active key does,
// revoked keys and active keys, and reports the median of each over the median of
// keys that nobody has: 1.00 is no difference, and 5% is the most that is meant to
// be. Run it with -benchtime 10000x. It is no test, because a busy machine decides
// as well.
func BenchmarkKeyGuesses(b *testing.B) {
	e := setup(b, unlimited)
	account := e.consumer(b, 0).account
	var active, revoked []apikey.Digest
	var shown []string
	for range 40 {
		good, text, err := e.keys.Issue(b.Context(), key.IssueRequest{Account: account})
		if err != nil {
			b.Fatal(err)
		}
		active, shown = append(active, apikey.Sum(text)), append(shown, good.Prefix)
		bad, text, err := e.keys.Issue(b.Context(), key.IssueRequest{Account: account})
		if err != nil {
			b.Fatal(err)
		}
		if err := e.keys.Revoke(b.Context(), bad.ID); err != nil {
			b.Fatal(err)
		}
		revoked = append(revoked, apikey.Sum(text))
	}
	kinds := []string{"unknown", "known-prefix", "revoked", "active"}
	digest := func(kind, i int) apikey.Digest {
		switch kinds[kind] {
		case "known-prefix":
			return apikey.Sum(shown[i%len(shown)] + rand.Text())
		case "revoked":
			return revoked[i%len(revoked)]
		case "active":
			return active[i%len(active)]
		}
		return apikey.Sum("sk-svc-" + rand.Text() + rand.Text())
	}
	took := make([][]time.Duration, len(kinds))
	b.ResetTimer()
	for i := range b.N {
		for turn := range kinds {
			kind := (i + turn) % len(kinds)
			d := digest(kind, i)
			began := time.Now()
			_, err := e.keys.Authenticate(b.Context(), d)
			took[kind] = append(took[kind], time.Since(began))
			if (err == nil) != (kinds[kind] == "active") {
				b.Fatalf("err == nil: got %t, want %t, with %s", err == nil, kinds[kind] == "active", kinds[kind])
			}
		}
	}
	median := func(kind int) float64 {
		slices.Sort(took[kind])
		return float64(took[kind][len(took[kind])/2])
	}
	for kind, name := range kinds[1:] {
		b.ReportMetric(median(kind+1)/median(0), name+"/unknown")
	}
	b.ReportMetric(median(0)/1e3, "µs/unknown")
}
