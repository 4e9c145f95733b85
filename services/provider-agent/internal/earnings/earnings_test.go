package earnings

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/provider-agent/internal/worklog"
)

// provider is the provider of the tests.
const provider = "01000000-0000-7000-8000-000000000002"

// keyOf is a key of the tests, and its address.
func keyOf(seed string) (*secp256k1.PrivateKey, ethereum.Address) {
	sum := sha256.Sum256([]byte(seed))
	key := secp256k1.PrivKeyFromBytes(sum[:])
	return key, ethereum.AddressOf(key.PubKey().SerializeUncompressed())
}

// stated returns the text of a statement of a day with so many requests.
func stated(day string, requests int) string {
	hash := strings.Repeat("ab", 32)
	return fmt.Sprintf(`{"blocked":false,"chain_id":"8453","csv_sha256":"%s","day":"%s","leaf":{"amount_nano_usd":`+
		`"1234567890","beneficiary":"0x0400000000000000000000000000000000000000","index":"3"},"provider_id":"%s",`+
		`"root":"0x%s","seal":"%s","sums":[{"amount_nano_usd":"-5","kind":"refund","lines":"1"},`+
		`{"amount_nano_usd":"1000000000","kind":"payg","lines":"%d"},{"amount_nano_usd":"0","kind":"plan","lines":"1"}]}`,
		hash, day, provider, hash, hash, requests-1)
}

// signed is the service's answer about a statement.
func signed(t *testing.T, text string, key *secp256k1.PrivateKey) []byte {
	t.Helper()
	digest, err := Digest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	compact := ecdsa.SignCompact(key, digest[:], false)
	signature := append(compact[1:], compact[0]-27)
	return fmt.Appendf(nil, `{"statement":%s,"signature":"0x%x"}`, text, signature)
}

func TestAStatementIsReadAsItIsSigned(t *testing.T) {
	key, signer := keyOf("service")
	_, other := keyOf("another")
	const day = "2026-11-26"
	good := signed(t, stated(day, 3), key)
	checked := Check(day, provider, good, signer)
	if checked.Err != nil {
		t.Fatalf("got the error %v, want none", checked.Err)
	}
	for name, c := range map[string]struct {
		day, provider string
		answer        []byte
		signer        ethereum.Address
		want          error
	}{
		"another amount": {day, provider, bytes.Replace(good, []byte("1000000000"), []byte("9000000000"), 1), signer,
			ErrSignature},
		"more requests": {day, provider, bytes.Replace(good, []byte(`"lines":"2"`), []byte(`"lines":"7"`), 1), signer,
			ErrSignature},
		"a space": {day, provider, bytes.Replace(good, []byte(`"sums":`), []byte(`"sums": `), 1), signer,
			ErrSignature},
		"another key":      {day, provider, good, other, ErrSignature},
		"another day":      {"2026-11-27", provider, good, signer, ErrSignature},
		"another provider": {day, "01000000-0000-7000-8000-000000000003", good, signer, ErrSignature},
		"no signature": {day, provider, []byte(`{"statement":` + stated(day, 3) + `,"signature":""}`), signer,
			ErrUnsigned},
		"half a signature": {day, provider, []byte(`{"statement":` + stated(day, 3) + `,"signature":"0x12"}`), signer,
			ErrSignature},
		"no statement": {day, provider, []byte(`{"statement":[]}`), signer, errForm},
		"nothing":      {day, provider, []byte(`x`), signer, errForm},
	} {
		if got := Check(c.day, c.provider, c.answer, c.signer); !errors.Is(got.Err, c.want) {
			t.Errorf("%s: got the error %v, want %v", name, got.Err, c.want)
		}
	}
}

