package store

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/card"
)

// maxDetail bounds what an alarm says, and maxObject what it is about, in bytes.
const (
	maxDetail = 1024
	maxObject = 255
)

// Raise implements card.Store.
func (s Cards) Raise(ctx context.Context, a card.Alarm) (fresh bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		fresh, err = raise(ctx, tx, a)
		return err
	})
	return fresh, err
}

func raise(ctx context.Context, tx pgx.Tx, a card.Alarm) (fresh bool, err error) {
	object := printable(a.Object, maxObject)
	if object == "" {
		object = "unnamed"
	}
	tag, err := tx.Exec(ctx, `INSERT INTO card_alarm (reason, object, detail) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		string(a.Reason), object, printable(a.Detail, maxDetail))
	if err != nil {
		return false, fmt.Errorf("keep an alarm: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// printable is what can be printed of a text that a card processor sent, of at most so many bytes.
func printable(text string, limit int) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Alarms lists alarms that nobody has closed, the oldest first.
func (s Cards) Alarms(ctx context.Context, limit int) ([]card.Alarm, error) {
	rows, err := s.pool.Query(ctx, `SELECT reason, object, detail FROM card_alarm WHERE closed_at IS NULL
		ORDER BY raised_at, reason, object LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list alarms: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[card.Alarm])
	if err != nil {
		return nil, fmt.Errorf("list alarms: %w", err)
	}
	return list, nil
}

// CloseAlarm closes an alarm, and reports whether there was one to close.
func (s Cards) CloseAlarm(ctx context.Context, reason card.AlarmReason, object, by string) (bool, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE card_alarm SET closed_at = now(), closed_by = $3
		WHERE reason = $1 AND object = $2 AND closed_at IS NULL`, string(reason), object, by)
	if err != nil {
		return false, fmt.Errorf("close an alarm: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
