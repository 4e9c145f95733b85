// Package sweep moves what consumers deposited to the treasury, a cold multisig.
//
// Once a day, an address that has at least $100 of the token that is credited on a chain is swept. Dollars leave it by
// a signed authorization (EIP-3009), which the key gas sends and pays for; coins leave it by a transaction of the
// address itself, which keeps back what its gas may cost at most. Both go through package sending: a sweep has one
// call for ever, and ends by a final receipt. What a sweep takes is counted as gone from its planning on, so that the
// balance of the address still covers what is recorded there.
package sweep

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// Purpose is that of sweeps' calls.
const Purpose = "sweep"

// MinimumUSD is what an address must have to be swept, in dollars.
const MinimumUSD = 100

const (
	// page bounds the sweeps of one pass.
	page = 100
	// coinGas is the gas that is kept back for a transfer of coins: a quarter above what it takes.
	coinGas = 26_250
	// validFor is how long an authorization is good, from when it is signed. A call that is not mined by then fails, and
	// the sweep is planned anew.
	validFor = 30 * 24 * time.Hour
)

// Sweep is one sweep.
type Sweep struct {
	ID      string
	Chain   chain.ID
	Index   uint32
	Address chain.Address
	Kind    chain.Kind
	// Amount leaves the address, fees included.
	Amount  chain.Amount
	Planned time.Time
}

// Backlog counts sweeps that an operator may look at.
type Backlog struct {
	// Planned were not sent, and Sent have no final receipt.
	Planned, Sent int
	// Stuck were planned hours ago and have not ended, or have moved nothing within the last day.
	Stuck int
}

// Store keeps sweeps.
type Store interface {
	// Plan plans today's sweeps of the addresses that have at least an amount of a token, and returns how many.
	Plan(ctx context.Context, id chain.ID, token string, least chain.Amount) (int, error)
	// Planned returns sweeps that were not sent, the oldest of each chain first.
	Planned(ctx context.Context, limit int) ([]Sweep, error)
	// Send enqueues the call of a sweep, which is sent then, in one transaction.
	Send(ctx context.Context, s Sweep, call sending.Prepared) error
	// Sent returns sweeps whose call has ended, with the end.
	Sent(ctx context.Context, limit int) ([]Ended, error)
	// End ends a sweep. left is what left the address, the fees of coins included; zero where nothing did.
	End(ctx context.Context, s Sweep, tx chain.Hash, left chain.Amount) error
}

// Ended is a sweep whose call has ended.
type Ended struct {
	Sweep
	Value chain.Amount
	sending.End
}

// Signer signs authorizations: chain-signer.
type Signer interface {
	// Authorize signs that an amount of a token goes from the deposit address of an index to the treasury.
	Authorize(ctx context.Context, a Authorization) (Signature, error)
}

// Authorization is what is signed of a token (EIP-3009). The signer has the destination in its own settings.
type Authorization struct {
	Chain       chain.ID
	Token       chain.Address
	Index       uint32
	Value       chain.Amount
	ValidBefore time.Time
	Nonce       [32]byte
}

// Signature is a signature of a deposit address.
type Signature struct {
	From chain.Address
	V    byte
	R, S [32]byte
}

// Sender prepares calls: *sending.Pipeline.
type Sender interface {
	Prepare(ctx context.Context, r sending.Request) (sending.Prepared, error)
}

// Sweeper sweeps.
type Sweeper struct {
	Store  Store
	Signer Signer
	Sender Sender
	Quotes sending.Quotes
	Config chain.Configs
	Clock  clock.Clock
}

// Pass plans, sends and ends what it can. One that fails keeps no other one waiting.
func (s *Sweeper) Pass(ctx context.Context) error {
	faults := []error{s.plan(ctx)}
	planned, err := s.Store.Planned(ctx, page)
	faults = append(faults, err)
	for _, one := range planned {
		if err := s.send(ctx, one); err != nil && !waits(err) {
			faults = append(faults, fmt.Errorf("sweep %s: %w", one.ID, err))
		}
	}
	ended, err := s.Store.Sent(ctx, page)
	faults = append(faults, err)
	for _, one := range ended {
		faults = append(faults, s.end(ctx, one))
	}
	return errors.Join(faults...)
}

// waits reports whether a sweep is sent later.
func waits(err error) bool {
	return errors.Is(err, sending.ErrBusy) || errors.Is(err, sending.ErrHalted) || errors.Is(err, sending.ErrUnfunded)
}

