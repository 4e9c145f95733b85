package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ethereum"
	"svc.internal/services/provider-agent/internal/earnings"
	"svc.internal/services/provider-agent/internal/worklog"
)

// noonOf is a clock at noon of a day before today.
type noonOf struct {
	clock.Clock
	daysAgo int
}

func (n noonOf) Now() time.Time {
	return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -n.daysAgo).Add(12 * time.Hour)
}

func (n noonOf) day() string { return n.Now().Format(time.DateOnly) }

// countDay counts requests of a day in a state folder.
func countDay(dir string, at noonOf, requests int) {
	l := worklog.Open(dir, at, slog.New(slog.DiscardHandler))
	for range requests {
		l.Other("acme/m")
	}
	ended, end := context.WithCancel(context.Background())
	end()
	l.Run(ended) // writes what was counted
}

// stating is a service that has signed a statement for each day, with that day's number of requests.
func stating(t *testing.T, requests map[string]int, through string) (answers map[string]string) {
	t.Helper()
	return statingBy(t, "service", requests, through)
}

// keyOf is a key of the tests, and its address.
func keyOf(seed string) (*secp256k1.PrivateKey, ethereum.Address) {
	sum := sha256.Sum256([]byte(seed))
	key := secp256k1.PrivKeyFromBytes(sum[:])
	return key, ethereum.AddressOf(key.PubKey().SerializeUncompressed())
}

