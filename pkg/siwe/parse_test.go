package siwe

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const exampleAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // of EIP-55 itself

// example is a challenge as services issue it.
func example() Challenge {
	address, err := ParseAddress(exampleAddress)
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	return Challenge{
		Domain: "console.example.com:8443", Address: address, URI: "https://console.example.com:8443",
		ChainID: 8453, Nonce: "abcdefgh12345678", IssuedAt: at, ExpiresAt: at.Add(Life), Purpose: "Sign in.",
	}
}

func TestAMessageIsReadAsTheChallengeThatItWasMadeOf(t *testing.T) {
	all := []Challenge{example()}
	for _, v := range load(t).Challenges {
		address, err := ParseAddress(v.Address)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Challenge{Domain: v.Domain, Address: address, URI: v.URI, ChainID: v.ChainID, Nonce: v.Nonce,
			IssuedAt: v.IssuedAt.UTC(), ExpiresAt: v.ExpiresAt.UTC(), Purpose: v.Purpose})
	}
	for _, want := range all {
		got, err := Parse(Message(want))
		if err != nil {
			t.Errorf("%q: got the error %v, want none", Message(want), err)
		}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestOnlyTheFormOfMessageIsRead(t *testing.T) {
	good := Message(example())
	change := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the message has no %q", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	for name, text := range map[string]string{
		"nothing":                    "",
		"a line more":                good + "\n",
		"resources":                  good + "\nResources:\n- https://evil.example",
		"a request id":               good + "\nRequest ID: 1",
		"a space more":               good + " ",
		"carriage returns":           strings.ReplaceAll(good, "\n", "\r\n"),
		"no statement":               change("Sign in.\n\n", ""),
		"an empty statement":         change("Sign in.", ""),
		"two statements":             change("Sign in.", "Sign in.\nAnd send all."),
		"a scheme before the domain": "https://" + good,
		"no domain":                  strings.TrimPrefix(good, "console.example.com:8443"),
		"another opening":            change("wants you to sign in", "wants you to sign up"),
		"an address in lower case":   change(exampleAddress, strings.ToLower(exampleAddress)),
		"an address mistyped":        change("0x5aAe", "0x5aAE"),
		"another version":            change("Version: 1", "Version: 2"),
		"a chain with a sign":        change("Chain ID: 8453", "Chain ID: +8453"),
		"a chain with a zero":        change("Chain ID: 8453", "Chain ID: 08453"),
		"a chain in hexadecimal":     change("Chain ID: 8453", "Chain ID: 0x2105"),
		"chain 0":                    change("Chain ID: 8453", "Chain ID: 0"),
		"a chain out of range":       change("Chain ID: 8453", "Chain ID: 9223372036854775808"),
		"a short nonce":              change("abcdefgh12345678", "abc"),
		"a nonce with a space":       change("abcdefgh12345678", "abcdefgh 12345678"),
		"a time without its zone":    change("09:00:00.000Z", "09:00:00.000"),
		"a time of another zone":     change("09:00:00.000Z", "09:00:00.000+00:00"),
		"a time without a fraction":  change("09:00:00.000Z", "09:00:00Z"),
		"a time that is none":        change("2026-11-28T09:00", "2026-13-28T09:00"),
		"an end before the begin":    change("Expiration Time: 2026-11-28T09:05", "Expiration Time: 2026-11-28T08:05"),
		"fields in another order": change("Version: 1\nChain ID: 8453",
			"Chain ID: 8453\nVersion: 1"),
		"a not before": change("\nExpiration Time", "\nNot Before: 2026-11-28T09:00:00.000Z\nExpiration Time"),
	} {
		if c, err := Parse(text); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: got the error %v, want %v (of %+v)", name, err, ErrMessage, c)
		} else if c != (Challenge{}) {
			t.Errorf("%s: a challenge beside the error: got %+v, want none", name, c)
		}
	}
	if _, err := Parse(strings.Repeat("a", maxMessage+1)); !errors.Is(err, ErrMessageLength) {
		t.Errorf("a message above the bound: got the error %v, want %v", err, ErrMessageLength)
	}
}

func FuzzParseReadsWhatMessageWrites(f *testing.F) {
	f.Add(Message(example()))
	for _, v := range load(f).Challenges {
		f.Add(v.Message)
	}
	f.Add(strings.Repeat("\n", 10))
	f.Add("a" + opening + "\n\n\n\n\nURI: \nVersion: 1\nChain ID: 1\nNonce: \nIssued At: \nExpiration Time: ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			if c != (Challenge{}) {
				t.Fatalf("a challenge beside an error: got %+v, want none", c)
			}
			return
		}
		if got := Message(c); got != text {
			t.Fatalf("read as another text: got %q, want %q", got, text)
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("read as no valid challenge: %v", err)
		}
	})
}
