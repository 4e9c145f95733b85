package e2e

import (
	"flag"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// atOnce is how many parallel tests run at a time unless -parallel says so: they
// wait for marketplaces more than they compute.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err) // the testing package's own flag
		}
	}
	trial.Main(m)
}
