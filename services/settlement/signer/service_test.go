package signer

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/btcsuite/btcd/btcutil/hdkeychain"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/store"
)

// read reads a signed transaction, and checks what is said about it.
func read(t *testing.T, resp *signerv1.SignTransactionResponse) *types.Transaction {
	t.Helper()
	var tx types.Transaction
	if err := tx.UnmarshalBinary(resp.GetRaw()); err != nil {
		t.Fatal(err)
	}
	if got := tx.Hash(); !bytes.Equal(resp.GetHash(), got[:]) {
		t.Errorf("the hash: got %x, want %s", resp.GetHash(), got)
	}
	from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(254)), &tx)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(from[:], resp.GetSender()) {
		t.Errorf("the sender: got %x, want %s", resp.GetSender(), from)
	}
	return &tx
}

// content is what a transaction does.
func content(tx *types.Transaction) string {
	return fmt.Sprint(tx.Nonce(), tx.To(), tx.Value(), hex.EncodeToString(tx.Data()))
}

func TestTheSameContentIsSignedAgainWithHigherFees(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.sign(t, 0, payout(0, 1_000))
	bumped := payout(0, 1_000)
	bumped.MaxFeePerGasWei, bumped.MaxPriorityFeePerGasWei = "3000000000", "2000000000"
	second := b.sign(t, 1, bumped)
	if !bytes.Equal(first.GetCallHash(), second.GetCallHash()) {
		t.Errorf("the call hash: got %x, want %x", second.GetCallHash(), first.GetCallHash())
	}
	one, two := read(t, first), read(t, second)
	if got, want := content(two), content(one); got != want {
		t.Errorf("the content: got %s, want %s", got, want)
	}
	if two.GasFeeCap().Int64() != 3*gwei {
		t.Errorf("the fee: got %s, want 3 gwei", two.GasFeeCap())
	}
}

func TestASecondContentUnderANonceIsRefusedOnBothReplicas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sign(t, 0, payout(0, 1_000))
	other := payout(0, 1_000)
	other.GetCall().Data = transfer(chain.Address{0: 0xbb}, 1_000)
	for replica := range b.clients {
		b.refuses(t, "another amount", replica, payout(0, 1_001), fault.NonceUsed)
		b.refuses(t, "another payee", replica, other, fault.NonceUsed)
	}
	want := fmt.Sprint(0, common.BytesToAddress(b.address(t, "payout")), 0, "")
	if got := content(read(t, b.sign(t, 1, canceled(0)))); got != want {
		t.Errorf("the cancel: got %s, want the sender itself and nothing: %s", got, want)
	}
	b.sign(t, 0, payout(0, 1_000))
	b.refuses(t, "another content after the cancel", 0, payout(0, 1_001), fault.NonceUsed)
	b.sign(t, 0, canceled(1))
	b.refuses(t, "a content after a cancel of nothing", 1, payout(1, 1_000), fault.NonceUsed)
}

