package billingledger

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/operator"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

// operatorPlaces is how many passwords of operators are compared at a time. Operators are
// few, and these places are apart from those of users.
const operatorPlaces = 1

// newOperators makes what keeps operators.
func newOperators(peppers apikey.Peppers, deps Deps, st *store.Store) (*operator.Operators, error) {
	sealer, err := operator.NewSealer(peppers)
	if err != nil {
		return nil, err
	}
	return &operator.Operators{
		Store: store.Operators{Store: st}, Passwords: user.NewPasswordPlaces(operatorPlaces), Sealer: sealer,
		Peppers: peppers, Clock: deps.Clock, Random: deps.Random, Lookups: limit.NewSemaphore(operatorCalls),
	}, nil
}

// OperatorInvitation is what InviteOperator shows this once.
type OperatorInvitation struct{ Name, Role, Text string }

// InviteOperator invites an operator in db, under the name of a person who has the database.
// It needs no gateway, so that it works when no operator can sign in.
func InviteOperator(ctx context.Context, db *pgxpool.Pool, name, role, by string) (OperatorInvitation, error) {
	operators := &operator.Operators{
		Store: store.Operators{Store: bare(db)}, Clock: clock.System, Random: rand.Reader,
		Lookups: limit.NewSemaphore(operatorCalls),
	}
	in, err := operators.Invite(actor.WithOperator(ctx, by), name, role)
	if err != nil {
		return OperatorInvitation{}, err
	}
	return OperatorInvitation{string(in.Operator.Name), string(in.Operator.Role), in.Token.Reveal()}, nil
}
