package rpc

import (
	"context"
	"math"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

// ChainAdmin implements ChainAdminService.
type ChainAdmin struct {
	settlementv1.UnimplementedChainAdminServiceServer
	Chains  chain.Configs
	Readers map[chain.ID]watch.Reader
	States  ChainStates
	Lifter  *watch.Lifter
	Keeper  *deposit.Keeper
}

// ListChains returns how far each chain is read.
func (s *ChainAdmin) ListChains(
	ctx context.Context, _ *settlementv1.ListChainsRequest,
) (*settlementv1.ListChainsResponse, error) {
	states, err := s.States.States(ctx)
	if err != nil {
		return nil, err
	}
	known := map[chain.ID]store.ChainState{}
	for _, one := range states {
		known[one.Chain] = one
	}
	out := &settlementv1.ListChainsResponse{}
	for _, cfg := range s.Chains {
		out.Chains = append(out.Chains, s.state(ctx, cfg, known[cfg.ID]))
	}
	return out, nil
}

// state is one chain. What the RPCs cannot say now is left out, with the problem.
func (s *ChainAdmin) state(ctx context.Context, cfg chain.Config, at store.ChainState) *settlementv1.ChainState {
	out := &settlementv1.ChainState{ChainId: int64(cfg.ID), Name: cfg.Name, Block: int64(at.Block),
		SecondBlock: int64(at.Again)}
	if !at.Progressed.IsZero() {
		out.ProgressedAt = timestamppb.New(at.Progressed)
	}
	if at.Halt != nil {
		out.Halt = &settlementv1.ChainHalt{Block: int64(at.Halt.Block), WasHash: at.Halt.Was.String(),
			IsHash: at.Halt.Is.String(), Since: timestamppb.New(at.Since)}
	}
	reader := s.Readers[cfg.ID]
	head, err := reader.Head(ctx)
	if err == nil {
		var final chain.Block
		if final, err = reader.Final(ctx); err == nil {
			out.Final, out.Lag = int64(final.Number), max(0, int64(final.Number)-int64(at.Block))
		}
		out.Head = int64(head)
	}
	if err != nil {
		out.Problem = err.Error()
	}
	return out
}

// maxHaltReason bounds the reason of a halt of a chain that is lifted, in characters.
const maxHaltReason = 2_000

// LiftHalt accepts the changed history of a halted chain.
func (s *ChainAdmin) LiftHalt(
	ctx context.Context, req *settlementv1.LiftHaltRequest,
) (*settlementv1.LiftHaltResponse, error) {
	id, err := chainFromProto(s.Chains, req.GetChainId())
	if err != nil {
		return nil, err
	}
	hash, err := hashFromProto("block_hash", req.GetBlockHash())
	if err != nil {
		return nil, err
	}
	reason := strings.TrimSpace(req.GetReason())
	if err := checkText("reason", reason, maxHaltReason); err != nil {
		return nil, err
	}
	lift, err := s.Lifter.Lift(ctx, id, hash, operator(ctx), reason)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.LiftHaltResponse{Block: int64(lift.Back.Number)}
	for _, t := range lift.Touched {
		if t.Gone {
			out.TakenBack++
		}
	}
	return out, nil
}

// operator is the operator who calls, as histories name people.
func operator(ctx context.Context) string {
	return actor.OfOperator(actor.WithOperator(ctx, serve.Operator(ctx)))
}

// ListTransfers is one page of transfers in a state.
func (s *ChainAdmin) ListTransfers(
	ctx context.Context, req *settlementv1.ListTransfersRequest,
) (*settlementv1.ListTransfersResponse, error) {
	page, err := s.Keeper.InState(ctx, deposit.State(req.GetState()), int(req.GetPage()), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	heights, err := heightsOf(ctx, s.States)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListTransfersResponse{Total: int32(page.Total), Page: int32(page.Number),
		PageSize: int32(page.Length)}
	for _, t := range page.List {
		out.List = append(out.List, depositToProto(s.Chains, heights, t))
	}
	return out, nil
}

// MatchDeposit gives a transfer to an account.
func (s *ChainAdmin) MatchDeposit(
	ctx context.Context, req *settlementv1.MatchDepositRequest,
) (*settlementv1.MatchDepositResponse, error) {
	e, err := s.ending(ctx, req)
	if err != nil {
		return nil, err
	}
	if e.Account, err = accountFromProto(req.GetAccountId()); err != nil {
		return nil, err
	}
	e.End = deposit.Matched
	t, err := s.Keeper.End(ctx, e)
	if err != nil {
		return nil, err
	}
	return &settlementv1.MatchDepositResponse{Deposit: depositToProto(s.Chains, nil, t)}, nil
}

// ReturnDeposit notes that a transfer was sent back.
func (s *ChainAdmin) ReturnDeposit(
	ctx context.Context, req *settlementv1.ReturnDepositRequest,
) (*settlementv1.ReturnDepositResponse, error) {
	e, err := s.ending(ctx, req)
	if err != nil {
		return nil, err
	}
	if e.Back, err = hashFromProto("return_transaction_hash", req.GetReturnTransactionHash()); err != nil {
		return nil, err
	}
	e.End = deposit.SentBack
	t, err := s.Keeper.End(ctx, e)
	if err != nil {
		return nil, err
	}
	return &settlementv1.ReturnDepositResponse{Deposit: depositToProto(s.Chains, nil, t)}, nil
}

// ends is a request that ends a transfer.
type ends interface {
	GetChainId() int64
	GetTransactionHash() string
	GetPlace() int64
	GetReason() string
}

func (s *ChainAdmin) ending(ctx context.Context, req ends) (e deposit.Ending, err error) {
	if e.Chain, err = chainFromProto(s.Chains, req.GetChainId()); err != nil {
		return e, err
	}
	if e.Transaction, err = hashFromProto("transaction_hash", req.GetTransactionHash()); err != nil {
		return e, err
	}
	if req.GetPlace() < 0 || req.GetPlace() > math.MaxUint32 {
		return e, fault.New(fault.Invalid, fault.InvalidValue, "place is out of range").On("place")
	}
	e.Place, e.Actor, e.Reason = uint32(req.GetPlace()), operator(ctx), req.GetReason()
	return e, nil
}
