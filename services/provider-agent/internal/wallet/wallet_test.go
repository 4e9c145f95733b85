package wallet

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// first is the key whose number is 1, which everybody knows.
const (
	first        = "0000000000000000000000000000000000000000000000000000000000000001"
	firstAddress = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
)

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wallet.key")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSignaturesAreThoseOfOtherWallets compares with what an independent
// implementation (viem) signs: the nonces of RFC 6979 leave no choice.
func TestSignaturesAreThoseOfOtherWallets(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		PrivateKey                  string `json:"private_key"`
		Address, Message, Signature string
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if len(vectors) < 20 {
		t.Fatalf("len(vectors): got %d, want at least 20", len(vectors))
	}
	for _, v := range vectors {
		key, err := parse(v.PrivateKey)
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if found := key.Address(); found != v.Address {
			t.Fatalf("key.Address(): got %q, want %q", found, v.Address)
		}
		if got := "0x" + hex.EncodeToString(key.sign(v.Message)); got != v.Signature {
			t.Errorf("%.20q is signed: got %s, want %s", v.Message, got, v.Signature)
		}
	}
}

func TestKeyIsReadFromAFileOfItsOwners(t *testing.T) {
	for _, text := range []string{first, first + "\n", "0x" + first + "\r\n"} {
		if key, err := Load(write(t, text, 0o600)); err != nil {
			t.Errorf("%q: got the error %v, want none", text, err)
		} else if got := key.Address(); got != firstAddress {
			t.Errorf("%q: key.Address(): got %q, want %q", text, got, firstAddress)
		}
	}
	if runtime.GOOS != "windows" {
		for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o660} {
			path := write(t, first, 0o600)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path); err == nil {
				t.Errorf("mode %o: got no error, want one", mode)
			} else if !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf(`mode %o: got the error %q, want "chmod 600" in it`, mode, err)
			}
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "nothing")} {
		if _, err := Load(path); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
}

func TestWhatIsNoKeyIsRefusedAndNotQuoted(t *testing.T) {
	order := "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for _, text := range []string{"", "0x", first[1:], first + "0", strings.Repeat("0", 64), order,
		strings.Repeat("f", 64), strings.Repeat("secret--", 8), first + "\n" + first} {
		key, err := Load(write(t, text, 0o600))
		if err == nil {
			t.Errorf("taking %q: got no error, want one", text)
		} else if key != nil {
			t.Errorf("taking %q: key: got %v, want nil", text, key)
		} else if len(text) > 40 && strings.Contains(err.Error(), text[:40]) {
			t.Errorf("the fault quotes the file: %v", err)
		}
	}
}

func TestKeyIsShownNowhere(t *testing.T) {
	key, err := parse(strings.Repeat("5a", 32))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", key, "in", struct{ K *Key }{key})
	marshalled, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{log.String(), string(marshalled), fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s %q",
		key, key, key, key, key)} {
		switch {
		case strings.Contains(text, "5a5a5a"):
			t.Errorf(`what is shown: got %q, want it without "5a5a5a"`, text)
		case strings.Contains(text, "90 90 90"):
			t.Errorf(`what is shown: got %q, want it without "90 90 90"`, text)
		case strings.Contains(text, "1515870810"):
			t.Errorf(`what is shown: got %q, want it without "1515870810"`, text)
		}
	}
}

// signIn is a message as services send them.
const signIn = "service.example wants you to sign in with your Ethereum account:\n" + firstAddress +
	"\n\nConnect a provider agent.\n\n" +
	"URI: https://service.example/api/v1/provider/ws-challenge\nVersion: 1\nChain ID: 1\nNonce: abcdefgh\n" +
	"Issued At: 2026-11-21T20:00:00.000Z\nExpiration Time: 2026-11-21T20:05:00.000Z"

func TestOnlySignInsOfTheServiceAreSigned(t *testing.T) {
	key, err := parse(first)
	if err != nil {
		t.Fatal(err)
	}
	switch signature, err := key.SignIn(signIn, []string{"service.example:443", "service.example"}, "abcdefgh"); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(signature) != 65:
		t.Errorf("len(signature): got %d, want 65, in %x", len(signature), signature)
	case signature[64] != 27 && signature[64] != 28:
		t.Errorf("signature[64]: got %d, want 27 or 28", signature[64])
	}
	for name, c := range map[string]struct{ message, domain, nonce string }{
		"another site": {strings.Replace(signIn, "service.example", "bank.example", 1), "service.example", "abcdefgh"},
		"a longer domain": {strings.Replace(signIn, "service.example", "service.example.evil", 1), "service.example",
			"abcdefgh"},
		"no domain": {signIn, "", "abcdefgh"},
		"another wallet": {strings.Replace(signIn, firstAddress, "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF", 1),
			"service.example", "abcdefgh"},
		"another nonce":       {signIn, "service.example", "abcdefgi"},
		"a part of the nonce": {signIn, "service.example", "abcdefg"},
		"no nonce":            {signIn, "service.example", ""},
		"two nonces":          {signIn + "\nNonce: other", "service.example", "abcdefgh"},
		"an order of payment": {"Send everything to me.", "service.example", "abcdefgh"},
		"nothing":             {"", "service.example", "abcdefgh"},
		"a book":              {signIn + strings.Repeat("\n", maxMessage), "service.example", "abcdefgh"},
	} {
		if signature, err := key.SignIn(c.message, []string{c.domain}, c.nonce); err == nil {
			t.Errorf("%s is signed: %x", name, signature)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(first)
	f.Add("0x" + first)
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parse(text)
		if err == nil && (len(key.Address()) != 42 || len(key.sign(text)) != 65) {
			t.Fatalf("%v", key)
		}
	})
}
