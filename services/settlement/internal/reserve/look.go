package reserve

import (
	"context"
	"errors"
	"fmt"
	"math"

	"svc.internal/services/settlement/internal/chain"
)

// page is how many addresses are read at once.
const page = 1_000

// Node reads a chain, as package evm does.
type Node interface {
	// Final returns the last final block.
	Final(ctx context.Context) (chain.Block, error)
	// Counts returns the next nonces of accounts as of a block.
	Counts(ctx context.Context, accounts []chain.Address, block chain.Block) ([]uint64, error)
	// Balances returns the coins of accounts as of a block, and TokenBalances what they have of a token.
	Balances(ctx context.Context, accounts []chain.Address, block chain.Block) ([]chain.Amount, error)
	TokenBalances(ctx context.Context, token chain.Address, accounts []chain.Address, block chain.Block) ([]chain.Amount,
		error)
}

// Leaving is tokens that leave by a call that the books do not have.
type Leaving struct {
	Sender chain.Address
	Nonce  uint64
	Amount chain.Amount
}

// Staked is what the positions of a chain come to as of a block.
type Staked struct {
	Sum   chain.Amount
	Block chain.Block
	// Behind reports that events of the block, or of one before, are not in the positions yet.
	Behind bool
}

// Place is a deposit address.
type Place struct {
	Index   int64
	Address chain.Address
}

// Rows are settlement's own rows.
type Rows interface {
	// Senders returns the addresses that send on a chain.
	Senders(ctx context.Context, id chain.ID) ([]chain.Address, error)
	// Unswept returns deposit addresses where tokens of the books are, from an index on: at most a limit, by index.
	Unswept(ctx context.Context, token string, from int64, limit int) ([]Place, error)
	// Leaving returns payouts that have a nonce and are not in the books.
	Leaving(ctx context.Context, id chain.ID) ([]Leaving, error)
	// Gas returns what ended calls cost in coins beyond what the books have of it.
	Gas(ctx context.Context, id chain.ID) (chain.Amount, error)
	// Staked returns what the positions of a chain come to.
	Staked(ctx context.Context, id chain.ID) (Staked, error)
}

// ErrBehind says that settlement's own rows do not follow the chain yet.
var ErrBehind = errors.New("the positions are behind their chain")

// errRange says that amounts sum to more than 2^256.
var errRange = errors.New("an amount is out of range")

// Looker reads what a chain holds and what it owes.
type Looker struct {
	Rows   Rows
	Node   Node
	Config chain.Config
}

// Tokens reads the tokens of the chain. units says what the books have of each. What leaves is read before the books,
// and they before the chain, so that nothing that they have is missing there for being new.
func (l Looker) Tokens(
	ctx context.Context, units func(context.Context) (map[string]int64, error),
) ([]Reading, error) {
	leaving, err := l.Rows.Leaving(ctx, l.Config.ID)
	if err != nil {
		return nil, err
	}
	gas, err := l.Rows.Gas(ctx, l.Config.ID)
	if err != nil {
		return nil, err
	}
	booked, err := units(ctx)
	if err != nil {
		return nil, err
	}
	senders, err := l.Rows.Senders(ctx, l.Config.ID)
	if err != nil {
		return nil, err
	}
	final, err := l.Node.Final(ctx)
	if err != nil {
		return nil, err
	}
	var readings []Reading
	for _, kind := range []chain.Kind{chain.USDC, chain.Coin} {
		asset, ok := l.Config.Asset(kind)
		if !ok {
			continue
		}
		r := Reading{Subject: Subject(asset.Name()), Chain: l.Config.ID, At: final.Number}
		left := chain.Amount{}
		if kind == chain.Coin {
			left = gas
		}
		if kind == asset.Chain.PaysOut() {
			if left, err = l.left(ctx, left, leaving, final); err != nil {
				return nil, err
			}
		}
		owed, ok := chain.AmountOfUnits(max(booked[asset.Name()], 0), asset.Decimals)
		if !ok {
			return nil, errRange
		}
		if rest, above := owed.Sub(left); above {
			r.Owed = rest
		}
		if r.Held, err = l.held(ctx, asset, senders, final); err != nil {
			return nil, err
		}
		readings = append(readings, r)
	}
	return readings, nil
}

