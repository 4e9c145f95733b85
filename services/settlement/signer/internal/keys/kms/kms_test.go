package kms_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/evm"
	"svc.internal/services/settlement/signer/internal/keys/kms"
)

// server speaks the two calls of KMS that are used, with a real key.
type server struct {
	t   *testing.T
	key *ecdsa.PrivateKey

	mu sync.Mutex
	// high has it sign with the higher s.
	high bool
	// change, if set, changes its answers.
	change func(call string, answer map[string]any)
	// failures is how many of the next calls fail.
	failures int
	calls    int
}

// spki is a public key in DER, as KMS returns it.
func spki(curve asn1.ObjectIdentifier, point []byte) []byte {
	type algorithm struct{ Object, Curve asn1.ObjectIdentifier }
	der, err := asn1.Marshal(struct {
		Algorithm algorithm
		Point     asn1.BitString
	}{algorithm{asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, curve},
		asn1.BitString{Bytes: point, BitLength: 8 * len(point)}})
	if err != nil {
		panic(err)
	}
	return der
}

var secp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var asked struct {
		KeyID            string `json:"KeyId"`
		Message          []byte
		MessageType      string
		SigningAlgorithm string
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		s.t.Errorf("read %q: %v", body, err)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if s.failures > 0 {
		s.failures--
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"__type":"KMSInternalException","message":"again"}`)
		return
	}
	call := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	answer := map[string]any{"KeyId": asked.KeyID}
	switch call {
	case "GetPublicKey":
		answer["PublicKey"] = spki(secp256k1, crypto.FromECDSAPub(&s.key.PublicKey))
	case "Sign":
		got := fmt.Sprint(asked.MessageType, " ", asked.SigningAlgorithm, " ", len(asked.Message))
		if want := "DIGEST ECDSA_SHA_256 32"; got != want {
			s.t.Errorf("got %q asked for, want %q", got, want)
		}
		answer["Signature"] = s.sign(asked.Message)
	default:
		s.t.Errorf("got the call %q, want one of the two", call)
	}
	if s.change != nil {
		s.change(call, answer)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// sign signs with a nonce of its own each time, and with the s that is asked for.
func (s *server) sign(digest []byte) []byte {
	r, v, err := ecdsa.Sign(rand.Reader, s.key, digest)
	if err != nil {
		s.t.Error(err)
	}
	order := crypto.S256().Params().N
	if isHigh := v.Cmp(new(big.Int).Rsh(order, 1)) > 0; isHigh != s.high {
		v.Sub(order, v)
	}
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, v})
	if err != nil {
		s.t.Error(err)
	}
	return der
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func setup(t *testing.T) (*server, *kms.Client) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "a-test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2-of-aws")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, key: key}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	client, err := kms.Connect(t.Context(), "eu-central-1", web.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func TestEitherSOfKMSBecomesTheFormOfChains(t *testing.T) {
	s, client := setup(t)
	key, err := client.Open(t.Context(), "alias/payout")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := key.Address(), chain.Address(crypto.PubkeyToAddress(s.key.PublicKey)); got != want {
		t.Errorf("the address: got %s, want %s", got, want)
	}
	ids := map[byte]bool{}
	for i := range 40 {
		s.set(func() { s.high = i%2 == 1 })
		digest := [32]byte{byte(i), 1}
		signature, err := key.Sign(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		if !evm.Signed(digest, signature, key.Address()) {
			t.Errorf("signature %d: got none of the key with the lower s, want one", i)
		}
		ids[signature[64]] = true
	}
	if len(ids) != 2 {
		t.Errorf("got the recovery ids %v in 40 signatures, want both", ids)
	}
}

func TestAFailureThatPassesIsTriedAgain(t *testing.T) {
	s, client := setup(t)
	s.set(func() { s.failures = 1 })
	key, err := client.Open(t.Context(), "alias/payout")
	if err != nil {
		t.Fatalf("the public key after one failure: got the error %v, want none", err)
	}
	s.set(func() { s.failures, s.calls = 100, 0 })
	if _, err := key.Sign(t.Context(), [32]byte{1}); err == nil {
		t.Error("a KMS that always fails: got a signature, want an error")
	} else if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows a credential: %v", err)
	}
	s.set(func() {
		if s.calls != 3 {
			t.Errorf("got %d tries, want 3", s.calls)
		}
	})
}

func TestWhatIsNoSignatureOfTheKeyIsRefused(t *testing.T) {
	s, client := setup(t)
	key, err := client.Open(t.Context(), "alias/payout")
	if err != nil {
		t.Fatal(err)
	}
	other, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	pair := func(r, v *big.Int) []byte {
		der, err := asn1.Marshal(struct{ R, S *big.Int }{r, v})
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	order, digest := crypto.S256().Params().N, [32]byte{1}
	for name, signature := range map[string]func(digest []byte) []byte{
		"another key's": func(digest []byte) []byte { return (&server{t: t, key: other}).sign(digest) },
		"nothing":       func([]byte) []byte { return nil },
		"no DER":        func([]byte) []byte { return make([]byte, 64) },
		"zero":          func([]byte) []byte { return pair(new(big.Int), big.NewInt(1)) },
		"negative":      func([]byte) []byte { return pair(big.NewInt(-1), big.NewInt(1)) },
		"the order":     func([]byte) []byte { return pair(order, big.NewInt(1)) },
		"huge":          func([]byte) []byte { return pair(new(big.Int).Lsh(big.NewInt(1), 4000), big.NewInt(1)) },
		"with a tail":   func([]byte) []byte { return append(pair(big.NewInt(1), big.NewInt(1)), 0) },
	} {
		s.set(func() {
			s.change = func(call string, answer map[string]any) { answer["Signature"] = signature(digest[:]) }
		})
		if got, err := key.Sign(t.Context(), digest); err == nil {
			t.Errorf("%s: got %x, want an error", name, got)
		}
	}
}

func TestAKeyOfAnotherCurveIsRefused(t *testing.T) {
	s, client := setup(t)
	point := crypto.FromECDSAPub(&s.key.PublicKey)
	off := append([]byte{4}, make([]byte, 64)...)
	for name, der := range map[string][]byte{
		"P-256":             spki(asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}, point),
		"a compressed key":  spki(secp256k1, point[:33]),
		"off the curve":     spki(secp256k1, off),
		"no DER":            point,
		"nothing":           nil,
		"a key with a tail": append(spki(secp256k1, point), 0),
	} {
		s.set(func() { s.change = func(_ string, answer map[string]any) { answer["PublicKey"] = der } })
		if key, err := client.Open(t.Context(), "alias/payout"); err == nil {
			t.Errorf("%s: got the key of %s, want an error", name, key.Address())
		}
	}
}
