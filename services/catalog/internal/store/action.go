package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/weights"
)

// action is what an operator did; operator_action lists the same.
type action string

const (
	putModel      action = "put_model"
	putModelFiles action = "put_model_files"

	scheduleChange action = "schedule_model_change"
	cancelChange   action = "cancel_model_change"
	applyChange    action = "apply_model_change"
	refuseChange   action = "refuse_model_change"
)

// addAct keeps what an operator did to a model, under the operator's name, in the
// transaction that does it.
func addAct(ctx context.Context, tx pgx.Tx, did action, modelID string, details map[string]any) error {
	return addActOf(ctx, tx, actor.OfOperator(ctx), did, modelID, details)
}

func addActOf(
	ctx context.Context, tx pgx.Tx, who string, did action, modelID string, details map[string]any,
) error {
	if _, err := tx.Exec(ctx, `INSERT INTO operator_action (actor, action, model_id, detail) VALUES ($1, $2, $3, $4)`,
		who, string(did), modelID, details); err != nil {
		return fmt.Errorf("insert the audit entry of %s: %w", did, err)
	}
	return nil
}

// auditPut keeps a model's change, unless it changed nothing. The audit entry has what
// decides who may use the model and at what price. It names the price version, which
// has the prices.
func auditPut(ctx context.Context, tx pgx.Tx, current *entry.Model, next entry.Model) error {
	if current != nil && current.Same(next) {
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

// auditChange keeps what an operator did about a scheduled change. The audit entry names the change,
// which has the rest.
func auditChange(ctx context.Context, tx pgx.Tx, did action, c change.Change) error {
	return addAct(ctx, tx, did, c.Draft.ID, changeDetails(c))
}

// auditEnd keeps what became of a change at its moment, under the name of the operator who scheduled
// it.
func auditEnd(ctx context.Context, tx pgx.Tx, c change.Change) error {
	did := applyChange
	if c.State == change.Refused {
		did = refuseChange
	}
	return addActOf(ctx, tx, c.ScheduledBy, did, c.Draft.ID, changeDetails(c))
}

func changeDetails(c change.Change) map[string]any {
	was := c.Base
	then := entry.Model{Draft: c.Draft}
	then.Price.Rates = c.Rates
	details := map[string]any{
		"change_id": c.ID.String(), "effective_from": c.From.UTC().Format(time.RFC3339Nano),
		"fields": entry.Differences(was, then),
	}
	if !c.Price.IsZero() {
		details["price_version_id"] = c.Price.String()
	}
	if c.Reason != "" {
		details["reason"] = c.Reason
	}
	return details
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
