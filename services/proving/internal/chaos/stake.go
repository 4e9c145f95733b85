package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/settlement/devchain"
)

const (
	// stakedTokens is what stands behind each provider, in dollars or coins: three times what is needed, so that no
	// penalty of a run takes the provider off.
	stakedTokens = 60
	// stakers are the providers who serve nothing and are penalised each night, one on each chain.
	stakers = 2
	// penaltyShare is what a penalty takes, in basis points.
	penaltyShare = 300
	// stakedBound is how long settlement may take to see a deposit, or to move what a penalty takes into escrow.
	stakedBound = 90 * time.Second
	// appealTime is how long a provider may appeal.
	appealTime = 48 * time.Hour
)

// stakeAll puts collateral behind every provider, and behind those that serve nothing. The last one that serves and the
// last one that does not are paid in coins, because their collateral is in them. One more leaves.
func (m *market) stakeAll(ctx context.Context) error {
	all := m.setup.Providers
	var ids []string
	for _, p := range all {
		ids = append(ids, p.ProviderID)
	}
	for i := range stakers + 1 {
		id, _, err := m.peers().SignUp(ctx, "staker-"+strconv.Itoa(i+1), beneficiary(len(all)+i))
		if err != nil {
			return err
		}
		if ids = append(ids, id); i < stakers {
			m.stakers = append(m.stakers, id)
		} else {
			m.leaver = id
		}
	}
	for i, id := range ids {
		c := m.paying.chain
		if i == len(all)-1 || i == len(all)+stakers-1 {
			c = m.paying.coin
		}
		if err := m.stake(ctx, id, i, c); err != nil {
			return err
		}
	}
	return m.until(ctx, "deposits are in the books", func(ctx context.Context) (int64, error) {
		n, err := m.books.Staked(ctx)
		return int64(len(ids)) - n, err
	})
}

// stake deposits collateral for a provider on a chain, as whoever gets the provider's money.
func (m *market) stake(ctx context.Context, provider string, number int, c *devchain.Chain) error {
	amount := big.NewInt(stakedTokens * 1_000_000)
	if c.ID() == coinChain {
		amount = paychain.Whole(stakedTokens)
	}
	call, err := m.peers().PrepareDeposit(ctx, provider, int64(c.ID()), amount.String())
	if err != nil {
		return err
	}
	from := beneficiary(number)
	address, err := ethereum.ParseAddress(from)
	if err != nil {
		return err
	}
	if err := c.Fund(ctx, address, paychain.Whole(2*stakedTokens)); err != nil {
		return err
	}
	value := new(big.Int)
	if call.GetTokenAddress() == "" {
		value = amount
	} else if err := errors.Join(c.Mint(ctx, address, amount.Uint64()), c.Send(ctx,
		devchain.Transaction{From: from, To: call.GetTokenAddress(), Data: call.GetApproveCalldata()})); err != nil {
		return err
	}
	return c.Send(ctx, devchain.Transaction{From: from, To: call.GetContractAddress(), Value: value,
		Data: call.GetCalldata()})
}

// leave asks for the collateral of the provider that leaves. It is due after seven days, which are over in the third
// night, and waits for the penalty of that night.
func (m *market) leave(ctx context.Context) error {
	if m.paying == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stakedBound)
	defer cancel()
	var last error
	err := every(ctx, idleInterval, func() (bool, error) {
		last = m.peers().RequestRefund(ctx, m.leaver)
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// penalize has the verifier open a penalty of each staker, and of the provider that leaves until its refund is paid.
func (m *market) penalize(ctx context.Context) error {
	if m.paying == nil {
		return nil
	}
	all := m.stakers
	leaving, err := m.books.Leaving(ctx, m.leaver)
	if err != nil {
		return err
	}
	if leaving {
		all = append(slices.Clone(all), m.leaver)
	}
	for _, id := range all {
		if err := m.peers().OpenPenalty(ctx, id, gold.ids[0], penaltyShare); err != nil {
			return err
		}
	}
	return nil
}

// escrowed returns when all that penalties take is in escrow.
func (m *market) escrowed(ctx context.Context) error {
	return m.until(ctx, "penalties are in escrow", m.books.Unescrowed)
}

// until returns when nothing is left.
func (m *market) until(ctx context.Context, what string, left func(context.Context) (int64, error)) error {
	bounded, cancel := context.WithTimeout(ctx, stakedBound)
	defer cancel()
	var n int64
	var last error
	err := every(bounded, idleInterval, func() (bool, error) {
		n, last = left(bounded)
		return last == nil && n <= 0, nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s within %v: %d are not: %w", what, stakedBound, n, errors.Join(err, last))
	}
	return err
}
