package store

import (
	"crypto/rand"
	"testing"
	"time"

	"svc.internal/pkg/ids"
)

func TestPriceVersionsThatAreRememberedAreBounded(t *testing.T) {
	kept := newKeptPrices()
	first, err := ids.NewPriceVersion(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	kept.add(first)
	for range maxVendorPrices {
		if !kept.has(first) {
			t.Fatal("the version that is in use: got it forgotten, want it remembered")
		}
		version, err := ids.NewPriceVersion(time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		kept.add(version)
	}
	if n := kept.versions.Len(); n != maxVendorPrices {
		t.Errorf("versions: got %d, want %d", n, maxVendorPrices)
	}
}
