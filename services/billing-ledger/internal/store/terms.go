package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/limit"
)

// classes is how many classes account_limits has in its arrays.
const classes = 6

// Agreements keeps what operators agree with accounts.
type Agreements struct{ *Store }

// termColumns are the terms of an account as its row has them, by class. An array that bounds
// nothing is null.
type termColumns struct {
	perMinute, concurrent *[]int32
	tokens                *[]int64
}

func columnsOf(categories map[limit.Class]enterprise.Category) termColumns {
	var c termColumns
	perMinute, concurrent, tokens := make([]int32, classes), make([]int32, classes), make([]int64, classes)
	for class, terms := range categories {
		if terms.RequestsPerMinute != 0 {
			perMinute[class-1], c.perMinute = terms.RequestsPerMinute, &perMinute
		}
		if terms.ConcurrentRequests != 0 {
			concurrent[class-1], c.concurrent = terms.ConcurrentRequests, &concurrent
		}
		if terms.TokensPerDay != 0 {
			tokens[class-1], c.tokens = terms.TokensPerDay, &tokens
		}
	}
	return c
}

// categories returns the categories that are bounded; nil for none.
func (c termColumns) categories() map[limit.Class]enterprise.Category {
	all := map[limit.Class]enterprise.Category{}
	for i := range classes {
		var terms enterprise.Category
		if c.perMinute != nil {
			terms.RequestsPerMinute = (*c.perMinute)[i]
		}
		if c.concurrent != nil {
			terms.ConcurrentRequests = (*c.concurrent)[i]
		}
		if c.tokens != nil {
			terms.TokensPerDay = (*c.tokens)[i]
		}
		if terms != (enterprise.Category{}) {
			all[limit.Class(i+1)] = terms
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// SetTerms replaces the terms of an account; see enterprise.Store. It holds the lock on the
// wallet, so each admission is decided by the terms of before or of after.
func (s Agreements) SetTerms(ctx context.Context, id ids.AccountID, terms enterprise.Terms) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(id))
		if err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return account.ErrNotFound
		}
		c := columnsOf(terms.Categories)
		tag, err = tx.Exec(ctx, `INSERT INTO account_limits AS l (account_id, requests_per_minute, concurrent_requests,
				account_per_minute, class_per_minute, class_concurrent, class_tokens, discount, priority, terms_note)
			VALUES ($1, 0, 0, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (account_id) DO UPDATE SET account_per_minute = excluded.account_per_minute,
				class_per_minute = excluded.class_per_minute, class_concurrent = excluded.class_concurrent,
				class_tokens = excluded.class_tokens, discount = excluded.discount, priority = excluded.priority,
				terms_note = excluded.terms_note
			WHERE (l.account_per_minute, l.class_per_minute, l.class_concurrent, l.class_tokens, l.discount, l.priority,
					l.terms_note)
				IS DISTINCT FROM (excluded.account_per_minute, excluded.class_per_minute, excluded.class_concurrent,
					excluded.class_tokens, excluded.discount, excluded.priority, excluded.terms_note)`,
			[16]byte(id), terms.RequestsPerMinute, c.perMinute, c.concurrent, c.tokens, int16(terms.Discount),
			terms.Priority, terms.Note)
		if err != nil {
			return fmt.Errorf("upsert terms: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return addAct(ctx, tx, setTerms, [16]byte(id), details{
			"requests_per_minute": terms.RequestsPerMinute, "category_requests_per_minute": c.perMinute,
			"category_concurrent_requests": c.concurrent, "category_tokens_per_day": c.tokens,
			"discount_basis_points": terms.Discount, "priority": terms.Priority, "note": terms.Note,
		})
	})
}

// Terms reads the terms of an account; see enterprise.Store.
func (s Agreements) Terms(ctx context.Context, id ids.AccountID) (enterprise.Terms, error) {
	var terms enterprise.Terms
	var c termColumns
	err := s.pool.QueryRow(ctx, `SELECT coalesce(l.account_per_minute, 0), l.class_per_minute, l.class_concurrent,
			l.class_tokens, coalesce(l.discount, 0), coalesce(l.priority, false), coalesce(l.terms_note, '')
		FROM account a LEFT JOIN account_limits l ON l.account_id = a.id WHERE a.id = $1`, [16]byte(id)).
		Scan(&terms.RequestsPerMinute, &c.perMinute, &c.concurrent, &c.tokens, &terms.Discount, &terms.Priority,
			&terms.Note)
	if errors.Is(err, pgx.ErrNoRows) {
		return terms, account.ErrNotFound
	}
	if err != nil {
		return terms, fmt.Errorf("select terms: %w", err)
	}
	terms.Categories = c.categories()
	return terms, nil
}
