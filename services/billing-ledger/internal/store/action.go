package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
)

// action is an action of an operator; operator_action lists the same actions.
type action string

const (
	createdAccount   action = "create_account"
	grantedCredit    action = "grant_credit"
	setLimits        action = "set_limits"
	setPlan          action = "set_plan"
	setState         action = "set_state"
	issuedKey        action = "issue_key"
	revokedKey       action = "revoke_key"
	releasedEarnings action = "release_earnings"
	forfeitEarnings  action = "forfeit_earnings"
	refundedPlan     action = "refund_plan"
	refundedTopUp    action = "refund_topup"
	froze            action = "freeze"
	liftedFreeze     action = "lift_freeze"
	refundedRequest  action = "refund_request"
	setTerms         action = "set_terms"
	invitedOperator  action = "invite_operator"
	activeOperator   action = "activate_operator"
	setOperatorRole  action = "set_operator_role"
	resetOperator    action = "reset_operator"
	endedOperator    action = "end_operator"
	paidVendor       action = "pay_vendor"
	signedIn         action = "sign_in_operator"
	answeredContact  action = "answer_contact"
)

// details are the rest of an audit entry, beyond its action and subject.
type details map[string]any

// addAct writes the audit entry of an operator's action, under the name that the gateway
// gives ("operator:alice"), in the transaction of the action. A call that changes nothing
// leaves no entry. No entry can be changed or deleted.
func addAct(ctx context.Context, tx pgx.Tx, did action, subject [16]byte, d details) error {
	if d == nil {
		d = details{}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO operator_action (actor, action, subject, detail) VALUES ($1, $2, $3, $4)`,
		actor.OfOperator(ctx), string(did), subject, d); err != nil {
		return fmt.Errorf("insert the audit entry of %s: %w", did, err)
	}
	return nil
}

// actTable is the table of what operators did.
var actTable = acttable.Table{Subject: "subject", UUID: true}

// Acts implements acts.Store.
func (s *Store) Acts(ctx context.Context, f acts.Filter) ([]acts.Act, error) {
	return actTable.Find(ctx, s.pool, f)
}
