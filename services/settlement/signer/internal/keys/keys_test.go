package keys_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/evm"
	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/policy"
)

// signs checks that a key signs for its address.
func signs(t *testing.T, key keys.Key) {
	t.Helper()
	digest := [32]byte{1, 2, 3}
	signature, err := key.Sign(t.Context(), digest)
	if err != nil {
		t.Errorf("%s: got the error %v, want none", key.Address(), err)
	} else if !evm.Signed(digest, signature, key.Address()) {
		t.Errorf("%s: got a signature of somebody else, want its own", key.Address())
	}
}

// The well-known phrase of development, "test test … junk", has this seed, and these are its
// first addresses and its xpub in every wallet.
const (
	knownSeed = "9dfc3c64c2f8bede1533b6a79f8570e5943e0b8fd1cf77107adf7b72cef42185" +
		"d564a3aee24cab43f80e3c4538087d70fc824eabbad596a23c97b6ee8322ccc0"
)

var knownAddresses = []string{
	"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
	"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
}

func TestDepositAddressesAreThoseOfEveryWallet(t *testing.T) {
	t.Parallel()
	d, err := keys.OpenDeposit(knownSeed)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range knownAddresses {
		key, err := d.At(uint32(i))
		if err != nil {
			t.Fatal(err)
		}
		if got := key.Address().String(); got != want {
			t.Errorf("index %d: got %s, want %s", i, got, want)
		}
		signs(t, key)
	}
	if _, err := d.At(keys.MaxDepositIndex); err != nil {
		t.Errorf("the last index: got the error %v, want none", err)
	}
	if _, err := d.At(keys.MaxDepositIndex + 1); !fault.Is(err, fault.UnknownKey) {
		t.Errorf("the index behind the last: got the error %v, want %s", err, fault.UnknownKey)
	}
}

func TestASeedHasItsLength(t *testing.T) {
	t.Parallel()
	for _, seed := range []string{"", "00", knownSeed[:62], knownSeed + "00", strings.Repeat("x", 64)} {
		if _, err := keys.OpenDeposit(seed); err == nil {
			t.Errorf("a seed of %d digits: got none refused, want an error", len(seed))
		} else if seed != "" && len(seed) > 4 && strings.Contains(err.Error(), seed[:8]) {
			t.Errorf("the error shows the seed: %v", err)
		}
	}
}

func writeKey(t *testing.T, private, passphrase string) string {
	t.Helper()
	key, err := crypto.HexToECDSA(private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keystore.EncryptKey(&keystore.Key{Id: uuid.New(), Address: crypto.PubkeyToAddress(key.PublicKey),
		PrivateKey: key}, passphrase, keystore.LightScryptN, keystore.LightScryptP)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKeystoreFileOpensWithItsPassphraseAlone(t *testing.T) {
	t.Parallel()
	private := strings.Repeat("0a", 32)
	path := writeKey(t, private, "open sesame")
	key, err := keys.OpenFile(path, "open sesame")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := crypto.HexToECDSA(private)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := common.Address(key.Address()), crypto.PubkeyToAddress(raw.PublicKey); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	signs(t, key)
	large := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(large, make([]byte, 64<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string][2]string{
		"another passphrase": {path, "open barley"}, "no file": {path + "x", "open sesame"},
		"a file too large": {large, "open sesame"},
	} {
		_, err := keys.OpenFile(tc[0], tc[1])
		if err == nil {
			t.Errorf("%s: got a key, want an error", name)
		} else if strings.Contains(err.Error(), tc[1]) {
			t.Errorf("%s: the error shows the passphrase: %v", name, err)
		}
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	t.Parallel()
	private := strings.Repeat("0a", 32)
	key, err := keys.OpenFile(writeKey(t, private, "x"), "x")
	if err != nil {
		t.Fatal(err)
	}
	d, err := keys.OpenDeposit(knownSeed)
	if err != nil {
		t.Fatal(err)
	}
	child, err := d.At(0)
	if err != nil {
		t.Fatal(err)
	}
	seed := keys.Seed{0: 0x0a, 1: 0x0a, 2: 0x0a, 3: 0x0a}
	// The scalar as digits, as the words of big.Int, and as bytes.
	hidden := []string{"0a0a0a0a", "723401728380766730", "[10 10 10", "9dfc3c64", "ac0974bec39a17e3", "xprv"}
	for _, v := range []any{key, d, child, seed, &seed} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			text := fmt.Sprintf(verb, v)
			for _, h := range hidden {
				if strings.Contains(text, h) {
					t.Errorf("%T by %s: got %q, want no %q in it", v, verb, text, h)
				}
			}
		}
	}
}

func TestADevelopmentSeedIsMadeOnceAndGivesTheSameKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signer", "seed")
	seeds := make([]keys.Seed, 8)
	var wg sync.WaitGroup
	for i := range seeds {
		wg.Go(func() {
			var err error
			if seeds[i], err = keys.OpenSeed(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range seeds {
		if s != seeds[0] {
			t.Fatal("got two seeds of processes that began at once, want one")
		}
	}
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("the file: got mode %o, want 600", got)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil {
		t.Error(err)
	} else if len(list) != 1 {
		t.Errorf("the folder: got %d files, want the seed alone", len(list))
	}
	addresses := map[chain.Address]bool{}
	for _, name := range policy.Keys() {
		key, err := seeds[0].Key(name)
		if err != nil {
			t.Fatal(err)
		}
		signs(t, key)
		addresses[key.Address()] = true
		again, err := seeds[1].Key(name)
		if err != nil {
			t.Fatal(err)
		}
		if again.Address() != key.Address() {
			t.Errorf("%s: got %s again, want %s", name, again.Address(), key.Address())
		}
	}
	if got, want := len(addresses), len(policy.Keys()); got != want {
		t.Errorf("got %d addresses, want %d", got, want)
	}
	if err := os.WriteFile(path, []byte(hex.EncodeToString(seeds[0][:31])), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.OpenSeed(path); err == nil {
		t.Error("a file that is too short: got a seed, want an error")
	}
}

func TestARingHasOneAddressForEachKey(t *testing.T) {
	t.Parallel()
	seed := keys.Seed{1}
	one, err := seed.Key(policy.Payout)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.NewRing(map[policy.Key]keys.Key{policy.Payout: one, policy.Gas: one}, nil); err == nil {
		t.Error("one key under two names: got a ring, want an error")
	}
	ring, err := keys.NewRing(map[policy.Key]keys.Key{policy.Payout: one}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []policy.Key{policy.Gas, policy.Deposit, "unheard-of"} {
		if _, err := ring.Find(name, 0); !fault.Is(err, fault.UnknownKey) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.UnknownKey)
		}
	}
	if _, err := ring.Xpub(); !fault.Is(err, fault.UnknownKey) {
		t.Errorf("the xpub: got the error %v, want %s", err, fault.UnknownKey)
	}
}
