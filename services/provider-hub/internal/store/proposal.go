package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

// maxDueOwners bounds the proposals to own a provider that are settled for one wallet.
// The proposals after the first lapse.
const maxDueOwners = 8

// proposalColumns reads the waiting proposals, as n, with their state by the database's
// clock. A wallet has one provider: the provider that the wallet is proven to own, or the
// provider for which its proposal fell due first.
const proposalColumns = `
	SELECT n.*, n.kind = 'owner' AND (
		EXISTS (SELECT FROM provider o
			WHERE o.owner_address = n.address AND o.owner_proven_at IS NOT NULL AND o.provider_id <> n.provider_id)
		OR EXISTS (SELECT FROM provider_proposal_now e JOIN provider o USING (provider_id)
			WHERE e.kind = 'owner' AND e.address = n.address AND e.due AND o.owner_proven_at IS NULL
				AND o.status NOT IN ('suspended', 'rejected')
				AND (e.proposed_at, e.proposal_id) < (n.proposed_at, n.proposal_id))) AS taken
	FROM provider_proposal_now n`

// proposal is a row of proposalColumns as the database writes it in JSON.
type proposal struct {
	ID            string     `json:"proposal_id"`
	Kind          string     `json:"kind"`
	Address       string     `json:"address"`
	Signer        string     `json:"signer"`
	Key           string     `json:"key_id"`
	At            time.Time  `json:"proposed_at"`
	TakesEffectAt *time.Time `json:"takes_effect_at"`
	Due           bool       `json:"due"`
	KeyEnded      bool       `json:"key_ended"`
	Taken         bool       `json:"taken"`
}

func proposals(rows []proposal) (all provider.Proposals, err error) {
	for _, r := range rows {
		p := provider.Proposal{
			Kind: provider.ProposalKind(r.Kind), Address: r.Address, Signer: r.Signer, At: r.At.UTC(),
			TakesEffectAt: zero(r.TakesEffectAt).UTC(),
			Due:           r.Due, KeyEnded: r.KeyEnded, Taken: r.Taken,
		}
		if p.ID, err = ids.ParseProposal(r.ID); err != nil {
			return provider.Proposals{}, fmt.Errorf("read a proposal: %w", err)
		}
		if p.Key, err = ids.ParseKey(r.Key); err != nil {
			return provider.Proposals{}, fmt.Errorf("read a proposal: %w", err)
		}
		switch p.Kind {
		case provider.ProposedOwner:
			all.Owner = p
		case provider.ProposedBeneficiary:
			all.Beneficiary = p
		}
	}
	return all, nil
}

// keepProposals writes the changed proposals of an account whose row is locked, and reads
// when the new ones take effect.
func keepProposals(ctx context.Context, tx pgx.Tx, a *provider.Account, before provider.Proposals) error {
	b := &pgx.Batch{}
	for _, p := range [][2]provider.Proposal{{before.Owner, a.Proposed.Owner},
		{before.Beneficiary, a.Proposed.Beneficiary}} {
		was, is := p[0], p[1]
		if was.ID == is.ID {
			continue
		}
		if !was.ID.IsZero() {
			b.Queue(`DELETE FROM provider_proposal WHERE proposal_id = $1`, was.ID)
		}
		if !is.ID.IsZero() {
			b.Queue(`INSERT INTO provider_proposal (proposal_id, provider_id, kind, address, signer, key_id)
				VALUES ($1, $2, $3, $4, $5, $6)`,
				is.ID, a.ID, is.Kind, is.Address, nullText(is.Signer), is.Key)
		}
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	got, err := scanKept(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1`, a.ID))
	if err != nil {
		return err
	}
	if got.Proposed.Owner.Taken && got.Proposed.Owner.ID != before.Owner.ID {
		return errOwned()
	}
	*a = got
	return nil
}

// Became implements provider.Store.
func (s *Store) Became(ctx context.Context, id ids.ProviderID, proposal ids.ProposalID) (what string, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT what FROM provider_status_change WHERE proposal_id = $2 AND provider_id = $1
		ORDER BY change_id DESC LIMIT 1`, id, proposal).Scan(&what)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what became of a proposal: %w", err)
	}
	return what, nil
}

// DueOwners implements provider.Store.
func (s *Store) DueOwners(ctx context.Context, address string) ([]ids.ProviderID, error) {
	return s.providers(ctx, `
		SELECT provider_id FROM provider_proposal_now WHERE kind = 'owner' AND address = $1 AND due
		ORDER BY proposed_at, proposal_id LIMIT $2`, address, maxDueOwners)
}

// settling reads the providers whose proposals took effect or lapsed, the oldest first. A
// proposal that lapsed because its account may not connect is written down when another
// one is.
func (s *Store) settling(ctx context.Context, limit int) ([]ids.ProviderID, error) {
	return s.providers(ctx, `
		SELECT provider_id FROM provider_proposal_now WHERE due OR key_ended ORDER BY proposed_at LIMIT $1`, limit)
}

func (s *Store) providers(ctx context.Context, sql string, args ...any) ([]ids.ProviderID, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the proposals that are over: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.ProviderID])
	if err != nil {
		return nil, fmt.Errorf("read the proposals that are over: %w", err)
	}
	return list, nil
}
