// Package kms has keys that never leave AWS KMS (key spec ECC_SECG_P256K1). KMS signs in DER
// and with either of two s, and does not say which public key a signature recovers to. So
// the lower s is taken, as chains demand, and the recovery id is found by trying.
package kms

import (
	"context"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/internal/chain"
)

const (
	// callTimeout bounds one call of KMS with its tries.
	callTimeout = 10 * time.Second
	// maxTries bounds the tries of one call.
	maxTries = 3
)

// Client reaches KMS.
type Client struct{ api *kms.Client }

// Connect returns a client of a region, with the credentials that the machine has: variables,
// a web identity, or the instance's role. endpoint is for a private endpoint; empty is the
// region's own.
func Connect(ctx context.Context, region, endpoint string) (*Client, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithRetryMaxAttempts(maxTries))
	if err != nil {
		return nil, fmt.Errorf("connect to KMS: %w", err)
	}
	return &Client{kms.NewFromConfig(cfg, func(o *kms.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})}, nil
}

// Key is one key of KMS.
type Key struct {
	client  *Client
	id      string
	public  []byte // uncompressed, 65 bytes
	address chain.Address
}

// Open returns the key of an id, alias or ARN.
func (c *Client) Open(ctx context.Context, id string) (*Key, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := c.api.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: aws.String(id)})
	if err != nil {
		return nil, fmt.Errorf("read the public key of %s: %w", id, err)
	}
	point, err := readPublicKey(out.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("read the public key of %s: %w", id, err)
	}
	public, err := crypto.UnmarshalPubkey(point)
	if err != nil {
		return nil, fmt.Errorf("read the public key of %s: %w", id, err)
	}
	return &Key{c, id, point, chain.Address(crypto.PubkeyToAddress(*public))}, nil
}

// Address implements keys.Key.
func (k *Key) Address() chain.Address { return k.address }

// Sign implements keys.Key. The same digest may have another signature each time.
func (k *Key) Sign(ctx context.Context, digest [32]byte) (signature [65]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := k.client.api.Sign(ctx, &kms.SignInput{
		KeyId: aws.String(k.id), Message: digest[:], MessageType: types.MessageTypeDigest,
		SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return signature, fmt.Errorf("sign with %s: %w", k.id, err)
	}
	signature, err = k.recoverable(digest, out.Signature)
	if err != nil {
		return signature, fmt.Errorf("sign with %s: %w", k.id, err)
	}
	return signature, nil
}

// recoverable returns a signature of KMS in the form of chains.
func (k *Key) recoverable(digest [32]byte, der []byte) (signature [65]byte, err error) {
	r, s, err := readSignature(der)
	if err != nil {
		return signature, err
	}
	if order := crypto.S256().Params().N; s.Cmp(new(big.Int).Rsh(order, 1)) > 0 {
		s.Sub(order, s)
	}
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:64])
	for id := range byte(2) {
		signature[64] = id
		public, err := crypto.Ecrecover(digest[:], signature[:])
		if err == nil && string(public) == string(k.public) {
			return signature, nil
		}
	}
	return [65]byte{}, errors.New("KMS has signed with another key, or something else")
}

// readSignature reads r and s, which are above zero and below the order of the curve.
func readSignature(der []byte) (r, s *big.Int, err error) {
	var pair struct{ R, S *big.Int }
	rest, err := asn1.Unmarshal(der, &pair)
	order := crypto.S256().Params().N
	inside := func(n *big.Int) bool { return n.Sign() > 0 && n.Cmp(order) < 0 }
	if err != nil || len(rest) != 0 || !inside(pair.R) || !inside(pair.S) {
		return nil, nil, errors.New("KMS returned no signature of the curve")
	}
	return pair.R, pair.S, nil
}

// The objects that name a public key of the curve secp256k1 (RFC 5480, SEC 2).
var (
	publicKeyObject = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	curveObject     = asn1.ObjectIdentifier{1, 3, 132, 0, 10}
)

// readPublicKey returns the uncompressed point of a public key in DER. The standard library
// does not know the curve.
func readPublicKey(der []byte) ([]byte, error) {
	var info struct {
		Algorithm struct{ Object, Curve asn1.ObjectIdentifier }
		Point     asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &info)
	if err != nil || len(rest) != 0 || !info.Algorithm.Object.Equal(publicKeyObject) ||
		!info.Algorithm.Curve.Equal(curveObject) || info.Point.BitLength != 8*65 {
		return nil, errors.New("it is no key of the curve secp256k1 (ECC_SECG_P256K1)")
	}
	return info.Point.Bytes, nil
}