// The statement is that of settlement's own test, and its digest was not computed by this code.
func TestTheDigestIsThatOfSettlement(t *testing.T) {
	var s Statement
	s.Provider, s.Day, s.Chain = "01000000-0000-0000-0000-000000000002", "2026-11-26", "8453"
	s.Leaf.Index, s.Leaf.Amount = "3", "1234567890"
	s.Leaf.Beneficiary = "0x04" + strings.Repeat("00", 19)
	hash := func(first string) string { return "0x" + first + strings.Repeat("00", 31) }
	s.Root, s.CSV, s.Seal = hash("05"), hash("06"), hash("07")
	got, err := s.digest([32]byte{8})
	if err != nil {
		t.Fatal(err)
	}
	const want = "3ac633a565b9983642cb00e7d287681071b52dc5bbc1d0052577fe02797c18e8"
	if text := hex.EncodeToString(got[:]); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestDifferencesToTheStatementsAreNamed(t *testing.T) {
	const day, next = "2026-11-26", "2026-11-27"
	day1 := func(d worklog.Day) []worklog.Day { d.Day = day; return []worklog.Day{d} }
	statement := func(requests int) Checked {
		var s Statement
		if err := json.Unmarshal([]byte(stated(day, requests)), &s); err != nil {
			t.Fatal(err)
		}
		return Checked{Statement: s}
	}
	for name, c := range map[string]struct {
		served     []worklog.Day
		statements map[string]Checked
		through    string
		differs    string // empty for no difference
		note       string
	}{
		"as served": {day1(worklog.Day{Requests: 3}), map[string]Checked{day: statement(3)}, day, "", ""},
		"fewer": {day1(worklog.Day{Requests: 5}), map[string]Checked{day: statement(3)}, day, "2 of 5 requests",
			""},
		"more":            {day1(worklog.Day{Requests: 3}), map[string]Checked{day: statement(5)}, day, "", "2 more than"},
		"broken off":      {day1(worklog.Day{Requests: 5, CutOff: 2}), map[string]Checked{day: statement(3)}, day, "", ""},
		"no statement":    {day1(worklog.Day{Requests: 5}), nil, next, "there is no statement", ""},
		"not batched yet": {day1(worklog.Day{Requests: 5}), nil, "2026-11-25", "", "not batched yet"},
		"nothing batched": {day1(worklog.Day{Requests: 5}), nil, "", "", "not batched yet"},
		"over midnight": {append(day1(worklog.Day{Requests: 5, Late: 2}), worklog.Day{Day: next, Requests: 3}),
			map[string]Checked{day: statement(3), next: statement(5)}, next, "", ""},
		"lost over midnight": {append(day1(worklog.Day{Requests: 5, Late: 2}), worklog.Day{Day: next, Requests: 3}),
			map[string]Checked{day: statement(3), next: statement(3)}, next, "2 of 3 requests", ""},
		"not signed": {day1(worklog.Day{Requests: 3}), map[string]Checked{day: {statement(3).Statement, ErrUnsigned}}, day,
			"", "not signed yet"},
		"a false signature": {day1(worklog.Day{Requests: 3}),
			map[string]Checked{day: {statement(3).Statement, ErrSignature}}, day, "signature is not the service's", ""},
	} {
		all := Compare(c.served, c.statements, c.through, noonOf(t, "2026-11-28"))
		var differences, notes []string
		for _, d := range all {
			differences, notes = append(differences, d.Differences...), append(notes, d.Notes...)
		}
		if got := Differs(all); got != (c.differs != "") {
			t.Errorf("%s: differs: got %t, want %t, with %q", name, got, c.differs != "", differences)
		}
		if got := strings.Join(differences, "; "); !strings.Contains(got, c.differs) {
			t.Errorf("%s: differences: got %q, want %q", name, got, c.differs)
		}
		if got := strings.Join(notes, "; "); !strings.Contains(got, c.note) {
			t.Errorf("%s: notes: got %q, want %q", name, got, c.note)
		}
	}
}

// noonOf is a moment of a day.
func noonOf(t *testing.T, day string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatal(err)
	}
	return at.Add(12 * time.Hour)
}

// A platform that does not mean to pay could say "not yet" for ever.
func TestWhatIsNotBatchedOrSignedForThreeDaysDiffers(t *testing.T) {
	const day = "2026-11-26"
	var told Statement
	if err := json.Unmarshal([]byte(stated(day, 3)), &told); err != nil {
		t.Fatal(err)
	}
	unsigned := map[string]Checked{day: {told, ErrUnsigned}}
	for name, c := range map[string]struct {
		served     worklog.Day
		statements map[string]Checked
		today      string
		differs    string // empty for no difference
	}{
		"not batched on the third day":  {worklog.Day{Requests: 3}, nil, "2026-11-29", ""},
		"not batched for three days":    {worklog.Day{Requests: 3}, nil, "2026-11-30", "not batched yet, 3 days after"},
		"nothing to batch":              {worklog.Day{Requests: 3, CutOff: 3}, nil, "2026-11-30", ""},
		"unsigned on the third day":     {worklog.Day{Requests: 3}, unsigned, "2026-11-29", ""},
		"unsigned for three days":       {worklog.Day{Requests: 3}, unsigned, "2026-11-30", "not signed yet, 3 days after"},
		"a day that the clock ran into": {worklog.Day{Requests: 3}, nil, "2026-11-01", ""},
	} {
		c.served.Day = day
		all := Compare([]worklog.Day{c.served}, c.statements, "", noonOf(t, c.today))
		got := strings.Join(all[0].Differences, "; ")
		if !strings.Contains(got, c.differs) {
			t.Errorf("%s: differences: got %q, want %q", name, got, c.differs)
		}
		if Differs(all) != (c.differs != "") {
			t.Errorf("%s: differs: got %t, with %q", name, Differs(all), got)
		}
	}
}

func TestTheFirstKeyOfTheServiceIsKept(t *testing.T) {
	dir := t.TempDir()
	_, first := keyOf("first")
	_, second := keyOf("second")
	if _, err := Keep(dir, first); err != nil {
		t.Fatalf("the first: got the error %v, want none", err)
	}
	keep := func(what string, want ...ethereum.Address) {
		t.Helper()
		got, err := Keep(dir, second)
		if err != nil {
			t.Fatalf("%s: got the error %v, want none", what, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	keep("the service names another", first)
	path := filepath.Join(dir, KeysFile)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first.String() + "\n\n" + second.String() + "\n")
	keep("the owner has added it", first, second)
	for name, text := range map[string]string{"no key": "\n", "garbage": "garbage\n",
		"too many": strings.Repeat(first.String()+"\n", maxKeys+1),
		"too long": first.String() + strings.Repeat("\n", maxKeysFile)} {
		write(text)
		if got, err := Keep(dir, second); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}
