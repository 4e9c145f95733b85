package deposit_test

import (
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcutil/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg"

	"svc.internal/services/settlement/internal/deposit"
)

// The seed of "test test test test test test test test test test test junk", whose accounts m/44'/60'/0'/0/index
// everybody knows from development chains.
const seed = "9dfc3c64c2f8bede1533b6a79f8570e5943e0b8fd1cf77107adf7b72cef42185" +
	"d564a3aee24cab43f80e3c4538087d70fc824eabbad596a23c97b6ee8322ccc0"

func account(t *testing.T) *hdkeychain.ExtendedKey {
	t.Helper()
	raw := make([]byte, len(seed)/2)
	for i := range raw {
		raw[i] = digit(seed[2*i])<<4 | digit(seed[2*i+1])
	}
	key, err := hdkeychain.NewMaster(raw, &chaincfg.MainNetParams)
	for _, step := range []uint32{44, 60, 0} {
		if err == nil {
			key, err = key.Derive(hdkeychain.HardenedKeyStart + step)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func digit(c byte) byte { return byte(strings.IndexByte("0123456789abcdef", c)) }

func TestAddressesAreThoseThatWalletsDerive(t *testing.T) {
	t.Parallel()
	key := account(t)
	public, err := key.Neuter()
	if err != nil {
		t.Fatal(err)
	}
	d, err := deposit.NewDeriver(public.String())
	if err != nil {
		t.Fatal(err)
	}
	for index, want := range []string{"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
		"0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"} {
		got, err := d.At(uint32(index))
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("address %d: got %s, want %s", index, got, want)
		}
	}
	if _, err := d.At(deposit.MaxIndex + 1); err == nil {
		t.Error("a hardened index: got an address, want an error")
	}
}

func TestAKeyThatIsNotThePublicOneOfTheAccountIsRefused(t *testing.T) {
	t.Parallel()
	key := account(t)
	deeper, err := key.Derive(0)
	if err != nil {
		t.Fatal(err)
	}
	public, err := deeper.Neuter()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"private": key.String(), "too deep": public.String(), "none": "xpub"} {
		_, err := deposit.NewDeriver(text)
		if err == nil {
			t.Fatalf("%s: got no error, want one", name)
		}
		if strings.Contains(err.Error(), text[4:]) && name != "none" {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}
