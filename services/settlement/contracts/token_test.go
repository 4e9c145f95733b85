package contracts_test

import (
	"crypto/ecdsa"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
)

// transfer is a transfer by signature.
type transfer struct {
	from, to                common.Address
	value                   int64
	validAfter, validBefore uint64
	nonce                   [32]byte
}

// sign returns the arguments of transferWithAuthorization, signed for the token on a chain.
func (f transfer) sign(t *testing.T, key *ecdsa.PrivateKey, token common.Address, chainID int64) []any {
	t.Helper()
	field := func(name, kind string) apitypes.Type { return apitypes.Type{Name: name, Type: kind} }
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {field("name", "string"), field("version", "string"), field("chainId", "uint256"),
				field("verifyingContract", "address")},
			"TransferWithAuthorization": {field("from", "address"), field("to", "address"), field("value", "uint256"),
				field("validAfter", "uint256"), field("validBefore", "uint256"), field("nonce", "bytes32")},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{Name: "Test USD", Version: "2", ChainId: math.NewHexOrDecimal256(chainID),
			VerifyingContract: token.Hex()},
		Message: apitypes.TypedDataMessage{"from": f.from.Hex(), "to": f.to.Hex(), "value": big.NewInt(f.value),
			"validAfter":  new(big.Int).SetUint64(f.validAfter),
			"validBefore": new(big.Int).SetUint64(f.validBefore), "nonce": f.nonce[:]},
	})
	if err != nil {
		t.Fatal(err)
	}
	signature, err := crypto.Sign(digest, key)
	if err != nil {
		t.Fatal(err)
	}
	return []any{f.from, f.to, num(f.value), new(big.Int).SetUint64(f.validAfter),
		new(big.Int).SetUint64(f.validBefore), f.nonce, signature[64] + 27, [32]byte(signature[:32]),
		[32]byte(signature[32:64])}
}

// purse is a token and an account with a key and 100 of the token.
func purse(t *testing.T) (token contract, key *ecdsa.PrivateKey, f transfer) {
	t.Helper()
	c := newChain(t, 8453)
	token = testUSD(c)
	key, err := crypto.ToECDSA(common.LeftPadBytes([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	from := crypto.PubkeyToAddress(key.PublicKey)
	c.names[from] = "holder"
	token.do(c.account("deployer"), "mint", from, num(100)).ok()
	return token, key, transfer{from: from, to: c.account("alice"), value: 40, validAfter: c.now,
		validBefore: c.now + 100, nonce: id("n")}
}

func TestADollarMovesByItsHoldersSignatureOnce(t *testing.T) {
	t.Parallel()
	token, key, f := purse(t)
	args := f.sign(t, key, token.address, 8453)
	token.do(token.account("gas"), "transferWithAuthorization", args...).
		emits("AuthorizationUsed(holder, n)", "Transfer(holder, alice, 40)")
	token.do(token.account("gas"), "transferWithAuthorization", args...).refused("AuthorizationUsedBefore(holder, n)")
	if got := token.get("balanceOf", f.to).(*big.Int); got.Cmp(num(40)) != 0 {
		t.Errorf("alice's balance: got %d, want 40", got)
	}
}

func TestASignatureForOtherContentMovesNothing(t *testing.T) {
	t.Parallel()
	token, key, f := purse(t)
	args := f.sign(t, key, token.address, 8453)
	args[2] = num(41)
	gas := token.account("gas")
	token.do(gas, "transferWithAuthorization", args...).refused("InvalidSignature")
	token.do(gas, "transferWithAuthorization", f.sign(t, key, token.address, 1)...).refused("InvalidSignature")
	token.do(gas, "transferWithAuthorization", f.sign(t, key, f.to, 8453)...).refused("InvalidSignature")
}

func TestASignatureIsValidBetweenItsTimes(t *testing.T) {
	t.Parallel()
	token, key, f := purse(t)
	gas := token.account("gas")
	f.validAfter = token.now + 1
	args := f.sign(t, key, token.address, 8453)
	token.do(gas, "transferWithAuthorization", args...).refused("AuthorizationNotYetValid")
	token.setNext(f.validBefore)
	token.do(gas, "transferWithAuthorization", args...).refused("AuthorizationExpired")
}

func TestABlockedAddressNeitherSendsNorReceives(t *testing.T) {
	t.Parallel()
	c := newChain(t, 1)
	token := testUSD(c)
	alice, bob, owner := c.account("alice"), c.account("bob"), c.account("deployer")
	token.do(owner, "mint", alice, num(10)).ok()
	token.do(owner, "mint", bob, num(10)).ok()
	token.do(alice, "blacklist", bob).refused("OwnableUnauthorizedAccount")
	token.do(owner, "blacklist", alice).emits("Blacklisted(alice)")
	token.do(alice, "transfer", bob, num(1)).refused("Blocked(alice)")
	token.do(bob, "transfer", alice, num(1)).refused("Blocked(alice)")
	token.do(owner, "unBlacklist", alice).emits("UnBlacklisted(alice)")
	token.do(bob, "transfer", alice, num(1)).ok()
}

func TestItsOwnerAloneMakesDollars(t *testing.T) {
	t.Parallel()
	token := testUSD(newChain(t, 1))
	token.do(token.account("alice"), "mint", token.account("alice"), num(1)).refused("OwnableUnauthorizedAccount")
	if got := token.get("decimals").(uint8); got != 6 {
		t.Errorf("decimals: got %d, want 6", got)
	}
}