// left adds to an amount what has left as of a block.
func (l Looker) left(
	ctx context.Context, sum chain.Amount, leaving []Leaving, final chain.Block,
) (chain.Amount, error) {
	if len(leaving) == 0 {
		return sum, nil
	}
	senders := make([]chain.Address, len(leaving))
	for i, one := range leaving {
		senders[i] = one.Sender
	}
	counts, err := l.Node.Counts(ctx, senders, final)
	if err != nil {
		return chain.Amount{}, err
	}
	for i, one := range leaving {
		if one.Nonce >= counts[i] {
			continue // it has not left
		}
		var ok bool
		if sum, ok = sum.Add(one.Amount); !ok {
			return chain.Amount{}, errRange
		}
	}
	return sum, nil
}

// held sums what the platform's addresses hold, each address once.
func (l Looker) held(
	ctx context.Context, asset chain.Asset, senders []chain.Address, final chain.Block,
) (chain.Amount, error) {
	var sum chain.Amount
	seen := map[chain.Address]bool{}
	add := func(addresses []chain.Address) error {
		var fresh []chain.Address
		for _, a := range addresses {
			if !a.IsZero() && !seen[a] {
				seen[a], fresh = true, append(fresh, a)
			}
		}
		balances, err := l.balances(ctx, asset, fresh, final)
		for _, b := range balances {
			var ok bool
			if sum, ok = sum.Add(b); !ok {
				return errRange
			}
		}
		return err
	}
	treasury, err := l.Config.TreasuryAddress()
	if err != nil {
		return sum, fmt.Errorf("read the treasury's address: %w", err)
	}
	if err := add(append([]chain.Address{treasury}, senders...)); err != nil {
		return sum, err
	}
	for from := int64(0); from <= math.MaxInt32; {
		places, err := l.Rows.Unswept(ctx, asset.Name(), from, page)
		if err != nil {
			return sum, err
		}
		addresses := make([]chain.Address, len(places))
		for i, p := range places {
			addresses[i], from = p.Address, p.Index+1
		}
		if err := add(addresses); err != nil {
			return sum, err
		}
		if len(places) < page {
			break
		}
	}
	return sum, nil
}

func (l Looker) balances(
	ctx context.Context, asset chain.Asset, of []chain.Address, at chain.Block,
) ([]chain.Amount, error) {
	switch {
	case len(of) == 0:
		return nil, nil
	case asset.Kind == chain.Coin:
		return l.Node.Balances(ctx, of, at)
	default:
		return l.Node.TokenBalances(ctx, asset.Contract, of, at)
	}
}

// Contract reads the collateral contract of the chain, at the block up to which positions follow it. ok is false where
// the chain has none, or nothing was read of it yet.
func (l Looker) Contract(ctx context.Context) (r Reading, ok bool, err error) {
	contract, err := l.Config.CollateralAddress()
	if err != nil || contract.IsZero() {
		return Reading{}, false, err
	}
	staked, err := l.Rows.Staked(ctx, l.Config.ID)
	switch {
	case err != nil:
		return Reading{}, false, err
	case staked.Behind:
		return Reading{}, false, ErrBehind
	case staked.Block.Hash.IsZero():
		return Reading{}, false, nil
	}
	asset, _ := l.Config.Asset(l.Config.Collateral.Kind)
	balances, err := l.balances(ctx, asset, []chain.Address{contract}, staked.Block)
	if err != nil {
		return Reading{}, false, err
	}
	return Reading{Subject: Contract(l.Config.ID), Chain: l.Config.ID, At: staked.Block.Number, Held: balances[0],
		Owed: staked.Sum}, true, nil
}
