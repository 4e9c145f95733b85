package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/trial"
)

// purse is somebody's wallet.
type purse struct {
	key     *secp256k1.PrivateKey
	address string
}

func newPurse(seed byte) purse {
	k := secp256k1.PrivKeyFromBytes(bytes.Repeat([]byte{seed}, 32))
	return purse{k, ethereum.AddressOf(k.PubKey().SerializeUncompressed()).String()}
}

// sign is personal_sign, in hexadecimal digits.
func (p purse) sign(message string) string {
	digest := ethereum.PersonalDigest(message)
	compact := ecdsa.SignCompact(p.key, digest[:], false)
	return "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
}

// proof is the body of a message that the wallet has signed.
func (p purse) proof(t *testing.T, message string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"message": message, "signature": p.sign(message)})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// asked is what the wallet is asked to sign at a path.
func (p purse) asked(t *testing.T, m *trial.Market, path, token string) string {
	t.Helper()
	return trial.Text(t, wantStatus(t, m, http.StatusOK, http.MethodPost, path, token, `{"address":"`+p.address+`"}`),
		"message")
}

// foundBy is the one account that an operator finds by the address of a wallet.
func foundBy(t *testing.T, m *trial.Market, address string) string {
	t.Helper()
	page := m.Admin(t, http.MethodGet, "/api/v1/admin/accounts?wallet="+address, "")
	if list, _ := page["list"].([]any); len(list) != 1 {
		t.Fatalf("accounts of %s: got %v, want one", address, page)
	}
	return trial.Text(t, page, "list", 0, "account_id")
}

// A developer without an e-mail address has an account by its wallet alone, and a challenge of a
// provider's wallet opens none, nor the reverse.
func TestAUserSignsInByAWalletAndLinksAnother(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const (
		logIn    = "/api/v1/user/wallet/login"
		ask      = "/api/v1/user/wallet/challenge"
		link     = "/api/v1/user/me/identities/wallet"
		identity = "/api/v1/user/me/identities"
	)
	first, second := newPurse(21), newPurse(22)
	proof := first.proof(t, first.asked(t, m, ask, ""))
	in := wantStatus(t, m, http.StatusCreated, http.MethodPost, logIn, "", proof)
	if status, _, body := m.Call(t, http.MethodGet, "/api/v1/requests/x", trial.Text(t, in, "api_key"),
		""); status != http.StatusNotFound {
		t.Errorf("the first key: got %d, want 404 (body is %s)", status, body)
	}
	wantStatus(t, m, http.StatusUnauthorized, http.MethodPost, logIn, "", proof)
	again := wantStatus(t, m, http.StatusOK, http.MethodPost, logIn, "", first.proof(t, first.asked(t, m, ask, "")))
	id, token := trial.Text(t, in, "user", "id"), trial.Text(t, again, "token")
	if got := trial.Text(t, again, "user", "id"); got != id {
		t.Errorf("a later sign-in: got the user %s, want %s", got, id)
	}

	message := second.asked(t, m, link+"/challenge", token)
	if !strings.Contains(message, id) {
		t.Errorf("what links: got %q, want the user's id in it", message)
	}
	wantStatus(t, m, http.StatusUnauthorized, http.MethodPost, logIn, "", second.proof(t, message))
	linked := wantStatus(t, m, http.StatusOK, http.MethodPost, link, token, second.proof(t, message))
	if got := trial.Text(t, linked, "subject"); got != second.address {
		t.Errorf("linked: got %s, want %s", got, second.address)
	}
	by := wantStatus(t, m, http.StatusOK, http.MethodPost, logIn, "", second.proof(t, second.asked(t, m, ask, "")))
	if got := trial.Text(t, by, "user", "id"); got != id {
		t.Errorf("by the second wallet: got the user %s, want %s", got, id)
	}

	hub := wantStatus(t, m, http.StatusOK, http.MethodPost, "/api/v1/provider/ws-challenge", "",
		`{"address":"`+first.address+`"}`)
	wantStatus(t, m, http.StatusUnauthorized, http.MethodPost, logIn, "", first.proof(t, trial.Text(t, hub, "message")))
	message = first.asked(t, m, ask, "")
	_, rest, _ := strings.Cut(message, "\nNonce: ")
	nonce, _, _ := strings.Cut(rest, "\n")
	wantStatus(t, m, http.StatusUnauthorized, http.MethodPost, "/api/v1/provider/signup", "",
		`{"name":"Farm","owner_address":"`+first.address+`","signature":"`+first.sign(message)+`","auth_nonce":"`+nonce+`"}`)

	owned := foundBy(t, m, first.address)
	if got := foundBy(t, m, strings.ToLower(second.address)); got != owned {
		t.Errorf("the account that an operator finds by the second wallet: got %s, want %s", got, owned)
	}
	token = trial.Text(t, by, "token")
	wantStatus(t, m, http.StatusOK, http.MethodDelete, identity+"/"+trial.Text(t, linked, "identity_id"), token, "")
	left := wantStatus(t, m, http.StatusOK, http.MethodGet, identity, token, "")
	all, _ := left["identities"].([]any)
	if len(all) != 1 {
		t.Fatalf("identities: got %v, want one", left)
	}
	one, _ := all[0].(map[string]any)
	wantStatus(t, m, http.StatusConflict, http.MethodDelete, identity+"/"+trial.Text(t, one, "identity_id"), token, "")
}