// statingBy is a service with the key of a seed.
func statingBy(t *testing.T, seed string, requests map[string]int, through string) (answers map[string]string) {
	t.Helper()
	key, address := keyOf(seed)
	const provider = "01000000-0000-7000-8000-000000000002"
	answers = map[string]string{
		"/api/v1/provider/status": `{"status":"active","provider_id":"` + provider + `"}`,
		"/api/v1/provider/me":     `{"earnings":{"batched_through":"` + through + `"}}`,
		"/api/v1/stats/signers": `{"signers":[{"name":"payout","address":"0x"},{"name":"statement","address":"` +
			address.String() + `"}]}`,
	}
	var list []string
	hash := strings.Repeat("ab", 32)
	for day, n := range requests {
		list = append(list, `{"day":"`+day+`","amount_usd_str":"1"}`)
		text := fmt.Sprintf(`{"chain_id":"8453","csv_sha256":"%s","day":"%s","leaf":{"amount_nano_usd":"1","beneficiary":`+
			`"0x0400000000000000000000000000000000000000","index":"0"},"provider_id":"%s","root":"0x%s","seal":"%s",`+
			`"sums":[{"amount_nano_usd":"1500000000","kind":"payg","lines":"%d"}]}`, hash, day, provider, hash, hash, n)
		digest, err := earnings.Digest([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		compact := ecdsa.SignCompact(key, digest[:], false)
		answers["/api/v1/provider/statements/"+day] = fmt.Sprintf(`{"statement":%s,"signature":"0x%x"}`, text,
			append(compact[1:], compact[0]-27))
	}
	answers["/api/v1/provider/statements"] = `{"list":[` + strings.Join(list, ",") + `]}`
	return answers
}

func TestEarningsNamesWhatDiffersFromTheSignedStatements(t *testing.T) {
	dir := t.TempDir()
	older, old, today := noonOf{daysAgo: 2}, noonOf{daysAgo: 1}, noonOf{}
	countDay(dir, older, 3)
	countDay(dir, old, 5)
	countDay(dir, today, 2)
	answers := stating(t, map[string]int{older.day(): 3, old.day(): 5}, old.day())
	ask := func(args ...string) (string, error) {
		t.Helper()
		var out bytes.Buffer
		err := command(t.Context(), append([]string{"earnings", "-state", dir, "-service", told200(t, answers)}, args...),
			[]string{"SVC_PROVIDER_KEY=sk-prov-x"}, &out, io.Discard)
		return out.String(), err
	}
	text, err := ask()
	if err != nil {
		t.Errorf("what agrees: got the error %v, want none, after\n%s", err, text)
	}
	for _, want := range []string{older.day() + "  3            3       1.50      0.00     valid      agrees\n",
		today.day() + "  2            -       -         -        -          not batched yet\n", "acme/m  10        0"} {
		if !strings.Contains(text, want) {
			t.Errorf("what agrees: %q is missing in\n%s", want, text)
		}
	}
	// A planted difference.
	good := answers["/api/v1/provider/statements/"+old.day()]
	for path, answer := range stating(t, map[string]int{older.day(): 3, old.day(): 4}, old.day()) {
		answers[path] = answer
	}
	if text, err = ask(); !errors.Is(err, errUnfit) {
		t.Errorf("a difference: got the error %v, want %v", err, errUnfit)
	}
	if want := "DIFFERS: 1 of 5 requests that this machine served are not in"; !strings.Contains(text, want) {
		t.Errorf("a difference: %q is missing in\n%s", want, text)
	}
	// A statement that was changed after it was signed.
	answers["/api/v1/provider/statements/"+old.day()] = strings.Replace(good, `"lines":"5"`, `"lines":"6"`, 1)
	text, err = ask("-json")
	if !errors.Is(err, errUnfit) {
		t.Errorf("a false statement: got the error %v, want %v", err, errUnfit)
	}
	var told struct {
		Differs bool                `json:"differs"`
		Days    []earnings.Compared `json:"days"`
	}
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatalf("-json: %v in %s", err, text)
	}
	if len(told.Days) != 3 {
		t.Fatalf("days: got %d, want 3", len(told.Days))
	}
	if got := told.Days[1].Stated.Signature; got != earnings.Invalid {
		t.Errorf("a false statement: got the signature %s, want %s", got, earnings.Invalid)
	}
	if got := strings.Join(told.Days[1].Differences, "; "); got != "the statement's signature is not the service's" {
		t.Errorf("a false statement: got the differences %q, want the signature alone", got)
	}
	if got := told.Days[0].Stated.EarnedUSD; got != "1.50" {
		t.Errorf("earned: got %q, want 1.50", got)
	}
	if _, err := ask("-days", "32"); err == nil {
		t.Error("32 days: got no error, want one")
	}
}

// Whoever alters a statement can have the service name the key that signs it.
func TestAStatementByAKeyThatTheServiceNamesOnlyNowDiffers(t *testing.T) {
	dir, day := t.TempDir(), noonOf{daysAgo: 1}
	countDay(dir, day, 3)
	answers := stating(t, map[string]int{day.day(): 3}, day.day())
	statement := "/api/v1/provider/statements/" + day.day()
	ask := func() (string, error) {
		t.Helper()
		var out bytes.Buffer
		err := command(t.Context(), []string{"earnings", "-state", dir, "-service", told200(t, answers)},
			[]string{"SVC_PROVIDER_KEY=sk-prov-x"}, &out, io.Discard)
		return out.String(), err
	}
	if text, err := ask(); err != nil {
		t.Fatalf("the first key: got the error %v, want none, after\n%s", err, text)
	}
	before := answers[statement]
	answers = statingBy(t, "another", map[string]int{day.day(): 3}, day.day())
	_, first := keyOf("service")
	_, second := keyOf("another")
	text, err := ask()
	if !errors.Is(err, errUnfit) {
		t.Errorf("another key: got the error %v, want %v", err, errUnfit)
	}
	for _, want := range []string{"by the key " + second.String(), "has kept " + first.String(), earnings.KeysFile,
		"invalid    DIFFERS: the statement's signature is not the service's"} {
		if !strings.Contains(text, want) {
			t.Errorf("another key: %q is missing in\n%s", want, text)
		}
	}
	answers[statement] = before
	if text, err = ask(); !errors.Is(err, errUnfit) {
		t.Errorf("a statement of before: got the error %v, want %v, because the key is another", err, errUnfit)
	}
	if want := "valid      agrees"; !strings.Contains(text, want) {
		t.Errorf("a statement of before: %q is missing in\n%s", want, text)
	}
	lines := first.String() + "\n" + second.String() + "\n"
	if err := os.WriteFile(filepath.Join(dir, earnings.KeysFile), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err = ask(); err != nil {
		t.Errorf("a key that the owner has added: got the error %v, want none, after\n%s", err, text)
	}
}
