package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/actor"
)

// action is what an operator did beside a change of a provider. The trigger
// operator_action_entered keeps the changes, under the names that the history gives them.
type action string

const (
	createdProvider action = "create_provider"
	issuedKey       action = "issue_provider_key"
	revokedKey      action = "revoke_provider_key"
	warmedUp        action = "warm_up"
)

const insertAct = `INSERT INTO operator_action (actor, action, subject, detail) VALUES ($1, $2, $3, $4)`

// addAct adds an operator's act, under the operator's name, in the caller's transaction, or by
// itself on a pool. Callers skip it when nothing changed.
func addAct(ctx context.Context, db actDB, did action, subject string, detail map[string]any) error {
	if _, err := db.Exec(ctx, insertAct, actor.OfOperator(ctx), string(did), subject, detail); err != nil {
		return fmt.Errorf("insert the act %s: %w", did, err)
	}
	return nil
}

// actDB is a transaction or a pool.
type actDB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}