// plan plans the sweeps of each chain that has a treasury.
func (s *Sweeper) plan(ctx context.Context) error {
	var faults []error
	for _, cfg := range s.Config {
		treasury, err := cfg.TreasuryAddress()
		asset, ok := cfg.Asset(cfg.ID.PaysOut())
		if err != nil || treasury.IsZero() || !ok {
			continue
		}
		least := chain.NewAmount(MinimumUSD * 1_000_000)
		if asset.Kind == chain.Coin {
			quote, err := s.Quotes.Quote(ctx, cfg.ID)
			if err != nil {
				continue // another pass has a price
			}
			coin, _ := chain.AmountOfUnits(1_000_000_000, chain.CoinDecimals)
			if least, ok = coin.MulDiv(MinimumUSD*1_000_000_000, uint64(quote.Rate)); !ok {
				continue
			}
		}
		_, err = s.Store.Plan(ctx, cfg.ID, asset.Name(), least)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// send enqueues the call of a sweep.
func (s *Sweeper) send(ctx context.Context, one Sweep) error {
	cfg, ok := s.Config.Of(one.Chain)
	treasury, err := cfg.TreasuryAddress()
	if err != nil || !ok || treasury.IsZero() {
		return fmt.Errorf("chain %s has no treasury", one.Chain)
	}
	request := sending.Request{Chain: one.Chain, Key: sending.Deposit(one.Index), Purpose: Purpose, Ref: one.ID,
		To: treasury}
	if one.Kind == chain.Coin {
		fee, fits := cfg.MaxGasPrice.MulDiv(coinGas, 1)
		rest, enough := one.Amount.Sub(fee)
		if !fits || !enough {
			return fmt.Errorf("the gas may cost more than %s", one.Amount)
		}
		request.Value = rest
	} else if request, err = s.authorized(ctx, cfg, one, request); err != nil {
		return err
	}
	prepared, err := s.Sender.Prepare(ctx, request)
	if err != nil {
		return err
	}
	return s.Store.Send(ctx, one, prepared)
}

// authorized makes the call that sends an authorization.
func (s *Sweeper) authorized(
	ctx context.Context, cfg chain.Config, one Sweep, request sending.Request,
) (sending.Request, error) {
	asset, ok := cfg.Asset(chain.USDC)
	if !ok {
		return request, fmt.Errorf("chain %s has no usdc", cfg.ID)
	}
	a := Authorization{Chain: one.Chain, Token: asset.Contract, Index: one.Index, Value: one.Amount,
		ValidBefore: s.Clock.Now().Add(validFor).Truncate(time.Second), Nonce: sha256.Sum256([]byte("sweep " + one.ID))}
	signature, err := s.Signer.Authorize(ctx, a)
	if err != nil {
		return request, err
	}
	if signature.From != one.Address {
		return request, fmt.Errorf("the signer's deposit address %d is %s, and ours %s", one.Index, signature.From,
			one.Address)
	}
	request.Data = encode(a, signature, request.To)
	request.Key, request.To = sending.Gas, asset.Contract
	return request, nil
}

// selector is that of transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32).
var selector = []byte{0xe3, 0xee, 0x16, 0x0e}

// encode is the call of transferWithAuthorization.
func encode(a Authorization, s Signature, treasury chain.Address) []byte {
	word := func(b []byte) []byte { return append(make([]byte, 32-len(b)), b...) }
	value, before := a.Value.Bytes(), chain.NewAmount(uint64(a.ValidBefore.Unix())).Bytes()
	data := append([]byte{}, selector...)
	for _, w := range [][]byte{s.From[:], treasury[:], value[:], {0}, before[:], a.Nonce[:], {s.V}, s.R[:], s.S[:]} {
		data = append(data, word(w)...)
	}
	return data
}

// end ends a sweep by the end of its call.
func (s *Sweeper) end(ctx context.Context, one Ended) error {
	moved := one.Value
	if one.Kind == chain.USDC {
		moved = one.Amount
	}
	left, ok := Left(one.Kind, one.Outcome, moved, one.Cost)
	if !ok {
		return fmt.Errorf("sweep %s: its cost cannot be", one.ID)
	}
	return s.Store.End(ctx, one.Sweep, one.Transaction, left)
}

// Left returns what left an address by a call that was to move an amount. Of coins the gas left it as well, even where
// the transfer failed. ok is false beyond 2^256.
func Left(kind chain.Kind, outcome sending.Outcome, moved, cost chain.Amount) (left chain.Amount, ok bool) {
	if outcome != sending.Succeeded {
		moved = chain.Amount{}
	}
	if kind != chain.Coin {
		return moved, true
	}
	return moved.Add(cost)
}
