package evm_test

import (
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/evm"
	"svc.internal/services/settlement/signer/internal/policy"
)

func statement() evm.Statement {
	return evm.Statement{
		Provider: [16]byte{0: 1, 15: 2}, Day: "2026-11-26", Chain: chain.Base, Index: 3, Beneficiary: chain.Address{4},
		Amount: 1_234_567_890, Root: chain.Hash{5}, CSV: chain.Hash{6}, Seal: chain.Hash{7}, Summary: chain.Hash{8},
	}
}

// hexOf is a value as apitypes takes bytes.
func hexOf(raw []byte) string { return "0x" + hex.EncodeToString(raw) }

func fields(pairs ...string) []apitypes.Type {
	var list []apitypes.Type
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, apitypes.Type{Name: pairs[i], Type: pairs[i+1]})
	}
	return list
}

// digestOf is what go-ethereum signs of typed data.
func digestOf(t *testing.T, data apitypes.TypedData) evm.Digest {
	t.Helper()
	digest, _, err := apitypes.TypedDataAndHash(data)
	if err != nil {
		t.Fatal(err)
	}
	return evm.Digest(digest)
}

func TestAStatementIsSignedAsWalletsSignTypedData(t *testing.T) {
	t.Parallel()
	s := statement()
	provider := append(s.Provider[:], make([]byte, 16)...)
	want := digestOf(t, apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": fields("name", "string", "version", "string"),
			"Statement": fields("provider", "bytes32", "day", "string", "chainId", "uint256", "index", "uint256",
				"beneficiary", "address", "amountNanoUsd", "uint256", "root", "bytes32", "csv", "bytes32", "seal", "bytes32",
				"summary", "bytes32"),
		},
		PrimaryType: "Statement",
		Domain:      apitypes.TypedDataDomain{Name: "Daily statement", Version: "1"},
		Message: apitypes.TypedDataMessage{
			"provider": hexOf(provider), "day": s.Day, "chainId": math.NewHexOrDecimal256(8453),
			"index": math.NewHexOrDecimal256(3), "beneficiary": hexOf(s.Beneficiary[:]),
			"amountNanoUsd": math.NewHexOrDecimal256(1_234_567_890), "root": hexOf(s.Root[:]), "csv": hexOf(s.CSV[:]),
			"seal": hexOf(s.Seal[:]), "summary": hexOf(s.Summary[:]),
		},
	})
	if got := s.Digest(); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestEachFieldOfAStatementIsSigned(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*evm.Statement){
		"provider": func(s *evm.Statement) { s.Provider[7]++ }, "day": func(s *evm.Statement) { s.Day = "2026-11-27" },
		"chain": func(s *evm.Statement) { s.Chain++ }, "index": func(s *evm.Statement) { s.Index++ },
		"beneficiary": func(s *evm.Statement) { s.Beneficiary[9]++ }, "amount": func(s *evm.Statement) { s.Amount++ },
		"root": func(s *evm.Statement) { s.Root[9]++ }, "csv": func(s *evm.Statement) { s.CSV[9]++ },
		"seal": func(s *evm.Statement) { s.Seal[9]++ }, "summary": func(s *evm.Statement) { s.Summary[9]++ },
	} {
		other := statement()
		change(&other)
		if other.Digest() == statement().Digest() {
			t.Errorf("another %s: got the same digest, want another", name)
		}
	}
}

func TestAnAuthorizationIsSignedAsWalletsSignTypedData(t *testing.T) {
	t.Parallel()
	value, err := chain.ParseAmount("340282366920938463463374607431768211456")
	if err != nil {
		t.Fatal(err)
	}
	a := evm.Authorization{Chain: 8453, Token: chain.Address{1}, Name: "USD Coin", Version: "2", From: chain.Address{2},
		To: chain.Address{3}, Value: value, ValidAfter: 4, ValidBefore: 5, Nonce: [32]byte{6}}
	want := digestOf(t, apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": fields("name", "string", "version", "string", "chainId", "uint256", "verifyingContract", "address"),
			"TransferWithAuthorization": fields("from", "address", "to", "address", "value", "uint256", "validAfter", "uint256",
				"validBefore", "uint256", "nonce", "bytes32"),
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{Name: "USD Coin", Version: "2", ChainId: math.NewHexOrDecimal256(8453),
			VerifyingContract: hexOf(a.Token[:])},
		Message: apitypes.TypedDataMessage{
			"from": hexOf(a.From[:]), "to": hexOf(a.To[:]),
			"value":      (*math.HexOrDecimal256)(new(big.Int).Lsh(big.NewInt(1), 128)),
			"validAfter": math.NewHexOrDecimal256(4), "validBefore": math.NewHexOrDecimal256(5), "nonce": hexOf(a.Nonce[:]),
		},
	})
	if got := a.Digest(); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

