package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/weights"
)

// action is what an operator did; operator_action lists the same.
type action string

const (
	putModel      action = "put_model"
	putModelFiles action = "put_model_files"
)

// addAct keeps what an operator did to a model, under the operator's name, in the
// transaction that does it.
func addAct(ctx context.Context, tx pgx.Tx, did action, modelID string, details map[string]any) error {
	if _, err := tx.Exec(ctx, `INSERT INTO operator_action (actor, action, model_id, detail) VALUES ($1, $2, $3, $4)`,
		actor.OfOperator(ctx), string(did), modelID, details); err != nil {
		return fmt.Errorf("insert the audit entry of %s: %w", did, err)
	}
	return nil
}

// auditPut keeps a model's change, unless it changed nothing. The audit entry has what
// decides who may use the model and at what price. It names the price version, which
// has the prices.
func auditPut(ctx context.Context, tx pgx.Tx, current *entry.Model, next entry.Model) error {
	if current != nil && current.Equal(next.Draft) && current.Price.ID == next.Price.ID {
		return nil
	}
	details := map[string]any{
		"created": current == nil, "name": next.Name, "category": next.Category, "kind": next.Kind, "tier": next.Tier,
		"active":         next.Active,
		"context_tokens": next.ContextTokens, "max_output_tokens": next.MaxOutputTokens,
		"price_version_id": next.Price.ID.String(),
	}
	if next.Successor != "" {
		details["successor"] = next.Successor
	}
	if !next.DeprecatedAt.IsZero() {
		details["deprecated_at"] = next.DeprecatedAt.UTC().Format(time.RFC3339Nano)
	}
	return addAct(ctx, tx, putModel, next.ID, details)
}

// auditFiles keeps a change of a model's files by their composite hash.
func auditFiles(ctx context.Context, tx pgx.Tx, modelID string, set weights.Set) error {
	details := map[string]any{"files": len(set.Files), "weight_source_url": set.SourceURL}
	if !set.Empty() {
		details["composite_hash"] = set.Composite.String()
	}
	return addAct(ctx, tx, putModelFiles, modelID, details)
}

// actTable is the table of what operators did.
var actTable = acttable.Table{Subject: "model_id"}

// Acts implements acts.Store.
func (s *Store) Acts(ctx context.Context, f acts.Filter) ([]acts.Act, error) {
	return actTable.Find(ctx, s.pool, f)
}
