// Package database opens the database of a service that runs in a node. It is apart from
// package node, so that a program without tables links no driver.
package database

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg"
)

// schemaWait bounds how long a service waits for the version of its schema that it needs:
// the time of a migration that began with the process.
const schemaWait = time.Minute

// Pool waits for the version of a service's schema that its program needs, at
// most a minute, and returns a pool under the service's login.
func Pool(
	ctx context.Context, n *node.Node, service string, tables pg.Tables, maxConns int32,
) (*pgxpool.Pool, error) {
	database := n.Database(service)
	if database.OwnerURL != "" {
		if err := tables.Migrate(ctx, database.OwnerURL); err != nil {
			return nil, fmt.Errorf("migrate %s: %w", tables.Schema, err)
		}
	}
	pool, err := pg.Open(ctx, pg.Config{
		URL: database.URL, Schema: tables.Schema, Role: tables.Role, MaxConns: maxConns, ApplicationName: service,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tables.Schema, err)
	}
	if err := tables.Await(ctx, pool, schemaWait, n.Log(service)); err != nil {
		pool.Close()
		return nil, err
	}
	n.OnClose(func() error { pool.Close(); return nil })
	return pool, nil
}
