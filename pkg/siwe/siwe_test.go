package siwe

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ethereum"
)

// vectors were made by an independent implementation (viem).
type vectors struct {
	Messages []struct {
		Address, Message, Digest, Signature string
	}
	Challenges []struct {
		Domain, Address, URI, Nonce, Purpose, Message, Signature string

		ChainID   int64     `json:"chain_id"`
		IssuedAt  time.Time `json:"issued_at"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	Wrapped string `json:"wrapped_6492"`
}

func load(t testing.TB) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	switch {
	case len(v.Messages) < 20:
		t.Fatalf("the vectors: len(v.Messages): got %d, want at least 20", len(v.Messages))
	case len(v.Challenges) < 4:
		t.Fatalf("the vectors: len(v.Challenges): got %d, want at least 4", len(v.Challenges))
	case v.Wrapped == "":
		t.Fatal(`the vectors: v.Wrapped: got "", want some text`)
	}
	return v
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// order is the curve's.
func order() *big.Int {
	n, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	return n
}

func TestAddressesHaveTheCapitalsOfTheStandard(t *testing.T) {
	for _, text := range []string{ // of EIP-55 itself
		"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		digits := text[2:]
		for _, form := range []string{text, "0x" + strings.ToLower(digits), "0x" + strings.ToUpper(digits)} {
			if a, err := ParseAddress(form); err != nil {
				t.Errorf("%s: got the error %v, want none", form, err)
			} else if a.String() != text {
				t.Errorf("%s: a: got %q, want %q", form, a.String(), text)
			}
		}
		// Every letter in the other case is found, but where that makes all
		// letters of one case.
		for i, c := range digits {
			other := strings.ToLower(string(c))
			if other == string(c) {
				other = strings.ToUpper(string(c))
			}
			wrong := digits[:i] + other + digits[i+1:]
			if wrong == digits || wrong == strings.ToLower(digits) || wrong == strings.ToUpper(digits) {
				continue
			}
			if _, err := ParseAddress("0x" + wrong); !errors.Is(err, ErrChecksum) {
				t.Errorf("0x%s: got the error %v, want %v", wrong, err, ErrChecksum)
			}
		}
	}
}

func TestWhatIsNoAddressIsRefused(t *testing.T) {
	good := "0x52908400098527886e0f7030069857d2e4169ee7"
	for _, text := range []string{"", "0x", good[2:], "0X" + good[2:], good + "0", good[:41], " " + good, good + "\n",
		"0x" + strings.Repeat("g", 40), "0x" + strings.Repeat("é", 20), strings.Repeat("0x", 1<<20)} {
		if a, err := ParseAddress(text); !errors.Is(err, ErrAddress) {
			t.Errorf("%.50q: got the error %v, want %v", text, err, ErrAddress)
		} else if a != (Address{}) {
			t.Errorf("%.50q: ParseAddress(text): got %v, want %v", text, a, Address{})
		}
	}
}

func TestMessageIsTheTextThatWalletsKnow(t *testing.T) {
	for _, v := range load(t).Challenges {
		address, err := ParseAddress(v.Address)
		if err != nil {
			t.Fatal(err)
		}
		far := time.FixedZone("far", 5*3600+1800) // the zone of the clock does not matter
		c := Challenge{Domain: v.Domain, Address: address, URI: v.URI, ChainID: v.ChainID, Nonce: v.Nonce,
			IssuedAt: v.IssuedAt.In(far), ExpiresAt: v.ExpiresAt, Purpose: v.Purpose}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if got := Message(c); got != v.Message {
			t.Errorf("the message is\n%q, want\n%q", got, v.Message)
		}
		if got, err := Recover(Message(c), unhex(t, v.Signature)); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if got != address {
			t.Errorf("it is signed: got %v, want %v", got, address)
		}
	}
}

func TestSignatureOfAnotherChallengeIsSomebodyElses(t *testing.T) {
	v := load(t).Challenges[0]
	address, _ := ParseAddress(v.Address)
	signed := Challenge{Domain: v.Domain, Address: address, URI: v.URI, ChainID: v.ChainID, Nonce: v.Nonce,
		IssuedAt: v.IssuedAt, ExpiresAt: v.ExpiresAt, Purpose: v.Purpose}
	for name, change := range map[string]func(*Challenge){
		"another domain":  func(c *Challenge) { c.Domain = "evil.example.com" },
		"another chain":   func(c *Challenge) { c.ChainID++ },
		"another purpose": func(c *Challenge) { c.Purpose = "Send everything." },
		"another nonce":   func(c *Challenge) { c.Nonce += "0" },
		"another URI":     func(c *Challenge) { c.URI += "/" },
		"a later expiry":  func(c *Challenge) { c.ExpiresAt = c.ExpiresAt.Add(time.Millisecond) },
		"another issue":   func(c *Challenge) { c.IssuedAt = c.IssuedAt.Add(-time.Millisecond) },
		"another address": func(c *Challenge) { c.Address[0]++ },
	} {
		asked := signed
		change(&asked)
		if got, err := Recover(Message(asked), unhex(t, v.Signature)); err == nil && got == asked.Address {
			t.Errorf("%s: the signature holds", name)
		}
	}
}

func TestChallengeThatSaysMoreThanItsFieldsIsRefused(t *testing.T) {
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	good := Challenge{Domain: "a.example", URI: "https://a.example/", ChainID: 1, Nonce: "abcdefgh", IssuedAt: at,
		ExpiresAt: at.Add(time.Minute), Purpose: "Connect."}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Challenge){
		"no domain":          func(c *Challenge) { c.Domain = "" },
		"a line in domain":   func(c *Challenge) { c.Domain = "a\nb" },
		"a path in domain":   func(c *Challenge) { c.Domain = "a/b" },
		"a long domain":      func(c *Challenge) { c.Domain = strings.Repeat("a", 256) },
		"a relative URI":     func(c *Challenge) { c.URI = "/x" },
		"a line in URI":      func(c *Challenge) { c.URI = "https://a\nNonce: b" },
		"a long URI":         func(c *Challenge) { c.URI = "https://" + strings.Repeat("a", 2048) },
		"chain 0":            func(c *Challenge) { c.ChainID = 0 },
		"a short nonce":      func(c *Challenge) { c.Nonce = "abcdefg" },
		"a long nonce":       func(c *Challenge) { c.Nonce = strings.Repeat("a", 129) },
		"a space in nonce":   func(c *Challenge) { c.Nonce = "abcd efgh" },
		"no time":            func(c *Challenge) { c.ExpiresAt = at },
		"no purpose":         func(c *Challenge) { c.Purpose = "" },
		"a line in purpose":  func(c *Challenge) { c.Purpose = "a\n\nURI: b" },
		"a long purpose":     func(c *Challenge) { c.Purpose = strings.Repeat("a", 257) },
		"a trick in purpose": func(c *Challenge) { c.Purpose = "a\u202eb" },
	} {
		c := good
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSignerIsFound(t *testing.T) {
	for _, v := range load(t).Messages {
		digest := ethereum.PersonalDigest(v.Message)
		if !bytes.Equal(digest[:], unhex(t, v.Digest)) {
			t.Errorf("the digest of %.20q is %x", v.Message, digest)
		}
		signature := unhex(t, v.Signature)
		for range 2 { // with v from 27, and from 0
			if a, err := Recover(v.Message, signature); err != nil {
				t.Errorf("%.20q is signed: got the error %v, want none", v.Message, err)
			} else if a.String() != v.Address {
				t.Errorf("%.20q is signed: a: got %q, want %q", v.Message, a.String(), v.Address)
			}
			signature[64] -= 27
		}
		signature[64] ^= 1
		if a, err := Recover(v.Message, signature); err == nil && a.String() == v.Address {
			t.Error("the signature holds with another v")
		}
		signature[64] ^= 1
		if a, err := Recover(v.Message+" ", signature); err == nil && a.String() == v.Address {
			t.Error("the signature holds for another message")
		}
	}
}

func TestSecondFormOfASignatureIsRefused(t *testing.T) {
	for _, v := range load(t).Messages {
		signature := unhex(t, v.Signature)
		s := new(big.Int).SetBytes(signature[32:64])
		s.Sub(order(), s).FillBytes(signature[32:64])
		signature[64] = 27 + 28 - signature[64] // the twin's v: mathematically as good
		if a, err := Recover(v.Message, signature); !errors.Is(err, ErrMalleable) {
			t.Errorf("the twin is signed: got the error %v, want %v (a is %s)", err, ErrMalleable, a)
		}
	}
}

func TestSignatureOnTheBoundOfS(t *testing.T) {
	signature := unhex(t, load(t).Messages[0].Signature)
	half := new(big.Int).Rsh(order(), 1)
	half.FillBytes(signature[32:64])
	if _, err := Recover("", signature); err != nil {
		t.Errorf("half the order: %v", err)
	}
	half.Add(half, big.NewInt(1)).FillBytes(signature[32:64])
	if _, err := Recover("", signature); !errors.Is(err, ErrMalleable) {
		t.Errorf("one above half the order: got the error %v, want %v", err, ErrMalleable)
	}
}

func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	most := new(big.Int).Lsh(big.NewInt(1), 256)
	most.Sub(most, big.NewInt(1))
	for name, n := range map[string]*big.Int{
		"zero": big.NewInt(0), "the order": order(), "one above the order": new(big.Int).Add(order(), big.NewInt(1)),
		"all ones": most,
	} {
		for part, at := range map[string]int{"r": 0, "s": 32} {
			signature := unhex(t, load(t).Messages[0].Signature)
			n.FillBytes(signature[at : at+32])
			if a, err := Recover("", signature); !errors.Is(err, ErrSignature) {
				t.Errorf("%s is %s: signed: got the error %v, want %v (a is %s)", part, name, err, ErrSignature, a)
			}
		}
	}
	// 5 is no point's x on the curve.
	signature := make([]byte, 65)
	signature[31], signature[63], signature[64] = 5, 1, 27
	if a, err := Recover("", signature); !errors.Is(err, ErrSignature) {
		t.Errorf("r without a point: signed: got the error %v, want %v (a is %s)", err, ErrSignature, a)
	}
}

func TestSignaturesOfOtherKindsAreRefused(t *testing.T) {
	v := load(t)
	plain := unhex(t, v.Messages[1].Signature)
	for name, c := range map[string]struct {
		signature []byte
		want      error
	}{
		"nothing":            {nil, ErrSignatureLength},
		"64 bytes, EIP-2098": {plain[:64], ErrSignatureLength},
		"66 bytes":           {append(plain[:65:65], 0), ErrContractWallet},
		"two owners":         {append(plain[:65:65], plain...), ErrContractWallet},
		"wrapped, EIP-6492":  {unhex(t, v.Wrapped), ErrContractWallet},
		"only the wrapping":  {unhex(t, v.Wrapped)[len(unhex(t, v.Wrapped))-32:], ErrContractWallet},
	} {
		if a, err := Recover(v.Messages[1].Message, c.signature); !errors.Is(err, c.want) {
			t.Errorf("%s: got the error %v, want %v", name, err, c.want)
		} else if a != (Address{}) {
			t.Errorf("%s: signed: got %v, want %v", name, a, Address{})
		}
	}
	for id := range 256 {
		signature := append([]byte(nil), plain...)
		signature[64] = byte(id)
		_, err := Recover("x", signature)
		if taken := id <= 1 || id == 27 || id == 28; errors.Is(err, ErrRecoveryID) == taken {
			t.Errorf("v %d: errors.Is(err, ErrRecoveryID): got %t, want any but %t", id, errors.Is(err, ErrRecoveryID), taken)
		}
	}
	if _, err := Recover(strings.Repeat("a", maxMessage+1), plain); !errors.Is(err, ErrMessageLength) {
		t.Errorf("a message above the bound: got the error %v, want %v", err, ErrMessageLength)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, text := range []string{"", "0x", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		"0X52908400098527886E0F7030069857D2E4169EE7", "0x" + strings.Repeat("F", 40)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			if a != (Address{}) {
				t.Fatalf("an address beside an error: got %v, want %v", a, Address{})
			}
			return
		}
		again, err := ParseAddress(a.String())
		switch {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case again != a:
			t.Fatalf("again: got %v, want %v, with %q", again, a, text)
		case !strings.EqualFold(a.String(), text):
			t.Fatalf("strings.EqualFold(a.String(), text): got false, want true, with %q", text)
		}
	})
}

func FuzzRecover(f *testing.F) {
	for _, v := range load(f).Messages {
		f.Add(v.Message, unhex(f, v.Signature))
	}
	f.Add("", unhex(f, load(f).Wrapped))
	f.Fuzz(func(t *testing.T, message string, signature []byte) {
		a, err := Recover(message, signature)
		if err != nil {
			if a != (Address{}) {
				t.Fatalf("an address beside an error: got %v, want %v", a, Address{})
			}
			return
		}
		if len(signature) != SignatureLength {
			t.Fatalf("bytes taken: got %d, want %d", len(signature), SignatureLength)
		}
		s := new(big.Int).SetBytes(signature[32:64])
		if s.Sign() == 0 {
			t.Fatalf("s %x is taken: s.Sign(): got 0, want any but 0", s)
		}
		if got := s.Cmp(new(big.Int).Rsh(order(), 1)); got > 0 {
			t.Fatalf("s %x is taken: s.Cmp(new(big.Int).Rsh(order(), 1)): got %d, want at most 0", s, got)
		}
		// The twin of what is taken never is.
		twin := append([]byte(nil), signature...)
		new(big.Int).Sub(order(), s).FillBytes(twin[32:64])
		twin[64] ^= 1
		if signature[64] >= 27 {
			twin[64] = 55 - signature[64]
		}
		if _, err := Recover(message, twin); err == nil {
			t.Fatal("the twin is taken as well")
		}
	})
}
