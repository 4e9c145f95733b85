package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/sweep"
)

// signTimeout bounds one call. A key of a cloud's service takes a while.
const signTimeout = 20 * time.Second

// ChainSigner is the chain-signer; it implements sending.Signer and sweep.Signer.
type ChainSigner struct{ Client signerv1.SignerServiceClient }

var (
	_ sending.Signer = ChainSigner{}
	_ sweep.Signer   = ChainSigner{}
)

// depositKey is the name that the signer has for the keys deposit/index.
const depositKey = "deposit"

// keyOf splits a key into what the signer calls it and the index of a deposit address.
func keyOf(key sending.Key) (name string, index int64, err error) {
	name, digits, ok := strings.Cut(string(key), "/")
	if !ok {
		return name, 0, nil
	}
	index, err = strconv.ParseInt(digits, 10, 64)
	if name != depositKey || err != nil {
		return "", 0, fmt.Errorf("%q is not a key", key)
	}
	return name, index, nil
}

// Next implements sending.Signer.
func (s ChainSigner) Next(ctx context.Context, id chain.ID, key sending.Key) (chain.Address, uint64, error) {
	name, index, err := keyOf(key)
	if err != nil {
		return chain.Address{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	resp, err := s.Client.GetNextNonce(ctx, &signerv1.GetNextNonceRequest{ChainId: int64(id), Key: name,
		DepositIndex: index})
	if err != nil {
		return chain.Address{}, 0, err
	}
	sender, err := addressOf(resp.GetSender())
	if err == nil && resp.GetNext() < 0 {
		err = fmt.Errorf("%d is not a nonce", resp.GetNext())
	}
	return sender, uint64(max(resp.GetNext(), 0)), err
}

// Sign implements sending.Signer.
func (s ChainSigner) Sign(
	ctx context.Context, c sending.Call, cancels bool, fees chain.Fees,
) (sending.Signature, error) {
	name, index, err := keyOf(c.Key)
	if err != nil {
		return sending.Signature{}, err
	}
	req := &signerv1.SignTransactionRequest{
		ChainId: int64(c.Chain), Key: name, DepositIndex: index, Nonce: int64(c.Nonce), GasLimit: int64(c.Gas),
		MaxFeePerGasWei: fees.Max.String(), MaxPriorityFeePerGasWei: fees.Tip.String(),
		Content: &signerv1.SignTransactionRequest_Call{Call: &signerv1.Call{To: c.To[:], ValueWei: c.Value.String(),
			Data: c.Data}},
	}
	if cancels {
		req.Content = &signerv1.SignTransactionRequest_Cancel{Cancel: &signerv1.Cancel{}}
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	resp, err := s.Client.SignTransaction(ctx, req)
	if err != nil {
		return sending.Signature{}, refusedContent(err)
	}
	signature := sending.Signature{Raw: resp.GetRaw()}
	if len(resp.GetHash()) != len(signature.Hash) || len(resp.GetCallHash()) != len(signature.Content) {
		return sending.Signature{}, errors.New("the signer returned a hash that is not 32 bytes")
	}
	copy(signature.Hash[:], resp.GetHash())
	copy(signature.Content[:], resp.GetCallHash())
	signature.Sender, err = addressOf(resp.GetSender())
	return signature, err
}

// legacyV are what tokens take as the last byte of a signature.
var legacyV = [...]int32{27, 28}

// Authorize implements sweep.Signer.
func (s ChainSigner) Authorize(ctx context.Context, a sweep.Authorization) (sweep.Signature, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	resp, err := s.Client.SignSweep(ctx, &signerv1.SignSweepRequest{ChainId: int64(a.Chain), Token: a.Token[:],
		DepositIndex: int64(a.Index), Value: a.Value.String(), ValidBefore: a.ValidBefore.Unix(), Nonce: a.Nonce[:]})
	if err != nil {
		return sweep.Signature{}, err
	}
	signature := sweep.Signature{V: byte(resp.GetV())}
	if len(resp.GetR()) != len(signature.R) || len(resp.GetS()) != len(signature.S) ||
		!slices.Contains(legacyV[:], resp.GetV()) {
		return sweep.Signature{}, errors.New("the signer returned a signature that is not one of secp256k1")
	}
	copy(signature.R[:], resp.GetR())
	copy(signature.S[:], resp.GetS())
	signature.From, err = addressOf(resp.GetFrom())
	return signature, err
}

func addressOf(raw []byte) (a chain.Address, err error) {
	if len(raw) != len(a) {
		return chain.Address{}, fmt.Errorf("an address has %d bytes, not %d", len(a), len(raw))
	}
	copy(a[:], raw)
	return a, nil
}

// NoSigner stands for the chain-signer where there is none.
type NoSigner struct{}

var errNoSigner = errors.New("nothing is sent without a chain-signer")

// Next fails.
func (NoSigner) Next(context.Context, chain.ID, sending.Key) (chain.Address, uint64, error) {
	return chain.Address{}, 0, errNoSigner
}

// Sign fails.
func (NoSigner) Sign(context.Context, sending.Call, bool, chain.Fees) (sending.Signature, error) {
	return sending.Signature{}, errNoSigner
}