func transaction(sender chain.Address) policy.Transaction {
	return policy.Transaction{Chain: 254, Sender: sender, Nonce: 9, To: chain.Address{1}, Value: chain.NewAmount(2),
		Data: []byte{3, 4}, Gas: 50_000, MaxFee: chain.NewAmount(70), MaxPriorityFee: chain.NewAmount(6)}
}

func TestASignedTransactionIsReadByOthersAsItWasMeant(t *testing.T) {
	t.Parallel()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	sender := chain.Address(crypto.PubkeyToAddress(key.PublicKey))
	u := evm.Compose(transaction(sender))
	digest := u.Digest()
	signature, err := crypto.Sign(digest[:], key)
	if err != nil {
		t.Fatal(err)
	}
	raw, hash, err := u.Sign(evm.Signature(signature))
	if err != nil {
		t.Fatal(err)
	}
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(254)), &tx)
	if err != nil {
		t.Fatal(err)
	}
	if from != common.Address(sender) {
		t.Errorf("the sender: got %s, want %s", from, sender)
	}
	if chain.Hash(tx.Hash()) != hash {
		t.Errorf("the hash: got %s, want %s", hash, tx.Hash())
	}
	for field, pair := range map[string][2]any{
		"type": {tx.Type(), uint8(types.DynamicFeeTxType)}, "chain": {tx.ChainId().Int64(), int64(254)},
		"nonce": {tx.Nonce(), uint64(9)}, "to": {*tx.To(), common.Address{1}}, "value": {tx.Value().Int64(), int64(2)},
		"data": {hexOf(tx.Data()), "0x0304"}, "gas": {tx.Gas(), uint64(50_000)}, "fee": {tx.GasFeeCap().Int64(), int64(70)},
		"priority": {tx.GasTipCap().Int64(), int64(6)}, "accesses": {len(tx.AccessList()), 0},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", field, pair[0], pair[1])
		}
	}
}

// A statement is made of a caller's fields. Were its digest ever that of a transaction, the
// caller could have a transaction signed that no policy has seen.
func TestAMessageHasThePrefixThatNoTransactionHas(t *testing.T) {
	t.Parallel()
	if first := byte(types.DynamicFeeTxType); first == 0x19 {
		t.Errorf("a transaction begins with %#x, as a message does", first)
	}
	// Of an untyped transaction the first byte is that of a list in RLP, 0xc0 or above.
	digest := evm.Compose(transaction(chain.Address{9})).Digest()
	if digest == statement().Digest() {
		t.Error("got one digest for a transaction and a statement, want two")
	}
}

func TestASignatureIsTheSendersInItsOneForm(t *testing.T) {
	t.Parallel()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	owner := chain.Address(crypto.PubkeyToAddress(key.PublicKey))
	digest := statement().Digest()
	raw, err := crypto.Sign(digest[:], key)
	if err != nil {
		t.Fatal(err)
	}
	signature := evm.Signature(raw)
	if !evm.Signed(digest, signature, owner) {
		t.Error("the owner's: got false, want true")
	}
	high := signature
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(signature[32:64]))
	s.FillBytes(high[32:64])
	high[64] ^= 1
	wrongID := signature
	wrongID[64] ^= 1
	other := digest
	other[0]++
	for name, got := range map[string]bool{
		"with the higher s":          evm.Signed(digest, high, owner),
		"with the other recovery id": evm.Signed(digest, wrongID, owner),
		"of another digest":          evm.Signed(other, signature, owner),
		"of another address":         evm.Signed(digest, signature, chain.Address{1}),
		"of nothing":                 evm.Signed(digest, evm.Signature{}, owner),
		"with an impossible id":      evm.Signed(digest, evm.Signature{64: 9}, owner),
	} {
		if got {
			t.Errorf("%s: got true, want false", name)
		}
	}
}