// address is that of a key.
func (b *bundle) address(t *testing.T, name string) []byte {
	t.Helper()
	resp, err := b.clients[0].ListKeys(t.Context(), &signerv1.ListKeysRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range resp.GetKeys() {
		if key.GetName() == name {
			return key.GetAddress()
		}
	}
	t.Fatalf("there is no key %s", name)
	return nil
}

// What a thief would have signed who speaks through settlement.
func TestAThiefInSettlementGetsNothingSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	with := func(key string, to []byte, value string, data []byte) *signerv1.SignTransactionRequest {
		req := payout(0, 1)
		req.Key = key
		req.Content = &signerv1.SignTransactionRequest_Call{Call: &signerv1.Call{To: to, ValueWei: value, Data: data}}
		return req
	}
	approve := append(crypto.Keccak256([]byte("approve(address,uint256)"))[:4], transfer(payee, 1)[4:]...)
	elsewhere := with("payout", usdc[:], "0", transfer(payee, 1))
	elsewhere.ChainId = 1
	dear := payout(0, 1)
	dear.MaxFeePerGasWei, dear.GasLimit = "1000000000000000", 10_000_000
	for what, tc := range map[string]struct {
		req  *signerv1.SignTransactionRequest
		want fault.Reason
	}{
		"another contract":       {with("payout", payee[:], "0", transfer(payee, 1)), fault.DestinationNotAllowed},
		"an approval":            {with("payout", usdc[:], "0", approve), fault.DestinationNotAllowed},
		"the collateral":         {with("payout", collateral[:], "0", transfer(payee, 1)), fault.DestinationNotAllowed},
		"gas pays a person":      {with("gas", payee[:], "1", nil), fault.DestinationNotAllowed},
		"a deposit address pays": {with("deposit", payee[:], "1", nil), fault.DestinationNotAllowed},
		"operator moves a token": {with("operator", usdc[:], "0", transfer(payee, 1)), fault.DestinationNotAllowed},
		"a statement key moves":  {with("statement", payee[:], "1", nil), fault.DestinationNotAllowed},
		"above the cap":          {with("payout", usdc[:], "0", transfer(payee, 1_000_001)), fault.CapExceeded},
		"a chain not listed":     {elsewhere, fault.ChainNotAllowed},
		"fees above the cap":     {dear, fault.CapExceeded},
		"a key nobody has":       {with("admin", payee[:], "1", nil), fault.UnknownKey},
		"a nonce far ahead":      {payout(16, 1), fault.NonceGap},
		"a nonce of long ago":    {payout(1<<62, 1), fault.NonceGap},
	} {
		b.refuses(t, what, 0, tc.req, tc.want)
	}
	var rows int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM signed_nonce`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != 0 {
		t.Errorf("got %d nonces recorded, want none", rows)
	}
}

func TestAValueSplitUnderManyNoncesStaysBelowTheDaysCap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sign(t, 0, payout(0, 1_000_000))
	b.sign(t, 1, payout(1, 1_000_000))
	b.refuses(t, "the third million of 2.5", 0, payout(2, 1_000_000), fault.CapExceeded)
	b.sign(t, 0, payout(0, 1_000_000))
	b.sign(t, 0, payout(2, 500_000))
	b.refuses(t, "one unit more", 1, payout(3, 1), fault.CapExceeded)
	// A refused nonce is free.
	coins := payout(3, 0)
	coins.GetCall().To, coins.GetCall().ValueWei, coins.GetCall().Data = payee[:], "1000000000", nil
	b.sign(t, 1, coins)
}

func TestOfManyAtOnceOnTwoReplicasEachNonceHasOneContent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	hashes := map[string]bool{}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			resp, err := b.clients[i%2].SignTransaction(t.Context(), payout(0, uint64(i+1)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				hashes[string(resp.GetCallHash())] = true
			} else if !fault.Is(err, fault.NonceUsed) {
				t.Errorf("got the error %v, want %s", err, fault.NonceUsed)
			}
		})
	}
	wg.Wait()
	if len(hashes) != 1 {
		t.Errorf("got %d contents signed, want 1", len(hashes))
	}
}

func TestANumberInAnyOtherFormIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bad := []string{"", "-1", "+1", "0x1", "1.0", "1e3", " 1", "1 ", "01", "1_000", "٣", strings.Repeat("9", 78),
		"115792089237316195423570985008687907853269984665640564039457584007913129639936"}
	for _, number := range bad {
		for what, set := range map[string]func(*signerv1.SignTransactionRequest){
			"the value":        func(r *signerv1.SignTransactionRequest) { r.GetCall().ValueWei = number },
			"the fee":          func(r *signerv1.SignTransactionRequest) { r.MaxFeePerGasWei = number },
			"the priority fee": func(r *signerv1.SignTransactionRequest) { r.MaxPriorityFeePerGasWei = number },
		} {
			req := payout(0, 1)
			set(req)
			b.refuses(t, what+" "+number, 0, req, fault.InvalidValue)
		}
	}
	for what, set := range map[string]func(*signerv1.SignTransactionRequest){
		"a negative nonce":         func(r *signerv1.SignTransactionRequest) { r.Nonce = -1 },
		"the largest nonce":        func(r *signerv1.SignTransactionRequest) { r.Nonce = 1<<63 - 1 },
		"a negative chain":         func(r *signerv1.SignTransactionRequest) { r.ChainId = -254 },
		"no chain":                 func(r *signerv1.SignTransactionRequest) { r.ChainId = 0 },
		"negative gas":             func(r *signerv1.SignTransactionRequest) { r.GasLimit = -1 },
		"no gas":                   func(r *signerv1.SignTransactionRequest) { r.GasLimit = 0 },
		"no content":               func(r *signerv1.SignTransactionRequest) { r.Content = nil },
		"a short address":          func(r *signerv1.SignTransactionRequest) { r.GetCall().To = payee[:19] },
		"no address":               func(r *signerv1.SignTransactionRequest) { r.GetCall().To = nil },
		"a long address":           func(r *signerv1.SignTransactionRequest) { r.GetCall().To = append(payee[:], 0) },
		"too much data":            func(r *signerv1.SignTransactionRequest) { r.GetCall().Data = make([]byte, 4097) },
		"an index of another key":  func(r *signerv1.SignTransactionRequest) { r.DepositIndex = 1 },
		"a negative deposit index": func(r *signerv1.SignTransactionRequest) { r.Key, r.DepositIndex = "deposit", -1 },
		"a hardened deposit index": func(r *signerv1.SignTransactionRequest) { r.Key, r.DepositIndex = "deposit", 1<<31 },
		"an empty call": func(r *signerv1.SignTransactionRequest) {
			r.Content = &signerv1.SignTransactionRequest_Call{}
		},
	} {
		req := payout(0, 1)
		set(req)
		b.refuses(t, what, 0, req, fault.InvalidValue)
	}
}

// dying is a key whose process dies before it signs.
type dying struct{ keys.Key }

// Sign implements keys.Key.
func (dying) Sign(context.Context, [32]byte) ([65]byte, error) {
	return [65]byte{}, errors.New("killed")
}

func TestWhatWasRecordedBeforeACrashIsSignedAgainAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring := b.services[0].signer.Ring
	key, err := ring.Find(policy.Payout, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.services[0].signer.Ring, err = keys.NewRing(map[policy.Key]keys.Key{policy.Payout: dying{key}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.refuses(t, "a process that dies behind the commit", 0, payout(0, 1_000), fault.ServiceUnavailable)
	b.refuses(t, "another content afterwards", 1, payout(0, 1_001), fault.NonceUsed)
	b.sign(t, 1, payout(0, 1_000))
	// The amount was counted once.
	b.sign(t, 1, payout(1, 1_000_000))
	b.sign(t, 1, payout(2, 1_000_000))
	b.sign(t, 1, payout(3, 499_000))
	b.refuses(t, "one unit more", 1, payout(4, 1), fault.CapExceeded)
}

// lying is a key that signs with another.
type lying struct {
	keys.Key
	other keys.Key
}

// Sign implements keys.Key.
func (l lying) Sign(ctx context.Context, digest [32]byte) ([65]byte, error) {
	return l.other.Sign(ctx, digest)
}

func TestASignatureOfAnotherKeyIsNotHandedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring := b.services[0].signer.Ring
	key, err := ring.Find(policy.Payout, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ring.Find(policy.Gas, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.services[0].signer.Ring, err = keys.NewRing(map[policy.Key]keys.Key{policy.Payout: lying{key, other}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.refuses(t, "a signature of another key", 0, payout(0, 1_000), fault.InternalError)
}

func TestADatabaseThatWasLostSignsNothingOfAUsedKey(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Chains[0].Fees.Day = chain.NewAmount(1 << 62) })
	for nonce := range int64(40) {
		b.sign(t, 0, payout(nonce, 1))
	}
	empty := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	_, lost := b.start(t, b.cfg, empty)
	if _, err := lost.SignTransaction(t.Context(), payout(40, 1)); !fault.Is(err, fault.NonceGap) {
		t.Errorf("the next nonce: got the error %v, want %s", err, fault.NonceGap)
	}
	next, err := lost.GetNextNonce(t.Context(), &signerv1.GetNextNonceRequest{ChainId: 254, Key: "payout"})
	if err != nil {
		t.Fatal(err)
	}
	if got := next.GetNext(); got != 0 {
		t.Errorf("what it says: got %d, want 0", got)
	}
	mended := b.cfg
	mended.Chains = Chains{listed(254)}
	mended.Chains[0].FirstNonces = map[string]uint64{"payout": 40}
	_, again := b.start(t, mended, empty)
	if _, err := again.SignTransaction(t.Context(), payout(39, 2)); !fault.Is(err, fault.NonceGap) {
		t.Errorf("a nonce that was signed before: got the error %v, want %s", err, fault.NonceGap)
	}
	if _, err := again.SignTransaction(t.Context(), payout(40, 1)); err != nil {
		t.Errorf("where the operator says that it goes on: got the error %v, want a signature", err)
	}
}

func TestTheNextNonceIsAboveTheHighest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	next := func(req *signerv1.GetNextNonceRequest) string {
		resp, err := b.clients[1].GetNextNonce(t.Context(), req)
		return strings.TrimSpace(fmt.Sprint(resp.GetNext(), " ", reasonOf(err)))
	}
	own := &signerv1.GetNextNonceRequest{ChainId: 254, Key: "payout"}
	if got := next(own); got != "0" {
		t.Errorf("at first: got %s, want 0", got)
	}
	b.sign(t, 0, payout(3, 1))
	b.sign(t, 0, payout(1, 1))
	b.sign(t, 0, canceled(5))
	if got := next(own); got != "6" {
		t.Errorf("after 3, 1 and the cancel of 5: got %s, want 6", got)
	}
	for want, req := range map[fault.Reason]*signerv1.GetNextNonceRequest{
		fault.UnknownKey:      {ChainId: 254, Key: "nobody"},
		fault.ChainNotAllowed: {ChainId: 1, Key: "payout"},
		fault.InvalidValue:    {ChainId: 254, Key: "payout", DepositIndex: 1},
	} {
		if got := next(req); got != "0 "+string(want) {
			t.Errorf("%v: got %s, want 0 %s", req, got, want)
		}
	}
}

func TestAStatementIsSignedForWhoeverReadsIt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Chains = nil })
	req := &signerv1.SignStatementRequest{
		ProviderId: "0192f0c0-0000-7000-8000-000000000001", Day: "2026-11-26", ChainId: 8453, Index: 3,
		AmountNanoUsd: 1_000, Root: make([]byte, 32), Csv: make([]byte, 32), Seal: make([]byte, 32),
		Summary: make([]byte, 32),
	}
	resp, err := b.clients[0].SignStatement(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := resp.GetSigner(), b.address(t, "statement"); !bytes.Equal(got, want) {
		t.Errorf("the signer: got %x, want %x", got, want)
	}
	if got := len(resp.GetSignature()); got != 65 {
		t.Fatalf("the signature: got %d bytes, want 65", got)
	}
	if v := resp.GetSignature()[64]; v != 27 && v != 28 {
		t.Errorf("v: got %d, want 27 or 28", v)
	}
	for what, set := range map[string]func(*signerv1.SignStatementRequest){
		"a day that is none":    func(r *signerv1.SignStatementRequest) { r.Day = "2026-02-30" },
		"a day and more":        func(r *signerv1.SignStatementRequest) { r.Day = "2026-11-26T00:00:00Z" },
		"no day":                func(r *signerv1.SignStatementRequest) { r.Day = "" },
		"a provider without id": func(r *signerv1.SignStatementRequest) { r.ProviderId = "x" },
		"a negative amount":     func(r *signerv1.SignStatementRequest) { r.AmountNanoUsd = -1 },
		"a negative index":      func(r *signerv1.SignStatementRequest) { r.Index = -1 },
		"no chain":              func(r *signerv1.SignStatementRequest) { r.ChainId = 0 },
		"a short root":          func(r *signerv1.SignStatementRequest) { r.Root = make([]byte, 31) },
		"a long seal":           func(r *signerv1.SignStatementRequest) { r.Seal = make([]byte, 33) },
		"no summary":            func(r *signerv1.SignStatementRequest) { r.Summary = nil },
		"a short beneficiary":   func(r *signerv1.SignStatementRequest) { r.Beneficiary = make([]byte, 19) },
		// A transaction in place of a hash.
		"a transaction for a hash": func(r *signerv1.SignStatementRequest) { r.Csv = b2(t) },
	} {
		bad := proto.Clone(req).(*signerv1.SignStatementRequest)
		set(bad)
		if _, err := b.clients[0].SignStatement(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", what, err, fault.InvalidValue)
		}
	}
}

// b2 is an unsigned transaction of type 2.
func b2(t *testing.T) []byte {
	t.Helper()
	raw, err := types.NewTx(&types.DynamicFeeTx{ChainID: big.NewInt(254)}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestASweepGoesToTheTreasuryWhateverTheCallerWants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	req := &signerv1.SignSweepRequest{ChainId: 254, Token: usdc[:], DepositIndex: 7, Value: "5", ValidBefore: 1,
		Nonce: make([]byte, 32)}
	resp, err := b.clients[0].SignSweep(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	xpub, err := b.clients[0].GetDepositXpub(t.Context(), &signerv1.GetDepositXpubRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := common.BytesToAddress(resp.GetFrom()), derive(t, xpub.GetXpub(), 7); got != want {
		t.Errorf("the deposit address: got %s, want %s, which the xpub gives", got, want)
	}
	for what, tc := range map[string]struct {
		set  func(*signerv1.SignSweepRequest)
		want fault.Reason
	}{
		"another token":    {func(r *signerv1.SignSweepRequest) { r.Token = payee[:] }, fault.DestinationNotAllowed},
		"another chain":    {func(r *signerv1.SignSweepRequest) { r.ChainId = 1 }, fault.ChainNotAllowed},
		"nothing":          {func(r *signerv1.SignSweepRequest) { r.Value = "0" }, fault.InvalidValue},
		"a fraction":       {func(r *signerv1.SignSweepRequest) { r.Value = "0.5" }, fault.InvalidValue},
		"a short nonce":    {func(r *signerv1.SignSweepRequest) { r.Nonce = make([]byte, 31) }, fault.InvalidValue},
		"a window of none": {func(r *signerv1.SignSweepRequest) { r.ValidAfter = 1 }, fault.InvalidValue},
		"a negative time":  {func(r *signerv1.SignSweepRequest) { r.ValidAfter = -1 }, fault.InvalidValue},
		"a hardened index": {func(r *signerv1.SignSweepRequest) { r.DepositIndex = 1 << 31 }, fault.InvalidValue},
		"no token":         {func(r *signerv1.SignSweepRequest) { r.Token = nil }, fault.InvalidValue},
	} {
		bad := proto.Clone(req).(*signerv1.SignSweepRequest)
		tc.set(bad)
		if _, err := b.clients[0].SignSweep(t.Context(), bad); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %s", what, err, tc.want)
		}
	}
}

// derive returns the address of an index below an xpub, as settlement derives it.
func derive(t *testing.T, xpub string, index uint32) common.Address {
	t.Helper()
	key, err := hdkeychain.NewKeyFromString(xpub)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []uint32{0, index} {
		if key, err = key.Derive(step); err != nil {
			t.Fatal(err)
		}
	}
	if key.IsPrivate() {
		t.Error("the xpub has a private key")
	}
	public, err := key.ECPubKey()
	if err != nil {
		t.Fatal(err)
	}
	return crypto.PubkeyToAddress(*public.ToECDSA())
}

func TestNoLogAndNoErrorHasASecret(t *testing.T) {
	t.Parallel()
	seed := strings.Repeat("5eed", 16)
	b := setup(t, func(c *Config) { c.DepositSeed = newSecret(seed) })
	b.sign(t, 0, payout(0, 1))
	b.refuses(t, "another content", 0, payout(0, 2), fault.NonceUsed)
	b.refuses(t, "another contract", 0, payoutAt(payee), fault.DestinationNotAllowed)
	text, err := os.ReadFile(b.cfg.DevelopmentSeed)
	if err != nil {
		t.Fatal(err)
	}
	log := b.log.String()
	if !strings.Contains(log, "a key is open") {
		t.Errorf("the log: got %q, want the keys that are open", log)
	}
	for _, secret := range []string{strings.TrimSpace(string(text)), seed, "xpub", "xprv"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has the secret %.8s…", secret)
		}
	}
}

// payoutAt calls a transfer at an address.
func payoutAt(to chain.Address) *signerv1.SignTransactionRequest {
	req := payout(1, 1)
	req.GetCall().To = to[:]
	return req
}
