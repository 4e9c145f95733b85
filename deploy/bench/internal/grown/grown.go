// Package grown writes accounts and settled requests into the ledger's tables past the product, which would take days
// to make them. The rows are such as the product makes, but no entry says where the credit of the accounts came from:
// the ledger's own verification would object.
//
// Settled requests are dated on the day on which the product was started, and before its start. So what reads the
// ledger in the order of settling has passed them already, as it would have in a product that had served them. Each
// has its hold, its settled line in the partition of its day, and its line in its account's passbook.
package grown

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// batch bounds the rows of one transaction.
const batch = 250_000

// Database is the product's PostgreSQL. One goroutine at a time uses it.
type Database struct{ conn *pgx.Conn }

// Open connects as the superuser, whose URL it has.
func Open(ctx context.Context, url string) (*Database, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	// As a replica, the server fires no triggers: they see to it that rows begin as they do in the product.
	if _, err := conn.Exec(ctx, `SET search_path = billing; SET statement_timeout = 0;
		SET session_replication_role = replica`); err != nil {
		_ = conn.Close(ctx) // the first error says more
		return nil, fmt.Errorf("prepare the database: %w", err)
	}
	return &Database{conn}, nil
}

// Close ends the connection.
func (d *Database) Close(ctx context.Context) error { return d.conn.Close(ctx) }

// Accounts makes accounts with credit and a key each until there are so many accounts. shown is called with how many
// there are.
func (d *Database) Accounts(ctx context.Context, n int, shown func(int)) error {
	return d.fill(ctx, n, shown, `SELECT count(*) FROM account`, accountsSQL)
}

// Lines adds settled requests until the database has n of them. They are spread evenly over the keys. shown is called
// with how many there are.
func (d *Database) Lines(ctx context.Context, n int, shown func(int)) error {
	if _, err := d.conn.Exec(ctx, seriesSQL); err != nil {
		return fmt.Errorf("make series of usage: %w", err)
	}
	return d.fill(ctx, n, shown, `SELECT count(*) FROM hold WHERE model_id = 'grown'`, linesSQL)
}

// fill makes rows by batches. The statement's arguments are the number of rows there are and how many more to make.
func (d *Database) fill(ctx context.Context, n int, shown func(int), count, statement string) error {
	var have int
	if err := d.conn.QueryRow(ctx, count).Scan(&have); err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	for have < n {
		more := min(batch, n-have)
		if _, err := d.conn.Exec(ctx, statement, have, more); err != nil {
			return fmt.Errorf("make rows %d to %d: %w", have+1, have+more, err)
		}
		have += more
		if have%batch == 0 {
			shown(have)
		}
	}
	return nil
}

// Tidy does what the server would do behind a load that had made the rows.
func (d *Database) Tidy(ctx context.Context) error {
	for _, sql := range []string{`VACUUM ANALYZE`, `CHECKPOINT`} {
		if _, err := d.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// Size returns the bytes of the database.
func (d *Database) Size(ctx context.Context) (bytes int64, err error) {
	if err := d.conn.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&bytes); err != nil {
		return 0, fmt.Errorf("measure the database: %w", err)
	}
	return bytes, nil
}
