package settlement_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/node"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/proving/internal/peers"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/settlement/devchain"
)

// peered is a town that other processes reach too, each as the service that its certificate names.
type peered struct {
	*town
	peers *trial.Peers
}

func newPeered(t *testing.T, environ ...string) *peered {
	t.Helper()
	certified := trial.NewPeers(t)
	return &peered{newTown(t, append(certified.Environ(), environ...)...), certified}
}

// dial connects to a service of the town as another one.
func (p *peered) dial(t *testing.T, service, as string) *grpc.ClientConn {
	t.Helper()
	return p.peers.Dial(t, service, as)
}

// penalize has the verifier open a penalty of a provider for its dear model, and nobody else. It returns the penalty's
// id.
func (p *peered) penalize(t *testing.T, o *owner, basisPoints int32) string {
	t.Helper()
	req := penaltyOf(t, o, basisPoints)
	for _, other := range []string{node.EdgeGateway, node.ProviderHub} {
		if err := p.openPenalty(t, other, req); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a penalty of %s: got the error %v, want %v", other, err, codes.PermissionDenied)
		}
	}
	if err := p.openPenalty(t, node.Verifier, req); err != nil {
		t.Fatalf("open a penalty: %v", err)
	}
	return req.GetPenaltyId()
}

// openPenalty has a service open a penalty.
func (p *peered) openPenalty(t *testing.T, as string, req *settlementv1.OpenPenaltyRequest) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	return peers.OpenPenalty(ctx, p.dial(t, node.Settlement, as), req)
}

// penaltyOf is what the verifier says to open a penalty of a provider for its dear model.
func penaltyOf(t *testing.T, o *owner, basisPoints int32) *settlementv1.OpenPenaltyRequest {
	t.Helper()
	penalty, err := peers.Penalty(o.ID, dear, basisPoints)
	if err != nil {
		t.Fatal(err)
	}
	return penalty
}

// positionOf is the selector of positionOf(bytes32,address).
var positionOf = []byte{0x69, 0x46, 0x00, 0x95}

// position is what a depositor has behind a provider, as the contract of a chain says it, in the token's smallest unit.
type position struct{ free, escrow, refundAt *big.Int }

// position is that of the owner's wallet.
func (o *owner) position(t *testing.T, chain uint64) position {
	t.Helper()
	return o.positionAt(t, chain, "latest")
}

// positionAt is position at a block.
func (o *owner) positionAt(t *testing.T, chain uint64, block string) position {
	t.Helper()
	p, err := o.readPosition(t.Context(), chain, block)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (o *owner) readPosition(ctx context.Context, chain uint64, block string) (position, error) {
	var text string
	call := map[string]string{
		"to": devchain.Collateral, "data": "0x" + hex.EncodeToString(slices.Concat(positionOf, o.Subject, word(o.Wallet[:]))),
	}
	if err := devchain.Ask(ctx, o.town.Chains[chain], &text, "eth_call", call, block); err != nil {
		return position{}, err
	}
	words, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || len(words) != 4*32 {
		return position{}, fmt.Errorf("the position: got %s, want four words", text)
	}
	n := func(i int) *big.Int { return new(big.Int).SetBytes(words[32*i : 32*(i+1)]) }
	return position{n(0), n(1), n(2)}, nil
}

// waitPosition waits until the contract of a chain has so much of the owner free and in escrow, in millionths.
func (o *owner) waitPosition(t *testing.T, chain uint64, what string, free, escrow int64) {
	t.Helper()
	trial.Until(t, what, func() bool {
		p := o.position(t, chain)
		return p.free.Cmp(big.NewInt(free)) == 0 && p.escrow.Cmp(big.NewInt(escrow)) == 0
	})
}

// entries counts the entries of a kind in the books.
func (c *town) entries(t *testing.T, kind string) (n int) {
	t.Helper()
	if err := c.db.QueryRow(t.Context(), `SELECT count(*) FROM billing.entry WHERE kind = $1`, kind).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
