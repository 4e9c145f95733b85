package ethereum

import (
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAddressesHaveTheCapitalsOfTheStandard(t *testing.T) {
	for _, want := range []string{ // of EIP-55 itself
		"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		if got := Address(unhex(t, want[2:])).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAKeyHasItsAddress(t *testing.T) {
	// The public key of the private key whose number is 1: the point that secp256k1
	// begins with.
	key := unhex(t, "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"+
		"483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8")
	if got, want := AddressOf(key).String(), "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The digests were made by an independent implementation (viem).
func TestTheDigestIsThatOfPersonalSign(t *testing.T) {
	for text, want := range map[string]string{
		"":            "5f35dce98ba4fba25530a026ed80b2cecdaa31091ba4958b99b52ea1d068adad",
		"hello world": "d9eba16ed0ecae432b71fe008c98cc872bb4cc214d3220a36f365326cf807d68",
	} {
		digest := PersonalDigest(text)
		if got := hex.EncodeToString(digest[:]); got != want {
			t.Errorf("PersonalDigest(%q): got %s, want %s", text, got, want)
		}
	}
}

func TestAnAddressIsReadWithItsChecksum(t *testing.T) {
	t.Parallel()
	const text = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	for _, form := range []string{text, strings.ToLower(text), "0x" + strings.ToUpper(text[2:])} {
		a, err := ParseAddress(form)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", form, err)
		}
		if got := a.String(); got != text {
			t.Errorf("%s: got %s, want %s", form, got, text)
		}
	}
	for _, form := range []string{
		"", "0x", text[2:], text + "0", text[:41], "0X" + text[2:], "0x" + strings.Repeat("g", 40),
		"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	} {
		if a, err := ParseAddress(form); err == nil {
			t.Errorf("%s: got %s, want an error", form, a)
		}
	}
}
